/* Sends the request to the backend: its header, and its body as STDIN records. */
#include <errno.h>
#include <unistd.h>

#include "http/modules/backends/fastcgi/connection.h"

#define PIECE_MAX (32 * 1024) /* bytes of the request body in one record */

void fastcgi_send_head(struct exchange *x)
{
    struct fastcgi_stream *stream = fastcgi_stream_of(x);
    struct conn *conn = x->connection->conn;
    uint64_t before = conn->queued;
    char *head =
        (char *) x->head.data; /* writable: fastcgi_make_request made it for this request */
    /* A backend starts the script at the empty PARAMS record that ends the parameters. If the body
     * is streamed, its first bytes may not have arrived, or never will: that record is sent with
     * the first bytes (fastcgi_send_body). */
    size_t held = x->body_mode == SENT_BODY_STREAMED ? RECORD_HEADER_SIZE : 0;

    if (stream->asks) {
        conn_write(conn, get_values_record);
        stream->connection->has_asked = true;
    }
    if (record_read(head).id != stream->id) {
        records_set_id(head, x->head.len, stream->id);
    }
    head[RECORD_BEGIN_FLAGS_AT] = stream->keeps ? RECORD_KEEP_CONN : 0;
    stream->owes_params_end = held != 0;
    conn_write(conn, str_head(x->head, x->head.len - held));
    output_share_add(&stream->records, conn, conn->queued - before);
    if (x->body_mode == SENT_BODY_STREAMED) {
        conn_flush_later(conn); /* the client may be slow */
    }
}

/* Queues the header of a record; its content follows. */
static void write_header(struct conn *conn, enum record_type type, uint16_t id, size_t content)
{
    char *at = conn_out_room(conn, RECORD_HEADER_SIZE);

    record_write(at, type, id, (uint16_t) content);
    conn_out_commit(conn, RECORD_HEADER_SIZE);
}

void fastcgi_abort_request(struct conn *conn, uint16_t id)
{
    char *at = conn_out_room(conn, RECORD_HEADER_SIZE);

    record_write(at, RECORD_ABORT_REQUEST, id, 0);
    conn_out_commit(conn, RECORD_HEADER_SIZE);
    conn_flush_later(conn);
}

static void close_copy(void *arg)
{
    close((int) (intptr_t) arg);
}

/* Makes a piece of the body independent of its request, as the queue of a shared connection
 * requires: memory will be copied when it is queued, a file gets a duplicate descriptor. False: out
 * of descriptors; the attempt has failed. */
static bool own_piece(struct body_piece *piece)
{
    if (piece->bytes.data != NULL) {
        piece->is_volatile = true;
        return true;
    }
    int fd = dup(piece->fd);
    if (fd == -1) {
        return false;
    }
    if (piece->release != NULL) {
        piece->release(piece->release_arg);
    }
    piece->fd = fd;
    piece->release = close_copy;
    piece->release_arg = (void *) (intptr_t) fd;
    return true;
}

/* Sends the piece as records; its release function is queued with the last one. */
static void send_piece(struct exchange *x, const struct body_piece *piece, uint16_t id)
{
    bool is_file = piece->bytes.data == NULL;
    uint64_t left = is_file ? piece->size : piece->bytes.len;
    struct body_piece part = *piece;

    part.release = NULL;
    while (left != 0) {
        size_t n = left < PIECE_MAX ? (size_t) left : PIECE_MAX;

        if (left == n) {
            part.release = piece->release;
            part.release_arg = piece->release_arg;
        }
        write_header(x->connection->conn, RECORD_STDIN, id, n);
        if (is_file) {
            part.size = n;
        } else {
            part.bytes.len = n;
        }
        exchange_send_piece(x, &part);
        if (is_file) {
            part.offset += (off_t) n;
        } else {
            part.bytes.data += n;
        }
        left -= n;
    }
}

void fastcgi_send_body(struct exchange *x, const struct body_piece *piece, bool is_last)
{
    struct fastcgi_stream *stream = fastcgi_stream_of(x);
    struct conn *conn = x->connection->conn;
    uint64_t before = conn->queued;
    struct body_piece own;

    if (stream->owes_params_end) {
        stream->owes_params_end = false;
        write_header(conn, RECORD_PARAMS, stream->id, 0);
    }
    if (piece != NULL && (piece->bytes.len != 0 || piece->size != 0)) {
        if (stream->connection->is_shared) {
            own = *piece;
            piece = &own;
            if (!own_piece(&own)) {
                exchange_log(x, LOG_CRIT, errno, "dup() failed");
                stream->is_bad = true;
                return;
            }
        }
        send_piece(x, piece, stream->id);
    }
    if (is_last) {
        write_header(conn, RECORD_STDIN, stream->id, 0);
    }
    output_share_add(&stream->records, conn, conn->queued - before);
}
