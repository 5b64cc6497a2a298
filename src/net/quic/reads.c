/* Files that are read straight into packets. */
#define _GNU_SOURCE
#include "net/quic/reads.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "net/quic/private.h"

#define READS_MOST 64u /* a train has one or two for each packet */

enum read_state { READ_WAITS, READ_DONE, READ_FAILED };

static struct {
    struct quic_read parts[READS_MOST];
    enum read_state states[READS_MOST];
    unsigned count;
} reads;

/* Gives how many of the pieces were read whole: all, but when the file is too short or an error
 * occurs. */
static unsigned pieces_read(struct iovec *pieces, unsigned count, int fd, uint64_t offset)
{
    unsigned done = 0;

    while (done < count) {
        ssize_t n = preadv(fd, pieces + done, (int) (count - done), (off_t) offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            break;
        }
        offset += (uint64_t) n;
        for (; done < count && (size_t) n >= pieces[done].iov_len; done++) {
            n -= (ssize_t) pieces[done].iov_len;
        }
        if (n != 0) {
            pieces[done].iov_base = (char *) pieces[done].iov_base + n;
            pieces[done].iov_len -= (size_t) n;
        }
    }
    return done;
}

/* One part, and all later ones that continue it. */
static void parts_read(unsigned first)
{
    struct iovec pieces[READS_MOST];
    unsigned indexes[READS_MOST], count = 0;
    uint64_t next = reads.parts[first].offset;

    for (unsigned i = first; i < reads.count; i++) {
        const struct quic_read *part = &reads.parts[i];
        if (reads.states[i] == READ_WAITS && part->fd == reads.parts[first].fd &&
            part->offset == next) {
            pieces[count] = (struct iovec){part->end - part->len, part->len};
            indexes[count++] = i;
            next += part->len;
        }
    }
    unsigned whole = pieces_read(pieces, count, reads.parts[first].fd, reads.parts[first].offset);
    for (unsigned i = 0; i < count; i++) {
        reads.states[indexes[i]] = i < whole ? READ_DONE : READ_FAILED;
    }
}

/* The packet still asks for an acknowledgement, as its record says. */
static void frame_drop(const struct quic_read *part)
{
    memset(part->frame, QUIC_FRAME_PADDING, (size_t) (part->end - part->frame));
    part->frame[0] = QUIC_FRAME_PING;
    quic_stream_reset(&part->stream->head, part->stream->head.connection->settings->file_error);
}

void quic_reads_make_room(void)
{
    if (reads.count == READS_MOST) {
        quic_reads_finish();
    }
}

void quic_read_later(const struct quic_read *read)
{
    assert(reads.count < READS_MOST);
    reads.parts[reads.count] = *read;
    reads.states[reads.count++] = READ_WAITS;
}

void quic_reads_finish(void)
{
    unsigned count = reads.count;

    for (unsigned i = 0; i < count; i++) {
        if (reads.states[i] == READ_WAITS) {
            parts_read(i);
        }
    }
    reads.count = 0;
    for (unsigned i = 0; i < count; i++) { /* a reset releases the file that others are read from */
        if (reads.states[i] == READ_FAILED) {
            frame_drop(&reads.parts[i]);
        }
    }
}
