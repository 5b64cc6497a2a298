/* Bytes of files that the next packets will need; for each of a few streams what was read last. */
#include "net/quic/ahead.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* What was read for a stream. */
struct ahead_part {
    uint64_t reader; /* 0: nothing */
    uint64_t start;  /* in the stream */
    uint32_t len;    /* bytes */
    char bytes[QUIC_AHEAD_BYTES];
};

static struct ahead_part ahead_parts[QUIC_AHEAD_READERS];

/* Reads n bytes at least, at most `most`. Gives how many; fewer than n: the file has no more, or an
 * error. */
static uint32_t ahead_pread(const struct quic_file_bytes *bytes, char *to, uint32_t n,
                            uint32_t most)
{
    uint32_t done = 0;

    while (done < n) {
        ssize_t got = pread(bytes->fd, to + done, most - done, (off_t) (bytes->file_offset + done));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            break;
        }
        done += (uint32_t) got;
    }
    return done;
}

bool quic_ahead_read(const struct quic_file_bytes *bytes, char *to, uint32_t n)
{
    struct ahead_part *part = &ahead_parts[bytes->reader % QUIC_AHEAD_READERS];
    uint32_t most = bytes->left < QUIC_AHEAD_BYTES ? (uint32_t) bytes->left : QUIC_AHEAD_BYTES;

    if (part->reader == bytes->reader && bytes->offset >= part->start &&
        bytes->offset + n <= part->start + part->len) {
        memcpy(to, part->bytes + (bytes->offset - part->start), n);
        return true;
    }
    if (bytes->is_again || n >= most) {
        return ahead_pread(bytes, to, n, n) == n;
    }
    part->reader = 0;
    uint32_t got = ahead_pread(bytes, part->bytes, n, most);
    if (got < n) {
        return false;
    }
    part->reader = bytes->reader;
    part->start = bytes->offset;
    part->len = got;
    memcpy(to, part->bytes, n);
    return true;
}
