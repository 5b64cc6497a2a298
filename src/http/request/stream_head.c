/* What the fields of a head that came on a stream say of the request: server, target, framing (RFC
 * 9113, 8.3). */
#include <stdlib.h>

#include "base/text.h"
#include "http/client/protocol.h"
#include "http/request/stream_head.h"
#include "server/generation.h"

/* Cookies may come in pieces; the server knows one (8.2.3). */
static void join_cookies(struct request *request)
{
    struct str joined;

    if (fields_joined(&request->headers, &request->arena, FIELD_COOKIE, &joined)) {
        fields_set(&request->headers, &request->arena, FIELD_COOKIE, joined);
    }
}

/* As HTTP/1 has it: for the log, and for what shows $request. */
static void set_line(struct stream_head *head)
{
    struct arena *arena = &head->request->arena;
    struct str method = head->pseudo[PSEUDO_METHOD];
    struct str target = head->pseudo[PSEUDO_PATH].len != 0 ? head->pseudo[PSEUDO_PATH]
                                                           : head->pseudo[PSEUDO_AUTHORITY];
    size_t size = method.len + target.len + STREAM_VERSION_SIZE + 2;
    char *at = arena_text(arena, size);

    head->request->head.line = (struct str){at, size};
    at = str_put(at, method);
    *at++ = ' ';
    at = str_put(at, target);
    *at++ = ' ';
    memcpy(at, head->version, STREAM_VERSION_SIZE);
}

/* The server of a host, which most often is the one of the request before. */
static void set_host(struct stream_head *head, struct str host)
{
    struct request *request = head->request;
    struct known_host *known = head->known_host;

    if (known->server != NULL && known_host_is(known, host)) {
        request->head.host = str_head(host, known->name_len);
        request->head.port = str_skip(host, host.len - known->port_len);
        request->server = known->server;
        request_set_location(request, request->server->root);
        return;
    }
    if (!host_split(known, &request->arena, host, &request->head.host, &request->head.port)) {
        stream_head_refuse(head, 400, "client sent invalid host header", NULL);
        return;
    }
    request_choose_server(request, true);
    if (request->connection->listen->names.regexes == NULL && known_host_is(known, host)) {
        known->server = request->server;
    }
}

/* :authority, or Host; both have to be the same (8.3.1). */
static void find_server(struct stream_head *head)
{
    struct request *request = head->request;
    const struct http_protocol *protocol = request->connection->protocol;
    const struct field *field = fields_get(&request->headers, FIELD_HOST);

    if (field != NULL && head->has[PSEUDO_AUTHORITY] &&
        !str_equal_nocase(field->value, head->pseudo[PSEUDO_AUTHORITY])) {
        stream_head_refuse(head, 400, "client sent \"host\" that differs from \":authority\"",
                           NULL);
    }
    if (!head->has[PSEUDO_AUTHORITY] && field == NULL) {
        if (head->status == 0) {
            stream_head_refuse(head, 400, "client sent neither \":authority\" nor \"host\" header",
                               NULL);
        }
        return;
    }
    if (field == NULL) {
        fields_add_known(&request->headers, &request->arena, FIELD_HOST,
                         head->pseudo[PSEUDO_AUTHORITY]);
    }
    set_host(head, head->has[PSEUDO_AUTHORITY] ? head->pseudo[PSEUDO_AUTHORITY] : field->value);
    if (request_is_encrypted(request) &&
        !protocol_is_on(protocol, request->connection->listen, request->server)) {
        /* The connection was made for another server (9.1.2): the client comes again on one of its
         * own. In plain there is none of its own: who speaks there is known only by then. */
        stream_head_refuse(head, 421, protocol->off, NULL);
    }
}

static void set_target(struct stream_head *head)
{
    struct request *request = head->request;
    struct str path = head->pseudo[PSEUDO_PATH];

    request->head.target = path;
    struct head_refusal refusal = {.status = 400};
    if (str_is(path, "*") && request->method == METHOD_OPTIONS) {
        refusal = request_set_target(request, STR_NONE);
    } else if (path.len != 0 && path.data[0] == '/') {
        refusal = request_set_target(request, path);
    } else {
        request_set_no_path(request);
    }
    if (refusal.status == 0) {
        return;
    }
    if (refusal.reason == NULL) {
        stream_head_refuse_text(head, "client sent invalid :path header", path);
    } else {
        stream_head_refuse(head, refusal.status, refusal.reason, NULL);
    }
}

/* CONNECT (8.5): host and port alone. */
static void set_tunnel_target(struct stream_head *head)
{
    struct request *request = head->request;

    if (!request_accepts_connect(request)) {
        stream_head_refuse(head, 405, "client sent CONNECT method", NULL);
    } else if (head->has[PSEUDO_SCHEME] || head->has[PSEUDO_PATH]) {
        stream_head_refuse(head, 400, "client sent CONNECT with \":scheme\" or \":path\"", NULL);
    } else if (!request_names_tunnel_end(request)) {
        stream_head_refuse(head, 400, "client sent CONNECT without host and port", NULL);
    }
    request->head.target = head->pseudo[PSEUDO_AUTHORITY];
    request_set_tunnel(request);
    request->incoming.is_read = true;
}

#define WEBSOCKET_KEY_BYTES 16

/*
 * Extended CONNECT for WebSocket (RFC 8441): to whom it is passed on it is what HTTP/1.1 has for
 * it, a GET with Upgrade. The key, which HTTP/2 has not, need not be secret: it proves that the
 * peer is no cache.
 */
static void become_upgrade(struct stream_head *head)
{
    struct request *request = head->request;
    char key[WEBSOCKET_KEY_BYTES];

    if (!str_equal_nocase(head->pseudo[PSEUDO_PROTOCOL], STR("websocket"))) {
        stream_head_refuse(head, 501, "client sent CONNECT with unknown \":protocol\"", NULL);
        return;
    }
    for (size_t i = 0; i < sizeof(key); i++) {
        key[i] = (char) (random() >> 7);
    }
    head->is_upgrade = true;
    request->method = METHOD_GET;
    request->method_name = STR("GET");
    request->incoming.is_read = true;
    request->incoming.length = -1;
    request->incoming.sent_length = -1;
    request->incoming.is_chunked = false;
    struct fields *headers = &request->headers;
    struct arena *arena = &request->arena;
    fields_add_known(headers, arena, FIELD_UPGRADE, STR("websocket"));
    fields_add_known(headers, arena, FIELD_CONNECTION, STR("Upgrade"));
    if (fields_find(headers, STR("sec-websocket-key")) == NULL) {
        fields_add(headers, arena, STR("sec-websocket-key"),
                   base64_encode(arena, (struct str){key, sizeof(key)}, false));
    }
}

/* A letter, then letters, digits, "+", "-" and "." (RFC 3986, 3.1); or nothing. */
static bool is_scheme(struct str scheme)
{
    for (size_t i = 0; i < scheme.len; i++) {
        unsigned char c = ascii_lower((unsigned char) scheme.data[i]);
        bool is_other = ascii_is_digit(c) || c == '+' || c == '-' || c == '.';
        if ((c < 'a' || c > 'z') && (i == 0 || !is_other)) {
            return false;
        }
    }
    return true;
}

/* One that has to be there, and says something. */
static void check_is_there(struct stream_head *head, enum pseudo which, const char *missing,
                           const char *empty)
{
    if (!head->has[which]) {
        stream_head_refuse(head, 400, missing, NULL);
    } else if (head->pseudo[which].len == 0) {
        stream_head_refuse(head, 400, empty, NULL);
    }
}

/* What has to be there (8.3.1), and of which bytes: what goes into a line of HTTP/1 must not end
 * it. */
static void check_pseudo(struct stream_head *head)
{
    struct str method = head->pseudo[PSEUDO_METHOD];
    struct str path = head->pseudo[PSEUDO_PATH];
    bool is_connect = str_is(method, "CONNECT") && !head->has[PSEUDO_PROTOCOL];

    check_is_there(head, PSEUDO_METHOD, "client sent no :method header",
                   "client sent empty :method header");
    if (!is_connect) {
        check_is_there(head, PSEUDO_SCHEME, "client sent no :scheme header",
                       "client sent empty :scheme header");
        check_is_there(head, PSEUDO_PATH, "client sent no :path header",
                       "client sent empty :path header");
    }
    if (head->has[PSEUDO_PROTOCOL] && !str_is(method, "CONNECT")) {
        stream_head_refuse(head, 400, "client sent \":protocol\" without CONNECT", NULL);
    }
    for (size_t i = 0; i < method.len; i++) {
        char c = method.data[i];
        if ((c < 'A' || c > 'Z') && c != '_' && c != '-') {
            stream_head_refuse_text(head, "client sent invalid method", method);
        }
    }
    for (size_t i = 0; i < path.len; i++) {
        unsigned char c = (unsigned char) path.data[i];
        if (c <= ' ' || c == 127) {
            stream_head_refuse_text(head, "client sent invalid :path header", path);
        }
    }
    if (!is_scheme(head->pseudo[PSEUDO_SCHEME])) {
        stream_head_refuse_text(head, "client sent invalid :scheme header",
                                head->pseudo[PSEUDO_SCHEME]);
    }
}

static void set_framing(struct stream_head *head, bool is_last)
{
    struct request *request = head->request;

    if (!request_set_length(request)) {
        stream_head_refuse(head, 400, "client sent invalid \"Content-Length\" header", NULL);
    }
    if (is_last && request->incoming.length > 0) {
        stream_head_refuse(head, 400, "client prematurely closed stream", NULL);
    }
    request->incoming.is_read = is_last;
    request->incoming.is_chunked = !is_last && request->incoming.length < 0;
    request->incoming.expects_continue = !is_last && request_wants_continue(request);
}

void stream_head_set_up(struct stream_head *head, bool is_last)
{
    struct request *request = head->request;
    const struct field *former;

    request->method_name = head->pseudo[PSEUDO_METHOD];
    request->method = method_named(head->pseudo[PSEUDO_METHOD]);
    request->head.scheme = head->pseudo[PSEUDO_SCHEME];
    set_line(head);
    check_pseudo(head);
    if (head->cookies > 1) {
        join_cookies(request);
    }
    const struct field *repeated =
        request->headers.has_repeats ? request_repeated_field(request, &former) : NULL;
    if (repeated != NULL) {
        struct coded_field field = {.name = repeated->name, .value = repeated->value};
        stream_head_refuse(head, 400, "client sent duplicate header line", &field);
    }
    find_server(head);
    set_framing(head, is_last);
    if (request->method == METHOD_CONNECT && !head->has[PSEUDO_PROTOCOL]) {
        set_tunnel_target(head);
        return;
    }
    set_target(head);
    if (head->has[PSEUDO_PROTOCOL] && head->status == 0) {
        become_upgrade(head);
    }
}

void stream_head_log(const struct stream_head *head)
{
    struct request *request = head->request;

    request->log.action = "reading client request headers";
    if (head->name.data != NULL && head->value.data == NULL) {
        log_info(&request->log, 0, "%s: \"%.*s\"", head->reason,
                 STR_ARG(str_head(head->name, 1024)));
    } else if (head->name.len != 0) {
        struct str name = str_head(head->name, 1024);
        struct str value = str_head(head->value, 1024);
        log_info(&request->log, 0, "%s: \"%.*s: %.*s\"", head->reason, STR_ARG(name),
                 STR_ARG(value));
    } else {
        log_info(&request->log, 0, "%s", head->reason);
    }
    request->log.action = NULL;
    counters_mine->limited += head->status == 494;
}
