/* DATA frames of memory and of files, and the end of a stream. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fatal.h"
#include "http/request/request.h"
#include "http/v2/v2.h"

void v2_put_end(struct v2_stream *stream)
{
    struct v2_connection *c = stream->connection;
    const struct fields *trailers = stream->request->response.trailers;

    stream->is_output_ended = true;
    if (trailers != NULL && trailers->count != 0) {
        v2_send_trailers(stream);
    } else {
        char *buffer = conn_out_room(c->conn, FRAME_HEAD_SIZE);
        frame_put(buffer, 0, FRAME_DATA, FLAG_END_STREAM, stream->id);
        conn_out_commit(c->conn, FRAME_HEAD_SIZE);
        v2_spend(stream, 0, 1, false);
    }
}

/* DATA frames of memory: head and bytes go where there is room. */
static void put_memory(struct v2_stream *stream, struct str bytes, size_t chunk, bool is_last)
{
    struct conn *conn = stream->connection->conn;

    while (bytes.len != 0) {
        struct str part = str_head(bytes, chunk);
        char *buffer = conn_out_room(conn, FRAME_HEAD_SIZE);

        bytes = str_skip(bytes, part.len);
        frame_put(buffer, (uint32_t) part.len, FRAME_DATA,
                  bytes.len == 0 && is_last ? FLAG_END_STREAM : 0, stream->id);
        conn_out_commit(conn, FRAME_HEAD_SIZE);
        conn_write(conn, part);
    }
}

#define BATCH_BYTES                                                                                \
    (64 * 1024) /* of DATA frames that are read from a file at a time, with their heads */
#define BATCH_FRAMES 32

/* Frames of a file, on their way to the socket. */
struct batch {
    char *buffer;
    uint32_t size;
};

static void batch_sent(void *arg)
{
    struct batch *batch = arg;

    conn_buffer_free(batch->buffer, batch->size);
    free(batch);
}

/* Reads into all of these. False: the file has become shorter, or cannot be read. */
static bool read_all(struct request *request, int fd, off_t offset, struct iovec *iov, int count)
{
    while (count != 0) {
        ssize_t n = preadv(fd, iov, count, offset);
        if (n <= 0) {
            if (n < 0 && errno == EINTR) {
                continue;
            }
            request->log.action = "sending response to client";
            log_alert(&request->log, n == 0 ? 0 : errno, "file was truncated at %lld",
                      (long long) offset);
            return false;
        }
        offset += n;
        for (; count != 0 && (size_t) n >= iov->iov_len; iov++, count--) {
            n -= (ssize_t) iov->iov_len;
        }
        if (count != 0) {
            iov->iov_base = (char *) iov->iov_base + n;
            iov->iov_len -= (size_t) n;
        }
    }
    return true;
}

struct file_part {
    int fd;
    off_t offset;
    size_t size;
};

/*
 * DATA frames of a file: many with one read, and the reading is no more than sendfile would do,
 * which would be asked for each frame alone.
 */
static bool put_file(struct v2_stream *stream, struct file_part from, size_t chunk, bool is_last)
{
    size_t size = from.size;
    struct conn *conn = stream->connection->conn;
    size_t frames = (size + chunk - 1) / chunk;
    struct batch *batch = malloc(sizeof(*batch));
    struct iovec iov[BATCH_FRAMES];

    if (batch == NULL) {
        fatal_no_memory(sizeof(*batch));
    }
    batch->size = (uint32_t) (size + frames * FRAME_HEAD_SIZE);
    batch->buffer = conn_buffer_alloc(batch->size);
    char *at = batch->buffer;
    size_t left = size;
    for (size_t i = 0; i < frames; i++) {
        size_t part = left < chunk ? left : chunk;
        left -= part;
        at = frame_put(at, (uint32_t) part, FRAME_DATA, left == 0 && is_last ? FLAG_END_STREAM : 0,
                       stream->id);
        iov[i] = (struct iovec){.iov_base = at, .iov_len = part};
        at += part;
    }
    if (!read_all(stream->request, from.fd, from.offset, iov, (int) frames)) {
        batch_sent(batch);
        return false;
    }
    conn_write_reference(conn, (struct str){batch->buffer, batch->size}, batch_sent, batch);
    return true;
}

/* Only one where others wait for their turn. */
size_t v2_put_frames(struct v2_stream *stream, const struct body_piece *piece, uint64_t from,
                     size_t granted, bool is_last)
{
    uint64_t left = (piece->bytes.data != NULL ? piece->bytes.len : piece->size) - from;
    struct v2_connection *c = stream->connection;
    const struct fields *trailers = stream->request->response.trailers;
    size_t size = granted < BATCH_BYTES ? granted : BATCH_BYTES;
    uint64_t chunk = v2_chunk_size(stream->request->location);

    chunk = chunk < c->peer_frame_max ? chunk : c->peer_frame_max;
    chunk = chunk < BATCH_BYTES - FRAME_HEAD_SIZE ? chunk : BATCH_BYTES - FRAME_HEAD_SIZE;
    uint64_t frames = BATCH_BYTES / (chunk + FRAME_HEAD_SIZE);
    frames = c->scheduler.waiting_count != 0 ? 1 : frames < BATCH_FRAMES ? frames : BATCH_FRAMES;
    size = size < chunk * frames ? size : (size_t) (chunk * frames);
    bool ends_stream = is_last && size == left && (trailers == NULL || trailers->count == 0);
    if (piece->bytes.data != NULL) {
        put_memory(stream, (struct str){piece->bytes.data + from, size}, (size_t) chunk,
                   ends_stream);
    } else if (!put_file(stream, (struct file_part){piece->fd, piece->offset + (off_t) from, size},
                         (size_t) chunk, ends_stream)) {
        return 0;
    }
    stream->is_output_ended = ends_stream;
    v2_spend(stream, size, (size + chunk - 1) / chunk, size < 64 && size < left);
    return size;
}
