/*
 * Fuzz target: all that an HTTP/3 client may send on its streams, to a server with handlers that
 * answer; QUIC itself is left out (tests/http/fake_quic.h). Nothing breaks, the connection and its
 * streams end when their client has, and what the server sent is well-formed: frames that may be,
 * field sections that are whole and decode.
 */
#define _GNU_SOURCE
#include "http_server.h"

#include "http/fake_quic.h"

#include "http/v3/v3.h"

#define INPUT_MAX 65536
#define TURNS_MAX 4096 /* within which a connection whose client is gone has to end */

static struct listener *listener;
static const struct quic_service service = {.began = v3_began, .accepted = v3_accepted};

static void begin(void)
{
    listener =
        server_begin(STR("events {} http { " SERVER_LIMITS SERVER_BLOCKS " }"))->address.listener;
}

/* ---- what the server says ---- */

/* The server's sections may refer to entries that were never acknowledged: only if its encoder is
 * wrong. */
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
