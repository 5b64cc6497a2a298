/* Requests: their making, their place, internal redirects. */
#include "http/request.h"

#include "base/clock.h"
#include "base/fatal.h"
#include "http/connection.h"
#include "http/exchange/exchange.h"
#include "http/uri.h"
#include "server/generation.h"

static void describe(const struct log *log, struct room *out);

/* memset of libc, which clears wide; a size that the compiler knew it would unroll into narrow stores. */
static void clear(void *at, size_t size)
{
    __asm__("" : "+r"(size));
    memset(at, 0, size);
}

/* So many times the limit, and there is no hope that the request ends by itself. */
#define MEMORY_STOP 64

/*
 * It takes more memory than it may. What it has asked for is given; from here on its waits are cancelled and nothing
 * more is sent of it, so that its fiber returns: see request_run.
 */
static void memory_is_over(struct arena_account *account)
{
    struct request *request = container_of(account, struct request, memory);

    if (request->is_over_memory) {
        if (account->used / MEMORY_STOP > account->limit + account->allowed) {
            fatal_no_memory(account->used);
        }
        return;
    }
    request->is_over_memory = true;
    counters_mine->limited++;
    log_error(&request->log, 0,
              "request takes more memory than request_memory_limit allows: %zu bytes",
              account->used);
    if (request->fiber != NULL) {
        fiber_cancel(request->fiber);
    }
}

void request_count_for(struct request *request, struct request *main)
{
    request->arena.account = &main->memory;
    main->memory.used += request->arena.used;
}

struct request *request_new(struct conn *conn, struct http_connection *http,
                            const struct http_wire *wire)
{
    struct arena arena;

    arena_init(&arena);
    struct request *request = arena_alloc(&arena, sizeof(*request));
    clear(request, sizeof(*request));
    request->arena = arena;
    request->magic = REQUEST_MAGIC;
    request->conn = conn;
    request->http = http;
    request->wire = wire;
    request->main = request;
    request->memory.over = memory_is_over;
    request_count_for(request, request);
    request->version = HTTP_1_0; /* until the request line was read: what is answered has a head */
    request->uri_changes = URI_CHANGES_MAX + 1;
    request->response.content_length = -1;
    request->response.last_modified = -1;
    request->start_ms = clock_now.now_ms;
    request->log.connection = conn_number(conn);
    request->log.describe = describe;
    request->log.subject = request;
    request->env.arena = &request->arena;
    request->env.log = &request->log;
    request_set_location(request, http->listen->default_server->root);
    request->env.set = &request->server->main->variables;
    list_init(&request->link);
    return request;
}

void request_free(struct request *request)
{
    struct arena arena = request->arena;

    if (request->main == request) {
        arena.account = NULL; /* what frees itself of its own is not to be counted */
    }

    request->magic = 0;
    arena_free(&arena);
}

void request_client(const struct request *request, struct addr *out)
{
    if (request->main->client != NULL) {
        *out = request->main->client->addr;
    } else {
        conn_peer(request->conn, out);
    }
}

struct str request_client_text(const struct request *request)
{
    const struct conn *conn = request->conn;

    if (request->main->client != NULL) {
        return request->main->client->text;
    }
    if (conn->address_length == sizeof(conn->peer.v4) && request->http->details == NULL) {
        /* The connection would have to keep the text. */
        char *text = arena_text((struct arena *) &request->arena, 16);
        return str_from(text, addr_put_v4(text, (const unsigned char *) &conn->peer.v4.sin_addr));
    }
    return connection_address(request->http);
}

void request_set_client(struct request *request, const struct addr *addr)
{
    struct request *main = request->main;
    struct client *client = arena_new(&main->arena, struct client);
    char *text = arena_text(&main->arena, ADDR_TEXT_MAX);

    client->addr = *addr;
    client->text = (struct str){text, addr_format(addr, false, text)};
    main->client = client;
}

/* One of a request's list; newest first. */
struct request_data {
    struct request_data *next;
    const void *key;
    _Alignas(16) char room[]; /* the module's */
};

void *request_data(struct request *request, const void *key, size_t size)
{
    struct request_data *data = request->data;

    while (data != NULL && data->key != key) {
        data = data->next;
    }
    if (data != NULL) {
        return data->room;
    }
    if (size == 0) {
        return NULL;
    }
    data = arena_zalloc(&request->arena, sizeof(*data) + size);
    data->key = key;
    data->next = request->data;
    request->data = data;
    return data->room;
}

void request_keep_head(struct request *request)
{
    if (request->version >= HTTP_2) {
        return; /* it lies in the request's arena */
    }
    struct conn_buffer *buffer = arena_new(&request->arena, struct conn_buffer);

    buffer->data = conn_input_detach(request->conn, &buffer->size);
    if (buffer->data != NULL) {
        arena_on_free(&request->arena, conn_buffer_release, buffer);
    }
}

/* ", client: A, server: NAME, request: "LINE", host: "H", referrer: "R"" */
static void describe(const struct log *log, struct room *out)
{
    const struct request *request = log->subject;
    const struct field *host = fields_get(&request->headers, FIELD_HOST);
    const struct field *referer = fields_get(&request->headers, FIELD_REFERER);
    struct str client = request_client_text(request);

    room_printf(out, ", client: %.*s, server: %.*s", STR_ARG(client),
                STR_ARG(request->server->name));
    if (request->line.len != 0) {
        room_printf(out, ", request: \"%.*s\"", STR_ARG(request->line));
    }
    if (request != request->main) {
        room_printf(out, ", subrequest: \"%.*s\"", STR_ARG(request->uri));
    }
    if (request->exchange != NULL) {
        exchange_describe(request->exchange, out);
    }
    if (host != NULL) {
        room_printf(out, ", host: \"%.*s\"", STR_ARG(host->value));
    }
    if (referer != NULL) {
        room_printf(out, ", referrer: \"%.*s\"", STR_ARG(referer->value));
    }
}

struct str request_extension(const struct request *request)
{
    struct str uri = request->uri;

    for (size_t i = uri.len; i > 1; i--) {
        char c = uri.data[i - 1];
        if (c == '/') {
            break;
        }
        if (c == '.' && uri.data[i - 2] != '/') {
            return str_skip(uri, i);
        }
    }
    return STR_NONE;
}

bool request_split_uri(struct request *request, struct str text, struct str *uri, struct str *args)
{
    const char *question = str_find_char(text, '?');

    *uri = question == NULL ? text : str_from(text.data, question);
    *args = question == NULL ? STR_NONE : str_from(question + 1, text.data + text.len);
    if (uri_is_safe(*uri)) {
        return true;
    }
    log_error(&request->log, 0, "unsafe URI \"%.*s\" was detected", STR_ARG(text));
    return false;
}

bool request_count_change(struct request *request, const char *what)
{
    if (request->uri_changes > 0 && --request->uri_changes > 0) {
        return true;
    }
    if (what[0] == 'r') {
        log_error(&request->log, 0,
                  "rewrite or internal redirection cycle while processing \"%.*s\"",
                  STR_ARG(request->uri));
    } else {
        log_error(&request->log, 0, "rewrite or internal redirection cycle while %s \"%.*s\"", what,
                  STR_ARG(request->uri));
    }
    request_fail(request, 500);
    return false;
}

enum flow request_redirect(struct request *request, struct str uri, struct str args)
{
    request->uri = uri;
    request->args = args;
    request->is_target_stale = true;
    if (!request_count_change(request, "internally redirecting to")) {
        return FLOW_FAIL;
    }
    request->is_internal = true;
    request->uri_changed = false;
    request->restart = RESTART_SERVER;
    return FLOW_AGAIN;
}

enum flow request_redirect_named(struct request *request, struct str name)
{
    const struct http_location *location = map_get(&request->server->named, name);

    if (request->uri_changes <= 1) {
        request->uri_changes = 0;
        log_error(&request->log, 0,
                  "rewrite or internal redirection cycle while redirect to named location \"%.*s\"",
                  STR_ARG(name));
        return request_fail(request, 500);
    }
    request->uri_changes--;
    if (location == NULL) {
        log_error(&request->log, 0, "could not find named location \"%.*s\"", STR_ARG(name));
        return request_fail(request, 500);
    }
    request->is_internal = true;
    request->uri_changed = false;
    request_set_location(request, location);
    request->restart = RESTART_NAMED;
    return FLOW_AGAIN;
}
