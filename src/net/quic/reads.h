/* Files that are read straight into packets: when a train of packets is whole, parts of a file that
 * follow each other are read by one preadv(). A system call and a copy for each packet would cost a
 * third of what it takes to seal it. */
#ifndef NET_QUIC_READS_H
#define NET_QUIC_READS_H

#include <stdint.h>

struct quic_stream_state;

/* The data of a STREAM frame. */
struct quic_read {
    struct quic_stream_state *stream;
    unsigned char *frame; /* where the frame begins in the packet */
    unsigned char *end;   /* after its data */
    uint32_t len;         /* bytes of data */
    int fd;
    uint64_t offset; /* position in the file */
};

/* Before a frame is begun: streams may be reset, as by quic_reads_finish. */
void quic_reads_make_room(void);
void quic_read_later(const struct quic_read *read);
/* Before the packets are sealed. A frame whose data cannot be read is made PADDING, and its stream
 * is reset. */
void quic_reads_finish(void);

#endif
