/* Reading files in larger parts than packets need: a system call for each packet would cost as much
 * as to seal it. */
#ifndef NET_QUIC_AHEAD_H
#define NET_QUIC_AHEAD_H

#include <stdbool.h>
#include <stdint.h>

#define QUIC_AHEAD_BYTES 16384u /* read at once */
#define QUIC_AHEAD_READERS 8u   /* that take turns without reading twice */

/* Bytes of a file that a stream sends. */
struct quic_file_bytes {
    uint64_t reader; /* a number that no other stream of the worker ever had */
    uint64_t offset; /* of the bytes in the stream */
    int fd;
    uint64_t file_offset; /* position in the file */
    uint64_t left;        /* bytes of the file from there on that the stream sends */
    bool is_again;        /* they were sent before: nothing is read ahead */
};

/* Copies n of them, n <= left. False: the file is shorter, or cannot be read. */
bool quic_ahead_read(const struct quic_file_bytes *bytes, char *to, uint32_t n);

#endif
