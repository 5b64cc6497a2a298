/* What the fields of a head say of the request: server, target, framing, priority (RFC 9113, 8.3). */
#include <stdlib.h>

#include "base/text.h"
#include "http/message/uri.h"
#include "http/message/parser.h"
#include "http/variables/variables.h"
#include "http/v2/heading.h"

/* Cookies may come in pieces; the server knows one (8.2.3). */
static void join_cookies(struct request *request)
{
    struct str joined;

    if (fields_joined(&request->headers, &request->arena, FIELD_COOKIE, &joined)) {
        fields_set(&request->headers, &request->arena, FIELD_COOKIE, joined);
    }
}

static void set_line(struct heading *heading)
{
    struct request *request = heading->request;
    struct str target = heading->pseudo[PSEUDO_PATH].len != 0 ? heading->pseudo[PSEUDO_PATH]
                                                              : heading->pseudo[PSEUDO_AUTHORITY];
    size_t size = heading->pseudo[PSEUDO_METHOD].len + target.len + 10;
    char *at = arena_text(&request->arena, size);

    request->line = (struct str){at, size};
    if (heading->pseudo[PSEUDO_METHOD].len != 0) {
        memcpy(at, heading->pseudo[PSEUDO_METHOD].data, heading->pseudo[PSEUDO_METHOD].len);
    }
    at += heading->pseudo[PSEUDO_METHOD].len;
    *at++ = ' ';
    if (target.len != 0) {
        memcpy(at, target.data, target.len);
    }
    memcpy(at + target.len, " HTTP/2.0", 9);
}

/* The server of a host, which most often is the one of the request before. */
static void set_host(struct heading *heading, struct str host)
{
    struct v2_connection *c = heading->c;
    struct request *request = heading->request;
    const struct http_listen *listen = c->http->listen;

    if (host.len != 0 && host.len == c->host_len && memcmp(host.data, c->host, host.len) == 0) {
        request->host = str_head(host, c->host_name_len);
        request->port = str_skip(host, host.len - c->host_port_len);
        request->server = c->host_server;
        request_set_location(request, request->server->root);
        return;
    }
    if (!authority_parse(&request->arena, host, &request->host, &request->port)) {
        heading_refuse(heading, 400, "client sent invalid host header", NULL);
        return;
    }
    request->server = listen->default_server;
    if (listen->has_names) {
        request->server = server_find(listen, request->host, &request->env);
    }
    request_set_location(request, request->server->root);
    if (request->host.data == host.data && host.len <= sizeof(c->host) &&
        listen->names.regexes == NULL) {
        memcpy(c->host, host.data, host.len);
        c->host_len = (uint8_t) host.len;
        c->host_name_len = (uint8_t) request->host.len;
        c->host_port_len = (uint8_t) request->port.len;
        c->host_server = request->server;
    }
}

/* :authority, or Host; both have to be the same (8.3.1). */
static void find_server(struct heading *heading)
{
    struct request *request = heading->request;
    const struct field *field = fields_get(&request->headers, FIELD_HOST);

    if (field != NULL && heading->has[PSEUDO_AUTHORITY] &&
        !str_equal_nocase(field->value, heading->pseudo[PSEUDO_AUTHORITY])) {
        heading_refuse(heading, 400, "client sent \"host\" that differs from \":authority\"", NULL);
    }
    if (!heading->has[PSEUDO_AUTHORITY] && field == NULL) {
        if (heading->status == 0) {
            heading_refuse(heading, 400, "client sent neither \":authority\" nor \"host\" header",
                           NULL);
        }
        return;
    }
    if (field == NULL) {
        fields_add_known(&request->headers, &request->arena, FIELD_HOST,
                         heading->pseudo[PSEUDO_AUTHORITY]);
    }
    set_host(heading,
             heading->has[PSEUDO_AUTHORITY] ? heading->pseudo[PSEUDO_AUTHORITY] : field->value);
    if (request_is_encrypted(request) &&
        heading->c->http->listen->asked != heading->c->http->protocol &&
        !v2_is_on(request->server)) {
        /* The connection was made for another server (9.1.2): the client comes again on one of its own. In plain
         * there is none of its own: who speaks there is known only by then. */
        heading_refuse(heading, 421, "client sent a request to a server where HTTP/2 is off", NULL);
    }
}

static void set_target(struct heading *heading)
{
    struct request *request = heading->request;
    struct uri uri;

    request->target = heading->pseudo[PSEUDO_PATH];
    if (heading->pseudo[PSEUDO_PATH].len == 0 || heading->pseudo[PSEUDO_PATH].data[0] != '/') {
        request->uri = STR("");
        if (str_is(heading->pseudo[PSEUDO_PATH], "*") && request->method == METHOD_OPTIONS) {
            request->uri = STR("/");
            return;
        }
        heading_refuse(heading, 400, "client sent invalid :path header", NULL);
        return;
    }
    if (!uri_normalise(&request->arena, heading->pseudo[PSEUDO_PATH],
                       request->server->merge_slashes, &uri)) {
        request->uri = STR("");
        heading_refuse(heading, 400, "client sent invalid :path header", NULL);
        return;
    }
    request->uri = uri.path;
    request->args = uri.args.len != 0 ? uri.args : STR_NONE;
    request->uri_has_quoted = uri.was_quoted;
    if (request->method == METHOD_TRACE) {
        heading_refuse(heading, 405, "client sent TRACE method", NULL);
    }
}

/* CONNECT (8.5): host and port alone; as v1 has it. */
static void set_tunnel_target(struct heading *heading)
{
    struct request *request = heading->request;

    if (!request->server->accepts_connect) {
        heading_refuse(heading, 405, "client sent CONNECT method", NULL);
    } else if (heading->has[PSEUDO_SCHEME] || heading->has[PSEUDO_PATH]) {
        heading_refuse(heading, 400, "client sent CONNECT with \":scheme\" or \":path\"", NULL);
    } else if (request->host.len == 0 || request->port.len == 0) {
        heading_refuse(heading, 400, "client sent CONNECT without host and port", NULL);
    }
    request->target = heading->pseudo[PSEUDO_AUTHORITY];
    request->uri = STR("/");
    request->args = STR_NONE;
    request->is_target_stale = true;
    request->is_body_read = true;
}

#define WEBSOCKET_KEY_BYTES 16

/*
 * Extended CONNECT for WebSocket (RFC 8441): to whom it is passed on it is what HTTP/1.1 has for it, a GET
 * with Upgrade. The key, which HTTP/2 has not, need not be secret: it proves that the peer is no cache.
 */
static void become_upgrade(struct heading *heading)
{
    struct request *request = heading->request;
    struct v2_stream *stream = request->wire_state;
    char key[WEBSOCKET_KEY_BYTES];

    if (!str_equal_nocase(heading->pseudo[PSEUDO_PROTOCOL], STR("websocket"))) {
        heading_refuse(heading, 501, "client sent CONNECT with unknown \":protocol\"", NULL);
        return;
    }
    for (size_t i = 0; i < sizeof(key); i++) {
        key[i] = (char) (random() >> 7);
    }
    stream->is_websocket = true;
    request->method = METHOD_GET;
    request->method_name = STR("GET");
    request->is_body_read = true;
    request->content_length = -1;
    request->sent_length = -1;
    request->is_chunked_body = false;
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

/* What has to be there (8.3.1), and of which bytes: what goes into a line of HTTP/1 must not end it. */
static void check_pseudo(struct heading *heading)
{
    bool is_connect =
        str_is(heading->pseudo[PSEUDO_METHOD], "CONNECT") && !heading->has[PSEUDO_PROTOCOL];

    if (!heading->has[PSEUDO_METHOD] || heading->pseudo[PSEUDO_METHOD].len == 0) {
        heading_refuse(heading, 400, "client sent no :method header", NULL);
    } else if (!is_connect &&
               (!heading->has[PSEUDO_SCHEME] || heading->pseudo[PSEUDO_SCHEME].len == 0)) {
        heading_refuse(heading, 400, "client sent no :scheme header", NULL);
    } else if (!is_connect &&
               (!heading->has[PSEUDO_PATH] || heading->pseudo[PSEUDO_PATH].len == 0)) {
        heading_refuse(heading, 400, "client sent no :path header", NULL);
    } else if (heading->has[PSEUDO_PROTOCOL] &&
               !str_is(heading->pseudo[PSEUDO_METHOD], "CONNECT")) {
        heading_refuse(heading, 400, "client sent \":protocol\" without CONNECT", NULL);
    }
    for (size_t i = 0; i < heading->pseudo[PSEUDO_METHOD].len; i++) {
        char c = heading->pseudo[PSEUDO_METHOD].data[i];
        if ((c < 'A' || c > 'Z') && c != '_' && c != '-') {
            heading_refuse(heading, 400, "client sent invalid method", NULL);
        }
    }
    for (size_t i = 0; i < heading->pseudo[PSEUDO_PATH].len; i++) {
        unsigned char c = (unsigned char) heading->pseudo[PSEUDO_PATH].data[i];
        if (c <= ' ' || c == 127) {
            heading_refuse(heading, 400, "client sent invalid :path header", NULL);
        }
    }
    if (!is_scheme(heading->pseudo[PSEUDO_SCHEME])) {
        heading_refuse(heading, 400, "client sent invalid :scheme header", NULL);
    }
}

static void set_framing(struct heading *heading, bool is_last)
{
    struct request *request = heading->request;
    struct v2_stream *stream = request->wire_state;
    const struct field *length = fields_get(&request->headers, FIELD_CONTENT_LENGTH);
    const struct field *expect = fields_get(&request->headers, FIELD_EXPECT);

    request->content_length = -1;
    stream->is_input_ended = is_last;
    if (length != NULL && !content_length_parse(length->value, &request->content_length)) {
        request->content_length = -1;
        heading_refuse(heading, 400, "client sent invalid \"content-length\" header", NULL);
    }
    request->sent_length = request->content_length;
    if (is_last && request->content_length > 0) {
        heading_refuse(heading, 400, "client prematurely closed stream", NULL);
    }
    request->is_body_read = is_last;
    request->is_chunked_body = !is_last && request->content_length < 0;
    request->expects_continue =
        !is_last && expect != NULL && str_equal_nocase(expect->value, STR("100-continue"));
}

static void set_priority(const struct heading *heading, struct v2_stream *stream)
{
    /* Who says nothing is served by turns. */
    stream->urgency = 3;
    stream->is_incremental = true;
    if (heading->priority.data != NULL) {
        stream->connection->ignores_weights = true;
        priority_parse(heading->priority, &stream->urgency, &stream->is_incremental);
    } else {
        v2_weights_begin(stream, &stream->connection->block_priority);
    }
    /* A frame weighs more than the header, which it may have overtaken (RFC 9218, 7). */
    unsigned place = stream->id / 2 % PRIORITIES_KEPT;
    if (stream->connection->early[place].id == stream->id) {
        stream->urgency = stream->connection->early[place].urgency;
        stream->is_incremental = stream->connection->early[place].is_incremental;
    }
}

/* Fields that may come once only, as with HTTP/1. */
static void check_repeats(struct heading *heading)
{
#define ONCE(id, name, repeats) [id] = !(repeats),
    static const bool once[FIELD_COUNT] = {KNOWN_FIELDS(ONCE)};
#undef ONCE
    const struct fields *fields = heading->fields;

    for (uint32_t i = 0; fields->has_repeats && i < fields->count; i++) {
        const struct field *field = &fields->items[i];
        if (once[field->id] && fields_get(fields, (enum field_id) field->id) != field) {
            heading_refuse(heading, 400, "client sent duplicate header line", NULL);
        }
    }
}

/* Everything that the fields say. */
void heading_set_up(struct heading *heading, uint8_t flags)
{
    struct request *request = heading->request;
    bool is_last = (flags & FLAG_END_STREAM) != 0;

    request->method_name = heading->pseudo[PSEUDO_METHOD];
    request->method = method_named(heading->pseudo[PSEUDO_METHOD]);
    request->scheme = heading->pseudo[PSEUDO_SCHEME];
    set_line(heading);
    check_pseudo(heading);
    if (heading->cookies > 1) {
        join_cookies(request);
    }
    check_repeats(heading);
    find_server(heading);
    set_framing(heading, is_last);
    set_priority(heading, request->wire_state);
    if (request->method == METHOD_CONNECT && !heading->has[PSEUDO_PROTOCOL]) {
        set_tunnel_target(heading);
        return;
    }
    set_target(heading);
    if (heading->has[PSEUDO_PROTOCOL] && heading->status == 0) {
        become_upgrade(heading);
    }
}
