/* For fuzz targets of the HTTP wires: a server in memory, with handlers that answer in all the ways
 * that a wire knows. */
#ifndef TESTS_FUZZ_HTTP_SERVER_H
#define TESTS_FUZZ_HTTP_SERVER_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "event/loop.h"
#include "http/client/listen.h"
#include "http/request/body.h"
#include "http/request/request.h"
#include "http/request/wire.h"
#include "net/shards/listener.h"
#include "server/configuration/generation_life.h"
#include "server/generation.h"
#include "server/process/cells.h"
#include "server/process/server.h"

/* Directives of its http block that all targets have. */
#define SERVER_LIMITS                                                                              \
    "access_log off; keepalive_requests 30; max_headers 50; large_client_header_buffers 2 2k;"     \
    "client_header_buffer_size 1k; client_max_body_size 20k;"
#define SERVER_BLOCKS "server { listen 127.0.0.1:1; } server { server_name a; listen 127.0.0.1:1; }"

static char bytes[300000]; /* what bodies are made of */
static int file;           /* the same as a file */

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
        return response_memory(request, 200, STR("text/plain"), request->head.line);
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

/* A server with this configuration, whose locations all answer as above. Gives its first address.
 */
static struct http_listen *server_begin(struct str text)
{
    static struct log_sink sink = {.level = LOG_INFO, .write = drop_line};
    static struct log quiet = {.sinks = &sink, .level = LOG_INFO};
    static char path[64];
    const struct loop_options options = {.events_per_turn = 8, .log = &quiet};
    static struct listener listener;

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
        write(conf, text.data, text.len) != (ssize_t) text.len) {
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
    listener.user = listens;
    listens->address.listener = &listener;
    conn_pool_init(16);
    return listens;
}

#endif
