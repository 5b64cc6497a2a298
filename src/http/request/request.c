/* Requests: their making, their location, internal redirects. */
#include "http/request/request.h"

#include "base/keyed.h"
#include "base/clock.h"
#include "base/fatal.h"
#include "http/client/connection.h"
#include "http/message/uri.h"
#include "http/request/wire.h"
#include "server/generation.h"

static void describe_request(const struct log *log, struct writer *out);

const struct subject_kind request_subject = {.name = "request"};

/* So many times the limit, and there is no hope that the request ends by itself. */
#define MEMORY_STOP 64

/*
 * It takes more memory than it may. What it has asked for is given; from here on its waits are
 * cancelled and nothing more is sent of it, so that its fiber returns: see request_run.
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

void request_count_memory(struct request *request, size_t size)
{
    struct arena_account *account = request->arena.account;

    account->used += size;
    if (account->limit != 0 && account->used > account->limit + account->allowed) {
        account->over(account);
    }
}

void request_count_for(struct request *request, struct request *main)
{
    request->arena.account = &main->memory;
    main->memory.used += request->arena.used;
}

struct request *request_new(struct http_connection *connection, const struct http_wire *wire)
{
    struct arena arena;

    arena_init(&arena);
    struct request *request = arena_alloc(&arena, sizeof(*request));
    size_t size = sizeof(*request);
    __asm__("" : "+r"(size)); /* the compiler would unroll a size that it knew into narrow stores */
    memset(request, 0, size);
    request->arena = arena;
    request->magic = REQUEST_MAGIC;
    request->connection = connection;
    request->wire = wire;
    request->main = request;
    request->memory.over = memory_is_over;
    request->arena.account = &request->memory;
    request->memory.used = request->arena.used;
    request->head.version =
        HTTP_1_0; /* until the request line was read: what is answered has a head */
    request->uri_changes = URI_CHANGES_MAX + 1;
    request->response.content_length = -1;
    request->response.last_modified = -1;
    request->start_ms = clock_now.now_ms;
    request->log.connection = connection_number(connection);
    request->log.describe = describe_request;
    request->log.subject = request;
    request->env.kind = &request_subject;
    request->env.arena = &request->arena;
    request->env.log = &request->log;
    request_set_location(request, connection->listen->default_server->root);
    request->env.set = &request->server->main->variables;
    list_init(&request->node);
    return request;
}

void request_free(struct request *request)
{
    struct arena arena = request->arena;

    CHECK_MAGIC(request, REQUEST_MAGIC);
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
        connection_peer(request->connection, out);
    }
}

struct str request_client_text(const struct request *request)
{
    if (request->main->client != NULL) {
        return request->main->client->text;
    }
    const struct sockaddr_in *ipv4 = connection_brief_ipv4(request->connection);
    if (ipv4 != NULL) { /* the connection would have to keep the text */
        char *text = arena_text((struct arena *) &request->arena, 16);
        return str_from(text, addr_put_v4(text, (const unsigned char *) &ipv4->sin_addr));
    }
    return connection_address(request->connection);
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
void *request_data(struct request *request, const void *key, size_t size)
{
    return keyed_data(&request->data, &request->arena, key, size);
}

void request_keep_head(struct request *request)
{
    if (request->wire->keep_head != NULL) {
        request->wire->keep_head(request);
    }
}

void request_flush(struct request *request)
{
    request->main->wire->flush(request->main);
}

bool request_has_lost_client(const struct request *request)
{
    return request->main->wire->has_lost_client(request->main);
}

/* The value of an error_log_tag: without what logs while it is evaluated. */
static void put_tag(const struct request *request, const struct log_tag *tag, struct writer *out)
{
    static bool is_evaluating;
    struct request *evaluated = (struct request *) request;

    if (!is_evaluating) {
        is_evaluating = true;
        writer_put(out, template_text(tag->value, &evaluated->env));
        is_evaluating = false;
    }
}

/* ", client: A, server: NAME, request: "LINE", host: "H", referrer: "R"" */
static void describe_request(const struct log *log, struct writer *out)
{
    const struct request *request = log->subject;
    const struct field *host = fields_get(&request->headers, FIELD_HOST);
    const struct field *referer = fields_get(&request->headers, FIELD_REFERER);
    struct str client = request_client_text(request);

    log_member(out, "client");
    writer_put(out, client);
    log_member(out, "server");
    writer_put(out, request->server->name);
    if (request->head.line.len != 0) {
        log_member(out, "request");
        writer_printf(out, "\"%.*s\"", STR_ARG(request->head.line));
    }
    if (request != request->main) {
        log_member(out, "subrequest");
        writer_printf(out, "\"%.*s\"", STR_ARG(request->uri));
    }
    for (const struct log_context *each = request->log_contexts; each != NULL; each = each->next) {
        each->describe(each, out);
    }
    if (host != NULL) {
        log_member(out, "host");
        writer_printf(out, "\"%.*s\"", STR_ARG(host->value));
    }
    if (referer != NULL) {
        log_member(out, "referrer");
        writer_printf(out, "\"%.*s\"", STR_ARG(referer->value));
    }
    vec_each(const struct log_tag, tag, &request->location->error_log_tags) {
        log_member(out, tag->name);
        writer_put(out, STR("\""));
        put_tag(request, tag, out);
        writer_put(out, STR("\""));
    }
}

struct str request_extension(const struct request *request)
{
    return uri_extension(request->uri);
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

/* No location is searched for the URI that a rewrite has made: the redirect says where to. */
static void request_stay(struct request *request)
{
    if (request->uri_state == URI_MOVED) {
        request->uri_state = URI_KEPT;
    }
}

enum handler_result request_redirect(struct request *request, struct str uri, struct str args)
{
    request_set_uri(request, uri, args);
    if (!request_count_change(request, "internally redirecting to")) {
        return HANDLER_FAIL;
    }
    request->redirects++;
    request->is_internal = true;
    request_stay(request);
    request->restart = RESTART_SERVER;
    return HANDLER_AGAIN;
}

enum handler_result request_redirect_named(struct request *request, struct str name)
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
    request->redirects++;
    request->is_internal = true;
    request_stay(request);
    request_set_location(request, location);
    request->restart = RESTART_NAMED;
    return HANDLER_AGAIN;
}

struct str request_origin_form(const struct request *request)
{
    struct str target = request->head.target;

    if (request->head.scheme.len == 0 || target.len < request->head.scheme.len + 3 ||
        target.data[0] == '/') {
        return target; /* no absolute one; HTTP/2 tells the scheme apart from it */
    }
    target = str_skip(target, request->head.scheme.len + 3);
    while (target.len != 0 && *target.data != '/' && *target.data != '?') {
        target = str_skip(target, 1);
    }
    return target.len == 0 ? STR("/") : target;
}

void request_observe(struct request *request, struct request_trace *trace)
{
    trace->next = request->trace;
    request->trace = trace;
}

struct request_trace *request_observer(const struct request *request,
                                       const struct request_trace_calls *calls)
{
    struct request_trace *trace = request->trace;

    while (trace != NULL && trace->calls != calls) {
        trace = trace->next;
    }
    return trace;
}

uint64_t request_bytes_sent(const struct request *request)
{
    uint64_t sent = request->delivery.sent != 0 ? request->delivery.sent
                                                : request->main->wire->sent(request->main);

    if (sent < request->delivery.start ||
        (request->response.progress == RESPONSE_NOT_SENT && request->delivery.interim_bytes == 0 &&
         !request->is_post_action)) {
        return 0;
    }
    return sent - request->delivery.start;
}

uint64_t request_body_bytes_sent(const struct request *request)
{
    uint64_t sent = request_bytes_sent(request);
    uint64_t head = request->delivery.head_end - request->delivery.start;

    return sent > head ? sent - head : 0;
}
