/*
 * Fuzz target: all that an HTTP/3 client may send on its streams, to a server with handlers that answer; QUIC itself is left out
 * (tests/http/fake_quic.h). Nothing breaks, the connection and its streams end when their client has, and what the server sent
 * is well-formed: frames that may be, field sections that are whole and decode.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>

#include "http/fake_quic.h"

#include "base/clock.h"
#include "event/loop.h"
#include "http/request/body.h"
#include "http/request/request.h"
#include "http/v3/v3.h"
#include "net/shards/listener.h"
#include "server/configuration/generation_life.h"
#include "server/generation.h"
#include "server/process/cells.h"
#include "server/process/server.h"

#define INPUT_MAX 65536
#define TURNS_MAX 4096 /* within which a connection whose client is gone has to end */

static char bytes[300000]; /* what bodies are made of */
static int file;           /* the same as a file */
static struct listener *listener;
static const struct quic_service service = {.began = v3_began, .accepted = v3_accepted};

/* ---- handlers ---- */

static enum handler_result send_piece(struct request *request, struct str memory, int fd,
                                      uint64_t size)
{
    const struct body_piece piece = {.bytes = memory, .fd = fd, .offset = 10, .size = size};

    request->response.status = 200;
    request->response.content_length = (int64_t) size;
    enum handler_result result = response_start(request);
    if (result != HANDLER_NEXT) {
        return result;
    }
    return response_send(request, &piece, true) ? HANDLER_DONE : HANDLER_CLOSED;
}

/* The body back, as it comes, with trailers. */
static enum handler_result echo(struct request *request)
{
    char part[700];
    ssize_t n;

    request->response.status = 200;
    request->response.content_length = -1;
    request->response.trailers = arena_new(&request->arena, struct fields);
    fields_add(request->response.trailers, &request->arena, STR("x-sum"), STR("1"));
    enum handler_result result = response_start(request);
    while (result == HANDLER_NEXT && (n = request_read_some(request, part, sizeof(part))) != 0) {
        const struct body_piece piece = {.bytes = {part, (size_t) n},
                                         .fd = -1,
                                         .is_volatile = true};
        if (n < 0 || !response_send(request, &piece, false)) {
            return HANDLER_CLOSED;
        }
    }
    return result == HANDLER_NEXT && response_send(request, NULL, true) ? HANDLER_DONE : result;
}

static enum handler_result answer(struct request *request)
{
    char kind = request->uri.len > 1 ? request->uri.data[1] : '/';

    switch (kind) {
    case 'e':
        return echo(request);
    case 'r':
        return request_read_body(request) == HANDLER_NEXT
                   ? response_memory(request, 200, STR("text/plain"), STR("read"))
                   : HANDLER_FAIL;
    case 'm':
        return send_piece(request, (struct str){bytes, sizeof(bytes)}, -1, sizeof(bytes));
    case 'f':
        return send_piece(request, STR_NONE, file, sizeof(bytes) - 10);
    case 'c':
        return HANDLER_CUT;
    case 'i':
        request->wire->send_interim(request, 103, &request->headers);
        return response_memory(request, 200, STR("text/plain"), STR("early"));
    case 'h':
        fields_each(field, &request->headers) {
            fields_add(&request->response.fields, &request->arena, field->name, field->value);
        }
        return response_memory(request, 200, STR("text/plain"), request->line);
    case 'n':
        return request_fail(request, 404);
    default:
        return response_memory(request, 200, STR("text/plain"), request->uri);
    }
}

/* ---- the server ---- */

static void drop_line(struct log_sink *sink, enum log_level level, struct str line)
{
    if (level <= LOG_ALERT) {
        fprintf(stderr, "%.*s", STR_ARG(line));
        abort();
    }
    if (getenv("FUZZ_LOG") != NULL) {
        fprintf(stderr, "%.*s", STR_ARG(line));
    }
}

static void begin(void)
{
    static struct log_sink sink = {.level = LOG_INFO, .write = drop_line};
    static struct log quiet = {.sinks = &sink, .level = LOG_INFO};
    static const char text[] =
        "events {} http { access_log off; keepalive_requests 30; max_headers 50;"
        "large_client_header_buffers 2 2k; client_header_buffer_size 1k; client_max_body_size 20k;"
        "server { listen 127.0.0.1:1; } server { server_name a; listen 127.0.0.1:1; } }";
    static char path[64];
    const struct loop_options options = {.events_per_turn = 8, .log = &quiet};
    static struct listener first;

    clock_update();
    log_main = &quiet;
    log_is_starting = false;
    int conf = memfd_create("conf", 0);
    file = memfd_create("file", 0);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (char) (i * 7 % 251);
    }
    if (!cells_init() || !loop_init(&options) || !loop_host_fibers(64, 0) ||
        write(file, bytes, sizeof(bytes)) != sizeof(bytes) ||
        write(conf, text, sizeof(text) - 1) != sizeof(text) - 1) {
        abort();
    }
    snprintf(path, sizeof(path), "/proc/self/fd/%d", conf);
    server.file_name = str_of(path);
    server.prefix = STR("/tmp/");
    server.cpu_count = 1;
    struct generation *generation = generation_read(NULL, true, false);
    if (generation == NULL) {
        abort();
    }
    generation_now = generation;
    struct http_main *http = generation->http;
    vec_each(struct http_location *, location, &http->locations) {
        (*location)->error_log = &sink;
        (*location)->error_log_level = LOG_INFO;
        content_set(*location, answer, NULL);
    }
    struct http_listen *listens = *vec_at(&http->listens, struct http_listen *, 0);
    listens->log = quiet;
    first.user = listens;
    listens->address.listener = &first;
    listener = &first;
    conn_pool_init(16);
}

/* ---- what the server says ---- */

/* The server's sections may refer to entries that were never acknowledged: only if its encoder is wrong. */
static void check_section(const struct qpack_decoder *decoder, struct str block)
{
    struct qpack_section section = {.max_string = 65536};
    struct coded_field field;
    struct arena arena;

    arena_init(&arena);
    enum qpack_result result = qpack_section_begin(decoder, block, &section);
    while (result == QPACK_FIELD) {
        result = qpack_decode(decoder, &section, &arena, &field);
    }
    if (result != QPACK_END) {
        abort();
    }
    arena_free(&arena);
}

/* All frames of a stream; the last may be cut off, where it was reset. */
static void check_stream(const struct fake_stream *stream, const struct qpack_decoder *decoder)
{
    struct str said = buf_str(&stream->output);
    uint64_t type, length;

    while (said.len != 0) {
        struct h3_reader reader = {.size = 0};

        if (!h3_read_frame(&reader, &said, &type, &length)) {
            abort();
        }
        if (length > said.len) {
            if (stream->is_finished) {
                abort();
            }
            return;
        }
        if (type == H3_HEADERS) {
            check_section(decoder, str_head(said, (size_t) length));
        } else if (type != H3_DATA) {
            abort();
        }
        said = str_skip(said, (size_t) length);
    }
}

static void check_output(struct quic_connection *connection)
{
    struct fake_stream *instructions = fake_find(connection, 7);
    struct qpack_decoder decoder;

    qpack_decoder_init(&decoder, QPACK_TABLE_DEFAULT);
    if (instructions != NULL &&
        !qpack_decoder_feed(&decoder, str_skip(buf_str(&instructions->output), 1))) {
        abort();
    }
    if (decoder.table.inserted < 20) { /* nothing was evicted yet */
        for (unsigned i = 0; i < connection->stream_count; i++) {
            if ((connection->streams[i]->base.id & 3) == 0) {
                check_stream(connection->streams[i], &decoder);
            }
        }
    }
    qpack_decoder_free(&decoder);
}

/* ---- the client ---- */

/* The bytes as they are, or as a frame. */
static void give_frame(struct quic_connection *connection, uint64_t id, unsigned kind,
                       struct str payload, bool is_last)
{
    struct buf text = {0};
    char head[H3_FRAME_ROOM];

    if (kind != 0) {
        size_t prefix = kind == 1 ? 2 : 0;
        char *end = h3_put_frame(head, kind == 1 ? H3_HEADERS : H3_DATA, payload.len + prefix);
        buf_append(&text, str_from(head, end));
        buf_append(&text, str_head(STR("\0\0"), prefix));
    }
    buf_append(&text, payload);
    fake_give(connection, id, buf_str(&text), is_last);
    buf_free(&text);
}

/* An operation: what, on which stream, and how many bytes follow. */
static struct str act(struct quic_connection *connection, struct str rest)
{
    unsigned what = (unsigned char) rest.data[0];
    unsigned number = (unsigned char) rest.data[1];
    uint64_t id = (number & 15) * 4 + ((number & 16) != 0 ? 2 : 0);
    struct str payload = str_head(str_skip(rest, 3), (unsigned char) rest.data[2]);
    unsigned kind = what & 3;

    if (kind != 3) {
        give_frame(connection, id, kind, payload, (what & 4) != 0);
    } else if ((what & 4) != 0) {
        fake_reset(connection, id, what);
    } else if ((what & 8) != 0) {
        fake_stop(connection, id, what);
    } else {
        fake_turn(connection);
        loop_turn(0);
    }
    return str_skip(rest, 3 + payload.len);
}

/* The client of all that, until it goes away. */
static void talk(struct str text, size_t step)
{
    struct quic_connection *connection = fake_connect(listener, &service, step);

    fake_give(connection, 2, STR("\0\4\5\1\x40\xc8\7\x10"), false); /* a table of 200 bytes */
    while (text.len >= 3) {
        text = act(connection, text);
        loop_turn(0);
    }
    for (unsigned turns = 0; turns < 8; turns++) {
        fake_turn(connection);
        loop_turn(0);
    }
    check_output(connection);
    quic_close(connection, H3_NO_ERROR, STR_NONE);
    for (unsigned turns = 0; !connection->was_closed || connection->holds != 0; turns++) {
        if (turns == TURNS_MAX) {
            abort();
        }
        fake_turn(connection);
        loop_turn(0);
    }
    fake_free(connection);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool has_begun;

    if (!has_begun) {
        begin();
        has_begun = true;
    }
    if (size < 1 || size > INPUT_MAX) {
        return 0;
    }
    talk((struct str){(const char *) data + 1, size - 1}, (size_t) data[0] * data[0] * 16 + 1);
    if (counters_mine->writing != 0 || counters_mine->active != 0 || conn_pool.used != 0) {
        abort();
    }
    return 0;
}
