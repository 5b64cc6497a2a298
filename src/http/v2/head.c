/* From a header block to a request (RFC 9113, 8), or to the trailers of one. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/text.h"
#include "http/uri.h"
#include "http/v1/parser.h"
#include "http/v2/v2.h"
#include "server/generation.h"

/* Numbers of the names in HPACK's static table, where the server knows them. */
static const uint8_t known_of[62] = {
    [15] = FIELD_OTHER,
    [16] = FIELD_ACCEPT_ENCODING,
    [18] = FIELD_ACCEPT_RANGES,
    [23] = FIELD_AUTHORIZATION,
    [24] = FIELD_CACHE_CONTROL,
    [26] = FIELD_CONTENT_ENCODING,
    [28] = FIELD_CONTENT_LENGTH,
    [30] = FIELD_CONTENT_RANGE,
    [31] = FIELD_CONTENT_TYPE,
    [32] = FIELD_COOKIE,
    [33] = FIELD_DATE,
    [34] = FIELD_ETAG,
    [35] = FIELD_EXPECT,
    [36] = FIELD_EXPIRES,
    [38] = FIELD_HOST,
    [39] = FIELD_IF_MATCH,
    [40] = FIELD_IF_MODIFIED_SINCE,
    [41] = FIELD_IF_NONE_MATCH,
    [42] = FIELD_IF_RANGE,
    [43] = FIELD_IF_UNMODIFIED_SINCE,
    [44] = FIELD_LAST_MODIFIED,
    [45] = FIELD_LINK,
    [46] = FIELD_LOCATION,
    [50] = FIELD_RANGE,
    [51] = FIELD_REFERER,
    [52] = FIELD_REFRESH,
    [54] = FIELD_SERVER,
    [55] = FIELD_SET_COOKIE,
    [57] = FIELD_TRANSFER_ENCODING,
    [58] = FIELD_USER_AGENT,
    [59] = FIELD_VARY,
    [60] = FIELD_VIA,
    [61] = FIELD_WWW_AUTHENTICATE,
};

/* A header block on its way to a request. */
struct heading {
    struct v2_connection *c;
    struct request *request;
    struct fields *fields; /* where they go */
    const struct head_limits *limits;
    struct str method, scheme, path, authority, protocol;
    bool has_method, has_scheme, has_path, has_authority, has_protocol;
    bool has_regular;       /* a field that is none of these came: they come no more */
    bool is_trailer;        /* no pseudo-fields at all */
    uint32_t count;         /* fields */
    uint32_t cookies;
    size_t size;            /* bytes of names and values */
    unsigned status;        /* to refuse the request with; 0 = none */
    enum v2_error error;    /* … and the stream is reset with this */
    struct str name, value; /* of the field that was wrong */
    const char *reason;
};

/* Notes the first thing that is wrong; the rest of the block is read for the table's sake. */
static void refuse(struct heading *heading, unsigned status, const char *reason,
                   const struct hpack_field *field)
{
    if (heading->status != 0) {
        return;
    }
    heading->status = status;
    heading->error = status == 400 ? V2_PROTOCOL_ERROR : V2_NO_ERROR;
    heading->reason = reason;
    if (field != NULL) {
        heading->name = field->name;
        heading->value = field->value;
    }
}

/* ---- fields ---- */

enum name_kind { NAME_GOOD, NAME_ODD, NAME_MALFORMED };

/* Lower case letters, digits and hyphens are usual; other visible characters are odd (RFC 9113, 8.2.1). */
static enum name_kind check_name(struct str name, bool underscores)
{
    enum name_kind kind = NAME_GOOD;

    if (name.len == 0) {
        return NAME_MALFORMED;
    }
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char) name.data[i];
        if ((c >= 'a' && c <= 'z') || c == '-' || ascii_is_digit(c) || (c == '_' && underscores)) {
            continue;
        }
        if (c <= ' ' || c >= 127 || (c >= 'A' && c <= 'Z') || c == ':') {
            return NAME_MALFORMED;
        }
        kind = NAME_ODD;
    }
    return kind;
}

#define ONES 0x0101010101010101u

/* No byte that ends a line or a text. Eight at a time: in a word without bytes below 0x10 are none. */
static bool value_is_sound(struct str value)
{
    size_t i = 0;

    for (; i + 8 <= value.len; i += 8) {
        uint64_t word;
        memcpy(&word, value.data + i, 8);
        if (((word - ONES * 0x10) & ~word & ONES * 0x80) == 0) {
            continue;
        }
        for (size_t j = i; j < i + 8; j++) {
            if (value.data[j] == '\0' || value.data[j] == '\r' || value.data[j] == '\n') {
                return false;
            }
        }
    }
    for (; i < value.len; i++) {
        if (value.data[i] == '\0' || value.data[i] == '\r' || value.data[i] == '\n') {
            return false;
        }
    }
    return true;
}

static void take_pseudo(struct heading *heading, const struct hpack_field *field)
{
    const struct {
        struct str name;
        struct str *value;
        bool *is_there;
    } known[] = {
        {STR(":method"), &heading->method, &heading->has_method},
        {STR(":path"), &heading->path, &heading->has_path},
        {STR(":scheme"), &heading->scheme, &heading->has_scheme},
        {STR(":authority"), &heading->authority, &heading->has_authority},
        {STR(":protocol"), &heading->protocol, &heading->has_protocol},
    };

    if (heading->has_regular || heading->is_trailer) {
        refuse(heading, 400, "client sent out of order pseudo-headers", NULL);
        return;
    }
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (!str_equal(field->name, known[i].name)) {
            continue;
        }
        if (*known[i].is_there) {
            refuse(heading, 400, "client sent duplicate pseudo-header", field);
        }
        *known[i].is_there = true;
        *known[i].value = field->value;
        return;
    }
    refuse(heading, 400, "client sent unknown pseudo-header", field);
}

/* Fields that speak of a connection (8.2.2). */
static bool is_of_connection(enum field_id id, const struct hpack_field *field)
{
    switch (id) {
    case FIELD_CONNECTION:
    case FIELD_KEEP_ALIVE:
    case FIELD_TRANSFER_ENCODING:
    case FIELD_UPGRADE:
        return true;
    case FIELD_TE:
        return !str_equal_nocase(field->value, STR("trailers"));
    case FIELD_OTHER:
        return str_is(field->name, "proxy-connection");
    default:
        return false;
    }
}

static void take_regular(struct heading *heading, const struct hpack_field *field)
{
    struct request *request = heading->request;
    enum field_id id = FIELD_OTHER;

    heading->has_regular = true;
    if (field->static_index != 0) {
        id = (enum field_id) known_of[field->static_index];
    } else {
        switch (check_name(field->name, heading->limits->underscores)) {
        case NAME_GOOD:
            id = field_identify(field->name);
            break;
        case NAME_MALFORMED:
            refuse(heading, 400, "client sent invalid header", field);
            return;
        case NAME_ODD:
            if (heading->limits->ignore_invalid) {
                log_info(&request->log, 0, "client sent invalid header: \"%.*s\"",
                         STR_ARG(field->name));
                return;
            }
            break;
        }
    }
    if (is_of_connection(id, field)) {
        refuse(heading, 400, "client sent connection-specific header", field);
        return;
    }
    heading->cookies += id == FIELD_COOKIE;
    fields_add_identified(heading->fields, &request->arena, id, field->name, field->value);
}

static void take_field(struct heading *heading, const struct hpack_field *field)
{
    size_t size = field->name.len + field->value.len;

    heading->size += size;
    heading->count++;
    if (size > heading->limits->line_max) {
        refuse(heading, 494, "client sent too long header line", NULL);
    } else if (heading->size > heading->limits->head_max) {
        refuse(heading, 494, "client sent too large request", NULL);
    } else if (heading->count > heading->limits->headers_max) {
        refuse(heading, 400, "client sent too many header lines", NULL);
    } else if (!value_is_sound(field->value)) {
        refuse(heading, 400, "client sent header with invalid value", field);
    } else if (field->name.len != 0 && field->name.data[0] == ':') {
        take_pseudo(heading, field);
    } else {
        take_regular(heading, field);
    }
}

/* How much a block may become when it is unpacked: beyond that it is a bomb, and the connection ends. */
#define EXPANSION_MAX 4 /* times the limit of a head */

/* All of the block. False: the connection has failed. */
static bool decode(struct heading *heading, struct str block)
{
    struct v2_connection *c = heading->c;
    struct hpack_field field;

    for (;;) {
        switch (hpack_decode(&c->decoder, &block, &heading->request->arena,
                             heading->limits->head_max * EXPANSION_MAX, &field)) {
        case HPACK_FIELD:
            take_field(heading, &field);
            if (heading->size + heading->count * 32u > heading->limits->head_max * EXPANSION_MAX) {
                v2_guard_failed(c, "bytes in compressed headers");
                return false;
            }
            break;
        case HPACK_END:
            return true;
        case HPACK_BAD:
            v2_fail(c, V2_COMPRESSION_ERROR, "sent a malformed header block");
            return false;
        }
    }
}

/* ---- the request ---- */

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
    struct str target = heading->path.len != 0 ? heading->path : heading->authority;
    size_t size = heading->method.len + target.len + 10;
    char *at = arena_text(&request->arena, size);

    request->line = (struct str){at, size};
    if (heading->method.len != 0) {
        memcpy(at, heading->method.data, heading->method.len);
    }
    at += heading->method.len;
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
        refuse(heading, 400, "client sent invalid host header", NULL);
        return;
    }
    request->server = listen->default_server;
    if (listen->has_names) {
        request->server = server_find(listen, request->host, request);
    }
    request_set_location(request, request->server->root);
    if (request->host.data == host.data && host.len <= sizeof(c->host) &&
        listen->regexes == NULL) {
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

    if (field != NULL && heading->has_authority &&
        !str_equal_nocase(field->value, heading->authority)) {
        refuse(heading, 400, "client sent \"host\" that differs from \":authority\"", NULL);
    }
    if (!heading->has_authority && field == NULL) {
        if (heading->status == 0) {
            refuse(heading, 400, "client sent neither \":authority\" nor \"host\" header", NULL);
        }
        return;
    }
    if (field == NULL) {
        fields_add_known(&request->headers, &request->arena, FIELD_HOST, heading->authority);
    }
    set_host(heading, heading->has_authority ? heading->authority : field->value);
}

static void set_target(struct heading *heading)
{
    struct request *request = heading->request;
    struct uri uri;

    request->target = heading->path;
    if (heading->path.len == 0 || heading->path.data[0] != '/') {
        request->uri = STR("");
        if (str_is(heading->path, "*") && request->method == METHOD_OPTIONS) {
            request->uri = STR("/");
            return;
        }
        refuse(heading, 400, "client sent invalid :path header", NULL);
        return;
    }
    if (!uri_normalise(&request->arena, heading->path, request->server->merge_slashes, &uri)) {
        request->uri = STR("");
        refuse(heading, 400, "client sent invalid :path header", NULL);
        return;
    }
    request->uri = uri.path;
    request->args = uri.args.len != 0 ? uri.args : STR_NONE;
    request->uri_has_quoted = uri.was_quoted;
    if (request->method == METHOD_TRACE) {
        refuse(heading, 405, "client sent TRACE method", NULL);
    }
}

/* CONNECT (8.5): host and port alone; as v1 has it. */
static void set_tunnel_target(struct heading *heading)
{
    struct request *request = heading->request;

    if (!request->server->accepts_connect) {
        refuse(heading, 405, "client sent CONNECT method", NULL);
    } else if (heading->has_scheme || heading->has_path) {
        refuse(heading, 400, "client sent CONNECT with \":scheme\" or \":path\"", NULL);
    } else if (request->host.len == 0 || request->port.len == 0) {
        refuse(heading, 400, "client sent CONNECT without host and port", NULL);
    }
    request->target = heading->authority;
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

    if (!str_equal_nocase(heading->protocol, STR("websocket"))) {
        refuse(heading, 501, "client sent CONNECT with unknown \":protocol\"", NULL);
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
    request->is_chunked_body = false;
    struct fields *headers = &request->headers;
    struct arena *arena = &request->arena;
    fields_add_known(headers, arena, FIELD_UPGRADE, STR("websocket"));
    fields_add_known(headers, arena, FIELD_CONNECTION, STR("Upgrade"));
    fields_add(headers, arena, STR("sec-websocket-key"),
               base64_encode(arena, (struct str){key, sizeof(key)}, false));
}

/* What has to be there (8.3.1). */
static void check_pseudo(struct heading *heading)
{
    bool is_connect = str_is(heading->method, "CONNECT") && !heading->has_protocol;

    if (!heading->has_method || heading->method.len == 0) {
        refuse(heading, 400, "client sent no :method header", NULL);
    } else if (!is_connect && (!heading->has_scheme || heading->scheme.len == 0)) {
        refuse(heading, 400, "client sent no :scheme header", NULL);
    } else if (!is_connect && (!heading->has_path || heading->path.len == 0)) {
        refuse(heading, 400, "client sent no :path header", NULL);
    } else if (heading->has_protocol && !str_is(heading->method, "CONNECT")) {
        refuse(heading, 400, "client sent \":protocol\" without CONNECT", NULL);
    }
    for (size_t i = 0; i < heading->method.len; i++) {
        char c = heading->method.data[i];
        if ((c < 'A' || c > 'Z') && c != '_' && c != '-') {
            refuse(heading, 400, "client sent invalid method", NULL);
        }
    }
    for (size_t i = 0; i < heading->path.len; i++) {
        unsigned char c = (unsigned char) heading->path.data[i];
        if (c < ' ' || c == 127) {
            refuse(heading, 400, "client sent invalid :path header", NULL);
        }
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
        refuse(heading, 400, "client sent invalid \"content-length\" header", NULL);
    }
    if (is_last && request->content_length > 0) {
        refuse(heading, 400, "client prematurely closed stream", NULL);
    }
    request->is_body_read = is_last;
    request->is_chunked_body = !is_last && request->content_length < 0;
    request->expects_continue =
        !is_last && expect != NULL && str_equal_nocase(expect->value, STR("100-continue"));
}

static void set_priority(struct v2_stream *stream)
{
    const struct field *field = fields_find(&stream->request->headers, STR("priority"));

    /* Who says nothing is served by turns. */
    stream->urgency = 3;
    stream->is_incremental = true;
    if (field != NULL) {
        priority_parse(field->value, &stream->urgency, &stream->is_incremental);
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
            refuse(heading, 400, "client sent duplicate header line", NULL);
        }
    }
}

/* Everything that the fields say. */
static void set_up(struct heading *heading, uint8_t flags)
{
    struct request *request = heading->request;
    bool is_last = (flags & FLAG_END_STREAM) != 0;

    request->method_name = heading->method;
    request->method = request_method_of(heading->method);
    request->scheme = heading->scheme;
    set_line(heading);
    check_pseudo(heading);
    if (heading->cookies > 1) {
        join_cookies(request);
    }
    check_repeats(heading);
    find_server(heading);
    set_framing(heading, is_last);
    set_priority(request->wire_state);
    if (request->method == METHOD_CONNECT && !heading->has_protocol) {
        set_tunnel_target(heading);
        return;
    }
    set_target(heading);
    if (heading->has_protocol && heading->status == 0) {
        become_upgrade(heading);
    }
}

static void log_refusal(struct heading *heading)
{
    struct request *request = heading->request;

    request->log.action = "reading client request headers";
    if (heading->name.len != 0) {
        struct str name = str_head(heading->name, 1024);
        struct str value = str_head(heading->value, 1024);
        log_info(&request->log, 0, "%s: \"%.*s: %.*s\"", heading->reason, STR_ARG(name),
                 STR_ARG(value));
    } else {
        log_info(&request->log, 0, "%s", heading->reason);
    }
    request->log.action = NULL;
    counters_mine->limited += heading->status == 494;
}

static void begin_request(struct heading *heading, uint32_t id, uint8_t flags)
{
    struct v2_connection *c = heading->c;
    struct request *request = heading->request;
    struct v2_stream *stream = request->wire_state;

    v2_stream_add(c, stream, id);
    set_up(heading, flags);
    c->http->requests++;
    const struct http_location *location = request->location;
    if ((int64_t) c->http->requests >= location->keepalive_requests ||
        clock_now.now_ms - c->http->start_ms > location->keepalive_time_ms) {
        v2_go_away(c, V2_NO_ERROR);
    }
    if (heading->status != 0) {
        log_refusal(heading);
        stream->error = (uint8_t) heading->error;
        request->is_body_read = true;
        request->response.status = heading->status;
        if (heading->error != V2_NO_ERROR && !v2_guard(c, GUARD_ERRORS)) {
            request->response.status = 0;
        }
    }
    request_start(request);
}

/* ---- the block ---- */

/*
 * A block that belongs to no stream is decoded all the same: it changes the table. *has_fault: it would have
 * been wrong as trailers. False: the connection has failed.
 */
static bool decode_unused(struct v2_connection *c, struct str block, bool *has_fault)
{
    struct request *request = request_new(c->conn, c->http, &v2_wire);
    struct heading heading = {.c = c,
                              .request = request,
                              .fields = &request->headers,
                              .limits = &c->http->listen->default_server->head_limits,
                              .is_trailer = true};
    bool is_sound = decode(&heading, block);

    *has_fault = heading.status != 0;
    request_free(request);
    return is_sound;
}

static void take_trailers(struct v2_stream *stream, uint8_t flags, struct str block)
{
    struct v2_connection *c = stream->connection;
    struct request *request = stream->request;
    struct heading heading = {.c = c,
                              .request = request,
                              .limits = &c->http->listen->default_server->head_limits,
                              .is_trailer = true};

    if (stream->is_input_ended && !stream->is_reset) {
        bool has_fault;
        if (decode_unused(c, block, &has_fault) && v2_guard(c, GUARD_ERRORS)) {
            v2_reset(stream, V2_STREAM_CLOSED);
        }
        return;
    }
    heading.fields = arena_new(&request->arena, struct fields);
    request->head_size += FRAME_HEAD_SIZE + block.len;
    if (!decode(&heading, block) || stream->is_reset) {
        return;
    }
    if ((flags & FLAG_END_STREAM) == 0) {
        refuse(&heading, 400, "client sent trailers that do not end the stream", NULL);
    }
    if (heading.status != 0) {
        log_refusal(&heading);
        if (v2_guard(c, GUARD_ERRORS)) {
            v2_reset(stream, V2_PROTOCOL_ERROR);
        }
        return;
    }
    request->trailers = heading.fields->count != 0 ? heading.fields : NULL;
    v2_body_ended(stream);
}

/* An identifier that was used before, or skipped (5.1.1). */
static void take_stale(struct v2_connection *c, uint32_t id, uint8_t flags, struct str block)
{
    bool has_fault;

    if (v2_drain_has(c, id)) {
        if (decode_unused(c, block, &has_fault)) {
            v2_drain_trailers(c, id, !has_fault && (flags & FLAG_END_STREAM) != 0);
        }
        return;
    }
    switch (v2_ending(c, id)) {
    case END_BY_US:
        decode_unused(c, block, &has_fault);
        break;
    case END_BY_PEER:
        v2_fail(c, V2_STREAM_CLOSED, "sent HEADERS of a closed stream");
        break;
    default:
        v2_fail(c, V2_PROTOCOL_ERROR, "sent HEADERS with a stale stream identifier");
        break;
    }
}

void v2_take_block(struct v2_connection *c, uint32_t id, uint8_t flags, struct str block)
{
    struct v2_stream *stream = v2_find(c, id);

    if (stream != NULL) {
        take_trailers(stream, flags, block);
        return;
    }
    if (id <= c->last_stream) {
        take_stale(c, id, flags, block);
        return;
    }
    c->last_stream = id;
    if (id == c->late_stream) {
        bool has_fault;
        decode_unused(c, block, &has_fault);
        v2_note_closed(c, id, END_BY_US);
        return;
    }
    if (c->is_going_away || c->stream_count >= (uint64_t) c->settings->max_streams) {
        bool has_fault;
        if (decode_unused(c, block, &has_fault) && !c->is_going_away && v2_guard(c, GUARD_ERRORS)) {
            v2_put_reset(c, id, V2_REFUSED_STREAM);
            v2_note_closed(c, id, END_BY_US);
        }
        return;
    }
    struct request *request = request_new(c->conn, c->http, &v2_wire);
    struct heading heading = {.c = c,
                              .request = request,
                              .fields = &request->headers,
                              .limits = &c->http->listen->default_server->head_limits};
    stream = arena_new(&request->arena, struct v2_stream);
    stream->request = request;
    request->wire_state = stream;
    request->version = HTTP_2;
    request->head_size = block.len;
    if (!decode(&heading, block)) {
        request_free(request);
        return;
    }
    begin_request(&heading, id, flags);
}
