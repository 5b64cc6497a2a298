/*
 * Fuzz target: all that an HTTP/2 client may send, to a server with handlers that answer. A socket
 * pair stands for the network. Nothing breaks, the connection and its streams end when their client
 * has, and what the server sent is well-formed: frames that may be, header blocks that are whole
 * and decode.
 */
#define _GNU_SOURCE
#include "http_server.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "http/client/connection.h"
#include "http/v2/v2.h"

#define INPUT_MAX 65536
#define OUTPUT_MAX (8 << 20)
#define TURNS_MAX 4096 /* within which a connection whose client is gone has to end */

static struct http_listen *listens;
static struct buf output; /* of the server, since the input began */

static void begin(void)
{
    listens = server_begin(
        STR("events {} http { http2 on; http2_max_concurrent_streams 10;"
            "http2_body_preread_size 2k; http2_chunk_size 3k;" SERVER_LIMITS SERVER_BLOCKS " }"));
}

/* ---- what the server says ---- */

static void check_block(struct hpack_table *table, struct str block)
{
    struct coded_field field;
    struct arena arena;
    enum hpack_result result;

    arena_init(&arena);
    while ((result = hpack_decode(table, &block, &arena, 65536, &field)) == HPACK_FIELD) {
    }
    if (result == HPACK_BAD) {
        abort();
    }
    arena_free(&arena);
}

/* All of the output; the last frame may be cut off, as the client was gone. */
static void check_output(struct str said)
{
    struct hpack_table table;
    struct buf block = {0};
    uint32_t open = 0;

    hpack_table_init(&table, HPACK_TABLE_DEFAULT);
    while (said.len >= FRAME_HEAD_SIZE) {
        struct frame_head head = frame_read(said.data);
        bool is_stream_error;

        if (frame_check(&head, FRAME_SIZE_MAX, &is_stream_error) != V2_NO_ERROR ||
            head.type == FRAME_PUSH_PROMISE || head.type > FRAME_CONTINUATION ||
            (open != 0 && (head.type != FRAME_CONTINUATION || head.stream != open)) ||
            (open == 0 && head.type == FRAME_CONTINUATION)) {
            abort();
        }
        said = str_skip(said, FRAME_HEAD_SIZE);
        if (said.len < head.length) {
            break;
        }
        if (head.type == FRAME_HEADERS || head.type == FRAME_CONTINUATION) {
            open = head.stream;
            buf_append(&block, str_head(said, head.length));
            if ((head.flags & FLAG_END_HEADERS) != 0) {
                check_block(&table, buf_str(&block));
                block.len = 0;
                open = 0;
            }
        }
        said = str_skip(said, head.length);
    }
    buf_free(&block);
    hpack_table_free(&table);
}

static void listen_to(int client)
{
    char part[65536];
    ssize_t n;

    while ((n = recv(client, part, sizeof(part), 0)) > 0) {
        if (output.len < OUTPUT_MAX) {
            buf_append(&output, (struct str){part, (size_t) n});
        }
    }
}

/* ---- the client ---- */

/* Sends all of it, in parts of `step` bytes; the loop turns after each. Then the client goes away.
 */
static void talk(struct str text, size_t step)
{
    struct addr nobody = {0};
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == -1) {
        abort();
    }
    output.len = 0;
    http_accepted(listens->address.listener, pair[0], &nobody);
    while (text.len != 0) {
        struct str part = str_head(text, step);
        ssize_t n = send(pair[1], part.data, part.len, MSG_NOSIGNAL);

        if (n == -1 && errno != EAGAIN) {
            break; /* the server has had enough */
        }
        text = str_skip(text, n == -1 ? 0 : (size_t) n);
        loop_turn(0);
        listen_to(pair[1]);
    }
    for (unsigned turns = 0; turns < 8; turns++) {
        loop_turn(0);
        listen_to(pair[1]);
    }
    close(pair[1]);
    for (unsigned turns = 0; counters_mine->active != 0; turns++) {
        if (turns == TURNS_MAX) {
            abort();
        }
        loop_turn(0);
    }
}

/*
 * Frames from a denser text, so that what the fuzzer changes are mostly still frames: type, flags,
 * stream and length are a byte each.
 */
static void append_frames(struct buf *text, struct str dense)
{
    while (dense.len >= 4) {
        struct str payload = str_head(str_skip(dense, 4), (unsigned char) dense.data[3]);
        char head[FRAME_HEAD_SIZE];

        frame_put(head, (uint32_t) payload.len, (uint8_t) dense.data[0], (uint8_t) dense.data[1],
                  (unsigned char) dense.data[2]);
        buf_append(text, (struct str){head, sizeof(head)});
        buf_append(text, payload);
        dense = str_skip(dense, 4 + payload.len);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool has_begun;
    static struct buf text;

    if (!has_begun) {
        begin();
        has_begun = true;
    }
    if (size < 1 || size > INPUT_MAX) {
        return 0;
    }
    /* The first byte says how the rest is cut, whether it is dense, and whether it stands behind a
     * preface. */
    struct str rest = {(const char *) data + 1, size - 1};
    bool has_preface = data[0] < 240;
    text.len = 0;
    if (has_preface) {
        buf_append(&text, STR(V2_PREFACE));
    }
    if (data[0] % 2 == 0) {
        append_frames(&text, rest);
    } else {
        buf_append(&text, rest);
    }
    talk(buf_str(&text), data[0] % 8 < 2 ? INPUT_MAX : 1 + data[0] % 61 * 3);
    if (has_preface) {
        check_output(buf_str(&output));
    }
    if (counters_mine->writing != 0 || conn_pool.used != 0) {
        abort();
    }
    return 0;
}
