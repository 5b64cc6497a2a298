/* The response of a FastCGI backend, after its records were decoded: a CGI header, a body,
 * stderr. */
#include "http/exchange/heads/response_head.h"
#include "http/modules/backends/fastcgi/connection.h"
#include "server/generation.h"

/* Most bytes of stderr of one request; beyond this the request fails. Each record counts as one
 * more line of the log. */
#define NOISE_MAX (4 * 1024 * 1024)
#define NOISE_OF_RECORD 256

/* ---- stderr ---- */

bool fastcgi_bear_noise(struct fastcgi_stream *stream, size_t size)
{
    stream->noise += NOISE_OF_RECORD + size;
    if (stream->noise <= NOISE_MAX) {
        return true;
    }
    if (!stream->is_bad) {
        stream->is_bad = true;
        stream->connection->is_bad |= !stream->connection->is_shared;
        counters_mine->limited++;
        exchange_log(stream->x, LOG_ERROR, 0, "upstream sent too much to FastCGI stderr");
    }
    return false;
}

void fastcgi_note_stderr(struct fastcgi_stream *stream, struct str text)
{
    struct exchange *x = stream->x;

    if (!fastcgi_bear_noise(stream, text.len)) {
        return;
    }
    if (!stream->has_begun) {
        vec_each(const struct str, caught, &fastcgi_settings_of(x)->catch_stderr) {
            if (str_find(text, *caught) != NULL) {
                stream->is_caught = true;
            }
        }
    }
    while (text.len != 0 && (text.data[text.len - 1] == '\n' || text.data[text.len - 1] == '\r')) {
        text.len--;
    }
    if (text.len != 0) {
        exchange_log(x, LOG_ERROR, 0, "FastCGI sent in stderr: \"%.*s\"", STR_ARG(text));
    }
}

/* Decodes buffered input without reading from the socket. */
static inline bool decode_more(struct fastcgi_stream *stream, bool joins)
{
    return stream->connection->is_shared ? fastcgi_shared_fill(stream)
                                         : fastcgi_decode(stream, joins);
}

/* ---- the header ---- */

/* If an application sends a body in response to HEAD, it fills the cache, as in nginx. */
static bool has_no_body(const struct exchange *x)
{
    return x->response.status == 204 || x->response.status == 304 ||
           (x->request->method == METHOD_HEAD && !x->cache.is_cacheable);
}

/* Received bytes from the first unread byte of the header on, without the framing between parts of
 * the header. */
static uint64_t rest_of_response(const struct fastcgi_stream *stream)
{
    return stream->connection->is_shared
               ? fastcgi_input(stream->x).len + stream->late
               : conn_input_len(stream->connection->connection->conn) - stream->joined;
}

enum head_result fastcgi_read_head(struct exchange *x)
{
    struct fastcgi_stream *stream = fastcgi_stream_of(x);

    for (;;) {
        enum head_result result = stream->is_caught ? HEAD_BAD : HEAD_MORE;
        size_t before = fastcgi_input(x).len;
        uint64_t rest = rest_of_response(stream);

        if (result == HEAD_MORE && before != 0) {
            result = upstream_response_read_fields(x, true);
        }
        if (result == HEAD_DONE && x->response.status >= 200) {
            stream->has_begun = true;
            stream->head_received =
                x->attempt->bytes_received - (rest - (before - fastcgi_input(x).len));
            x->response.has_no_body = has_no_body(x);
        }
        if (result != HEAD_MORE) {
            return result;
        }
        if (!decode_more(stream, true)) {
            break;
        }
    }
    if (stream->is_bad) {
        return HEAD_BAD;
    }
    if (stream->is_stdout_closed) {
        exchange_log(x, LOG_ERROR, 0, "upstream prematurely closed FastCGI stdout");
        return HEAD_BAD;
    }
    if (stream->has_ended) {
        exchange_log(x, LOG_ERROR, 0, "upstream sent unexpected FastCGI record: %d",
                     RECORD_END_REQUEST);
        /* A rejected request has not begun: treated as if the connection had just ended. */
        return stream->protocol_status == RECORD_CANT_MPX_CONN ||
                       stream->protocol_status == RECORD_OVERLOADED
                   ? HEAD_MORE
                   : HEAD_BAD;
    }
    return HEAD_MORE;
}

/* ---- the body ---- */

static bool is_short(const struct exchange *x, const struct fastcgi_stream *stream)
{
    return x->response.content_length > (int64_t) stream->given && !x->response.has_no_body &&
           !upstream_response_is_head_alone(x);
}

/* The bytes that were received, without those beyond Content-Length. May be empty. */
static struct str take_within_length(struct exchange *x, struct fastcgi_stream *stream)
{
    struct str data = fastcgi_input(x);
    size_t came = data.len;

    if (x->response.has_no_body) {
        data.len = 0;
    } else if (x->response.content_length >= 0) {
        uint64_t left = (uint64_t) x->response.content_length - stream->given;
        if (came > left) {
            data.len = (size_t) left;
            if (!stream->is_excess) {
                stream->is_excess = true;
                exchange_log(x, LOG_WARN, 0,
                             "upstream sent more data than specified in \"Content-Length\" header");
            }
        }
    }
    fastcgi_consume(x, came);
    stream->given += data.len;
    return data;
}

/* The records say that the response has ended. */
static enum body_result records_finish(struct exchange *x, const struct fastcgi_stream *stream)
{
    if (is_short(x, stream)) {
        exchange_log(x, LOG_ERROR, 0, "upstream prematurely closed FastCGI stdout");
        return BODY_BAD;
    }
    if (!stream->has_ended) {
        return BODY_MORE;
    }
    x->is_reusable =
        stream->keeps && !stream->is_excess && stream->protocol_status == RECORD_REQUEST_COMPLETE;
    return BODY_END;
}

enum body_result fastcgi_read_body(struct exchange *x, struct str *data)
{
    struct fastcgi_stream *stream = fastcgi_stream_of(x);

    do {
        if (fastcgi_input(x).len != 0) {
            *data = take_within_length(x, stream);
            if (data->len != 0) {
                return BODY_DATA;
            }
        }
    } while (decode_more(stream, false));
    if (stream->is_bad) {
        return BODY_BAD;
    }
    return stream->is_stdout_closed || stream->has_ended ? records_finish(x, stream) : BODY_MORE;
}

/* The connection has ended. Without END_REQUEST that is no error if it was not to be kept. */
enum body_result fastcgi_body_ended(struct exchange *x)
{
    const struct fastcgi_stream *stream = fastcgi_stream_of(x);
    const struct conn *conn = x->connection->conn;

    if (stream->is_bad) {
        return BODY_BAD;
    }
    if (stream->has_ended) {
        return records_finish(x, stream);
    }
    if (conn->is_broken) {
        exchange_log(x, LOG_ERROR, conn->error, "recv() failed");
        return BODY_BAD;
    }
    if (stream->is_strict || is_short(x, stream) ||
        !fastcgi_connection_is_clean(stream->connection)) {
        exchange_log(x, LOG_ERROR, 0, "upstream prematurely closed connection");
        return BODY_BAD;
    }
    return BODY_END;
}
