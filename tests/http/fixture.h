/*
 * src/http without sockets, for unit tests: a configuration is read as the server reads it, and
 * requests go through the engine to a wire that keeps what it is given.
 */
#ifndef TESTS_HTTP_FIXTURE_H
#define TESTS_HTTP_FIXTURE_H

#include "base/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/memory_log.h"
#include "base/clock.h"
#include "base/parse.h"
#include "fiber/host.h"
#include "http/client/connection.h"
#include "http/request/engine.h"
#include "http/request/request.h"
#include "http/request/wire.h"
#include "http/v1/v1.h"
#include "server/configuration/generation_life.h"
#include "server/process/cells.h"
#include "server/process/server.h"

static struct generation *generation; /* what was read, or NULL */
static struct http_main *http;
static struct conn conn;
static struct http_connection connection;
static struct request *request;    /* the newest, kept for the test to look at */
static struct buf body;            /* of its response */
static enum handler_result result; /* it ended with */
static unsigned heads;             /* that were sent for it */
static char directory[] = "/tmp/portunus-http-XXXXXX";
static char conf_path[sizeof(directory) + 16];

/* ---- the wire ---- */

static void wire_head(struct request *sender)
{
    sender->response.progress = RESPONSE_HEAD_SENT;
    heads++;
}

static bool wire_body(struct request *sender, const struct body_piece *piece, bool is_last)
{
    if (piece != NULL && piece->bytes.data != NULL) {
        buf_append(&body, piece->bytes);
    }
    return true;
}

static void wire_interim(struct request *sender, unsigned status, const struct fields *fields)
{
    buf_printf(&body, "(%u)", status);
}

static ssize_t wire_read(struct request *reader, void *at, size_t size)
{
    return 0;
}

static void wire_ended(struct request *ended, enum handler_result how)
{
    result = how;
}

static void wire_flush(struct request *sender)
{
}

static bool wire_has_lost_client(const struct request *sender)
{
    return false;
}

static uint64_t wire_sent(const struct request *sender)
{
    return 0;
}

static const struct http_wire wire = {.send_head = wire_head,
                                      .send_body = wire_body,
                                      .send_interim = wire_interim,
                                      .read_body = wire_read,
                                      .ended = wire_ended,
                                      .flush = wire_flush,
                                      .has_lost_client = wire_has_lost_client,
                                      .sent = wire_sent};

/* ---- a handler for every location: 200 with the location's name, or the status that the arguments
 * are ---- */

static enum handler_result say_where(struct request *asked)
{
    uint64_t status;

    if (parse_uint(asked->args, &status)) {
        asked->args = STR_NONE;
        return request_fail(asked, (unsigned) status);
    }
    return response_memory(asked, 200, STR("text/plain"), asked->location->name);
}

/* ---- configurations ---- */

static inline void forget_request(void)
{
    if (request != NULL) {
        request_free(request);
        request = NULL;
    }
    free(connection.details);
    connection = (struct http_connection){0};
}

static inline void forget_generation(void)
{
    forget_request();
    if (generation != NULL) {
        generation_free(generation);
        generation = NULL;
    }
    http = NULL;
}

/* Reads what stands inside http { }. False: messages says why. */
static inline bool read_http(const char *text)
{
    forget_generation();
    messages.len = 0;
    FILE *file = fopen(conf_path, "w");
    assert_non_null(file);
    fprintf(file, "events {} http {\n%s\n}\n", text);
    fclose(file);
    generation = generation_read(NULL, true, false);
    if (generation == NULL) {
        return false;
    }
    http = generation->http;
    vec_each(struct http_location *, location, &http->locations) {
        (*location)->error_log = &memory_sink;
        (*location)->error_log_level = LOG_INFO;
        content_set(*location, say_where, NULL);
    }
    return true;
}

static inline void assert_read(const char *text)
{
    if (!read_http(text)) {
        fail_msg("not taken: %.*s", STR_ARG(buf_str(&messages)));
    }
}

/* Refused, with this message before " in FILE:LINE"; line 1 is the text's first. */
static inline void assert_unread(const char *text, const char *message, unsigned line)
{
    if (read_http(text)) {
        fail_msg("taken: %s", text);
    }
    char wanted[512];
    snprintf(wanted, sizeof(wanted), "[emerg] %s in %s:%u\n", message, conf_path, line + 1);
    if (!was_logged(wanted)) {
        fail_msg("got \"%.*s\", expected \"%s\"", STR_ARG(buf_str(&messages)), wanted);
    }
}

/* ---- requests ---- */

/* A request with this head on the address of that number (in order of the file), parsed and set up;
 * not started. */
static inline unsigned prepare(unsigned address, const char *text)
{
    static const struct head_limits limits = {.line_max = 8192,
                                              .head_max = 32768,
                                              .headers_max = 1000,
                                              .ignore_invalid = true};
    struct head head;

    forget_request();
    assert_true(address < http->listens.count);
    connection.magic = HTTP_CONNECTION_MAGIC;
    connection.conn = &conn;
    connection.listen = *vec_at(&http->listens, struct http_listen *, address);
    conn = (struct conn){.magic = CONN_MAGIC, .source.fd = -1};
    request = request_new(&connection, &wire);
    messages.len = 0;
    body.len = 0;
    heads = 0;
    const struct field_reading reading = {.limits = &limits,
                                          .arena = &request->arena,
                                          .fields = &request->headers};
    assert_int_equal(head_parse(str_of(text), &reading, &head), PARSE_DONE);
    unsigned status = v1_request_setup(request, &head);
    if (status != 0) {
        request->keepalive = false;
        request->incoming.is_read = true;
        request->response.status = status;
    }
    return status;
}

/* … and runs it to its end; gives the status of its response, 0 when none was sent. */
static inline unsigned ask_at(unsigned address, const char *text)
{
    prepare(address, text);
    request_start(request);
    assert_null(request->fiber);
    return heads == 0 ? 0 : request->response.status;
}

static inline unsigned ask(const char *text)
{
    return ask_at(0, text);
}

static inline unsigned get(const char *target)
{
    char text[4096];

    snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", target);
    return ask(text);
}

static inline unsigned get_host(const char *host)
{
    char text[4096];

    snprintf(text, sizeof(text), "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", host);
    return ask(text);
}

static inline struct str got(void)
{
    return buf_str(&body);
}

/* ---- the frame ---- */

static int set_up_group(void **state)
{
    clock_update();
    log_main = &memory_log;
    log_is_starting = false;
    assert_true(cells_init());
    assert_non_null(mkdtemp(directory));
    snprintf(conf_path, sizeof(conf_path), "%s/t.conf", directory);
    server.file_name = str_of(conf_path);
    server.prefix = arena_printf(&server.arena, "%s/", directory);
    server.cpu_count = 1;
    host_pool((struct fiber_options){.max_fibers = 4});
    return 0;
}

static int tear_down_group(void **state)
{
    forget_generation();
    fiber_pool_destroy();
    buf_free(&messages);
    buf_free(&body);
    unlink(conf_path);
    rmdir(directory);
    arena_free(&server.arena);
    return 0;
}

static int tear_down(void **state)
{
    forget_generation();
    return 0;
}

#define http_test(function) cmocka_unit_test_teardown(function, tear_down)

#define http_tests_run(name, tests)                                                                \
    cmocka_run_group_tests_name(name, tests, set_up_group, tear_down_group)

#endif
