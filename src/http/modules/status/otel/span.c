/* A request as a span of OTLP: opentelemetry.proto.trace.v1, and what is around it. */
#include <endian.h>
#include <string.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/protobuf.h"
#include "config.h"
#include "http/modules/status/otel/otel.h"
#include "shared/upstream/attempts.h"

/* Numbers of fields, of each message. */
enum { REQUEST_RESOURCE_SPANS = 1 };
enum { RESOURCE_SPANS_RESOURCE = 1, RESOURCE_SPANS_SCOPE_SPANS = 2 };
enum { RESOURCE_ATTRIBUTES = 1 };
enum { SCOPE_SPANS_SCOPE = 1, SCOPE_SPANS_SPANS = 2 };
enum { SCOPE_NAME = 1, SCOPE_VERSION = 2 };
enum { PAIR_KEY = 1, PAIR_VALUE = 2 };
enum { VALUE_STRING = 1, VALUE_INT = 3 };
enum {
    SPAN_TRACE_ID = 1,
    SPAN_ID = 2,
    SPAN_TRACE_STATE = 3,
    SPAN_PARENT_ID = 4,
    SPAN_NAME = 5,
    SPAN_KIND = 6,
    SPAN_START = 7,
    SPAN_END = 8,
    SPAN_ATTRIBUTES = 9,
    SPAN_STATUS = 15,
    SPAN_FLAGS = 16,
};
enum { STATUS_CODE = 3 };
enum { ANSWER_PARTIAL = 1, PARTIAL_REFUSED = 1, PARTIAL_REASON = 2 };

enum { KIND_INTERNAL = 1, KIND_SERVER = 2, KIND_CLIENT = 3, STATUS_ERROR = 2 };
enum { FLAG_HAS_REMOTE = 0x100, FLAG_IS_REMOTE = 0x200 }; /* what is known of the parent */

/* Bytes that are sent of a text: a client may write as much as its head has room for. */
enum { TEXT_MOST = 1024, TARGET_MOST = 4096 };

/*
 * Spans are written straight to a room that is large enough for all but configured attributes, with the lengths of short texts known
 * beforehand: one request in ten that is recorded must not be felt.
 */
enum { SPAN_ROOM = 16 * 1024, ATTRIBUTE_ROOM = 64 /* beside key and text */ };

/* ---- attributes ---- */

/* Bytes of the lengths and keys around a short text, and the longest that all of them are single bytes with. */
enum { SHORT_AROUND = 6, SHORT_MOST = 127 - SHORT_AROUND };

static inline char *put_byte(char *at, unsigned byte)
{
    *at = (char) byte;
    return at + 1;
}

static inline bool is_ascii(struct str text)
{
    uint64_t word, bits = 0;
    size_t at = 0;

    for (; text.len - at >= sizeof(word); at += sizeof(word)) {
        memcpy(&word, text.data + at, sizeof(word));
        bits |= word;
    }
    for (; at < text.len; at++) {
        bits |= (unsigned char) text.data[at];
    }
    return (bits & 0x8080808080808080u) == 0;
}

/* Key, and the lengths around it. */
static inline char *put_key_of(char *at, unsigned field, struct str key, size_t value_size)
{
    at = put_byte(at, field << 3 | PROTOBUF_BYTES);
    at = put_byte(at, (unsigned) (key.len + value_size + 4));
    at = put_byte(at, PAIR_KEY << 3 | PROTOBUF_BYTES);
    at = put_byte(at, (unsigned) key.len);
    memcpy(at, key.data, key.len);
    at += key.len;
    at = put_byte(at, PAIR_VALUE << 3 | PROTOBUF_BYTES);
    return put_byte(at, (unsigned) value_size);
}

/* What is long, or no ASCII. */
__attribute__((noinline)) static char *put_long_text(char *at, unsigned field, struct str key,
                                                     struct str value, size_t most)
{
    struct buf out = {0};
    size_t pair = protobuf_begin(&out, field);

    protobuf_put_bytes(&out, PAIR_KEY, key);
    size_t inner = protobuf_begin(&out, PAIR_VALUE);
    protobuf_put_text(&out, VALUE_STRING, value, most);
    protobuf_end(&out, inner);
    protobuf_end(&out, pair);
    memcpy(at, out.data, out.len);
    at += out.len;
    buf_free(&out);
    return at;
}

/* There are key.len + most + ATTRIBUTE_ROOM bytes of room. */
static inline char *put_text(char *at, unsigned field, struct str key, struct str value,
                             size_t most)
{
    if (key.len + value.len > SHORT_MOST - 2 || !is_ascii(value)) {
        return put_long_text(at, field, key, value, most);
    }
    at = put_key_of(at, field, key, value.len + 2);
    at = put_byte(at, VALUE_STRING << 3 | PROTOBUF_BYTES);
    at = put_byte(at, (unsigned) value.len);
    return str_put(at, value);
}

/* What is not known is left out. */
static inline char *put_own_text(char *at, struct str key, struct str value)
{
    return value.len == 0 ? at : put_text(at, SPAN_ATTRIBUTES, key, value, TEXT_MOST);
}

static inline char *put_number(char *at, struct str key, uint64_t value)
{
    char *start = put_key_of(at, SPAN_ATTRIBUTES, key, 0);

    at = put_byte(start, VALUE_INT << 3 | PROTOBUF_VARINT);
    at += protobuf_varint(at, value);
    start[-1] = (char) (at - start);
    *(start - 1 - key.len - 4) = (char) (key.len + 4 + (size_t) (at - start));
    return at;
}

/* Attributes that have few values, as they are sent. */
#define CONSTANT(PAIR_SIZE, KEY_SIZE, KEY, VALUE_SIZE, TEXT_SIZE, TEXT)                            \
    "J" PAIR_SIZE "\n" KEY_SIZE KEY "\x12" VALUE_SIZE "\n" TEXT_SIZE TEXT
#define FLAVOR(TEXT) CONSTANT("\x14", "\x0b", "http.flavor", "\x05", "\x03", TEXT)
#define SCHEME_HTTP CONSTANT("\x15", "\x0b", "http.scheme", "\x06", "\x04", "http")
#define SCHEME_HTTPS CONSTANT("\x16", "\x0b", "http.scheme", "\x07", "\x05", "https")

static struct str flavor_of(const struct request *request)
{
    switch (request->version) {
    case HTTP_0_9:
        return STR(FLAVOR("0.9"));
    case HTTP_1_0:
        return STR(FLAVOR("1.0"));
    case HTTP_1_1:
        return STR(FLAVOR("1.1"));
    case HTTP_2:
        return STR(FLAVOR("2.0"));
    case HTTP_3:
        return STR(FLAVOR("3.0"));
    }
    return STR_NONE;
}

/* The host that the client wants, and the port, where it is not that of the scheme. */
static char *put_host(char *at, struct request *request, bool is_encrypted)
{
    uint16_t port = addr_port(connection_local(request->connection));

    at = put_own_text(at, STR("net.host.name"),
                      request->host.len != 0 ? request->host : request->server->name);
    if (port != 0 && port != (is_encrypted ? 443 : 80)) {
        at = put_number(at, STR("net.host.port"), port);
    }
    return at;
}

static char *put_client(char *at, struct request *request)
{
    struct addr client;

    at = put_own_text(at, STR("net.sock.peer.addr"), request_client_text(request));
    request_client(request, &client);
    uint16_t port = addr_port(&client);
    return port == 0 ? at : put_number(at, STR("net.sock.peer.port"), port);
}

/* Those that each span has; names are those of nginx-otel. */
static char *put_attributes(char *at, struct request *request)
{
    const struct field *agent = fields_get(&request->headers, FIELD_USER_AGENT);
    bool is_encrypted = request_is_encrypted(request);

    at = put_own_text(at, STR("http.method"), request->method_name);
    if (request->target.len != 0) {
        at = put_text(at, SPAN_ATTRIBUTES, STR("http.target"), request->target, TARGET_MOST);
    }
    at = put_own_text(at, STR("http.route"), request->location->name);
    at = is_encrypted ? STR_PUT(at, SCHEME_HTTPS) : STR_PUT(at, SCHEME_HTTP);
    at = str_put(at, flavor_of(request));
    if (agent != NULL) {
        at = put_own_text(at, STR("http.user_agent"), agent->value);
    }
    if (request->content_length > 0 || request->body_received != 0) {
        at = put_number(at, STR("http.request_content_length"),
                        request->content_length > 0 ? (uint64_t) request->content_length
                                                    : request->body_received);
    }
    at = put_number(at, STR("http.response_content_length"), request_body_bytes_sent(request));
    at = put_number(at, STR("http.status_code"), request->response.status);
    at = put_host(at, request, is_encrypted);
    return put_client(at, request);
}

/* Their values may be of any number and length. */
static char *put_configured(struct buf *out, char *at, struct request *request,
                            const struct vec *attributes)
{
    vec_each(const struct key_template, attribute, attributes) {
        struct str value = template_text(attribute->text, &request->env);

        out->len = (size_t) (at - out->data);
        at = buf_reserve(out, attribute->key.len + TARGET_MOST + ATTRIBUTE_ROOM + SPAN_ROOM / 2);
        at = put_text(at, SPAN_ATTRIBUTES, attribute->key, value, TARGET_MOST);
    }
    return at;
}

/* ---- the span ---- */

static inline char *put_id(char *at, unsigned field, const unsigned char *id, size_t size)
{
    at = put_byte(at, field << 3 | PROTOBUF_BYTES);
    at = put_byte(at, (unsigned) size);
    memcpy(at, id, size);
    return at + size;
}

static char *put_identity(char *at, const struct otel_context *context)
{
    at = put_id(at, SPAN_TRACE_ID, context->own.trace_id, TRACE_ID_SIZE);
    at = put_id(at, SPAN_ID, context->own.span_id, SPAN_ID_SIZE);
    if (context->state.len != 0) {
        at = put_byte(at, SPAN_TRACE_STATE << 3 | PROTOBUF_BYTES);
        at += protobuf_varint(at, context->state.len);
        at = str_put(at, context->state);
    }
    return context->has_parent ? put_id(at, SPAN_PARENT_ID, context->parent_id, SPAN_ID_SIZE) : at;
}

static char *put_span_name(char *at, struct str name)
{
    if (name.len > SHORT_MOST || !is_ascii(name)) {
        struct buf out = {0};

        protobuf_put_text(&out, SPAN_NAME, name, TEXT_MOST);
        at = str_put(at, buf_str(&out));
        buf_free(&out);
        return at;
    }
    at = put_byte(at, SPAN_NAME << 3 | PROTOBUF_BYTES);
    at = put_byte(at, (unsigned) name.len);
    return str_put(at, name);
}

static struct str name_of(struct request *request, const struct otel_settings *settings)
{
    if (settings->span_name != NULL) {
        return template_text(settings->span_name, &request->env);
    }
    return request->location->name.len != 0 ? request->location->name : request->method_name;
}

static inline char *put_time(char *at, unsigned field, uint64_t ns)
{
    ns = htole64(ns);
    at = put_byte(at, field << 3 | PROTOBUF_FIXED64);
    memcpy(at, &ns, sizeof(ns));
    return at + sizeof(ns);
}

/* Of the monotonic clock. */
static char *put_times(char *at, uint64_t start_ms, uint64_t end_ms)
{
    uint64_t now_ms = (uint64_t) clock_now.seconds * 1000 + clock_now.milliseconds;

    at = put_time(at, SPAN_START, (now_ms - (clock_now.now_ms - start_ms)) * 1000000);
    return put_time(at, SPAN_END, (now_ms - (clock_now.now_ms - end_ms)) * 1000000);
}

static char *put_error(char *at)
{
    at = put_byte(at, SPAN_STATUS << 3 | PROTOBUF_BYTES);
    at = put_byte(at, 2);
    at = put_byte(at, STATUS_CODE << 3 | PROTOBUF_VARINT);
    return put_byte(at, STATUS_ERROR);
}

static char *put_flags(char *at, const struct otel_context *context)
{
    uint32_t flags =
        htole32(TRACE_FLAG_SAMPLED | FLAG_HAS_REMOTE | (context->has_parent ? FLAG_IS_REMOTE : 0));

    at += protobuf_varint(at, SPAN_FLAGS << 3 | PROTOBUF_FIXED32);
    memcpy(at, &flags, sizeof(flags));
    return at + sizeof(flags);
}

/* A span has more than 127 bytes, and seldom more than two bytes of length tell. */
static void put_span_length(struct buf *out, size_t at)
{
    size_t size = out->len - at - 2;

    if (size < 1 << 14) {
        out->data[at] = (char) (size | 0x80);
        out->data[at + 1] = (char) (size >> 7);
        return;
    }
    char length[PROTOBUF_VARINT_MAX];
    size_t more = protobuf_varint(length, size) - 2;
    buf_reserve(out, more);
    memmove(out->data + at + 2 + more, out->data + at + 2, size);
    memcpy(out->data + at, length, 2 + more);
    out->len += more;
}

void otel_put_span(struct buf *out, struct request *request)
{
    const struct otel_context *context = otel_context_made(request);
    const struct otel_settings *settings = otel_settings_at(request->location);
    size_t start = out->len;
    char *at = buf_reserve(out, SPAN_ROOM);

    at = put_byte(at, SCOPE_SPANS_SPANS << 3 | PROTOBUF_BYTES) + 2; /* its length of most */
    at = put_identity(at, context);
    at = put_span_name(at, name_of(request, settings));
    at = put_byte(at, SPAN_KIND << 3 | PROTOBUF_VARINT);
    at = put_byte(at, KIND_SERVER);
    at = put_times(at, request->start_ms, clock_now.now_ms); /* $request_time */
    at = put_attributes(at, request);
    if (settings->attributes.count != 0) {
        at = put_configured(out, at, request, &settings->attributes);
    }
    if (request->response.status >= 500) {
        at = put_error(at);
    }
    at = put_flags(at, context);
    out->len = (size_t) (at - out->data);
    put_span_length(out, start + 1);
}

/* ---- attempts at backends ---- */

static char *put_milliseconds(char *at, struct str key, uint64_t ms)
{
    return ms == UINT64_MAX ? at : put_number(at, key, ms);
}

/* How a span within that of the request begins. */
static char *put_child(char *at, const struct otel_context *context, struct str name, unsigned kind)
{
    unsigned char id[SPAN_ID_SIZE];

    random_bytes(id, sizeof(id));
    id[0] |= id[0] == 0;
    at = put_byte(at, SCOPE_SPANS_SPANS << 3 | PROTOBUF_BYTES) + 2;
    at = put_id(at, SPAN_TRACE_ID, context->own.trace_id, TRACE_ID_SIZE);
    at = put_id(at, SPAN_ID, id, SPAN_ID_SIZE);
    at = put_id(at, SPAN_PARENT_ID, context->own.span_id, SPAN_ID_SIZE);
    at = put_span_name(at, name);
    at = put_byte(at, SPAN_KIND << 3 | PROTOBUF_VARINT);
    return put_byte(at, kind);
}

void otel_put_attempt(struct buf *out, struct request *request, const struct attempt *attempt)
{
    const struct otel_context *context = otel_context_made(request);
    uint64_t end_ms = attempt->response_ms == UINT64_MAX ? clock_now.now_ms
                                                         : attempt->began_ms + attempt->response_ms;
    size_t start = out->len;
    char *at = buf_reserve(out, SPAN_ROOM);

    at = put_child(at, context, attempt->group.len != 0 ? attempt->group : attempt->peer,
                   KIND_CLIENT);
    at = put_times(at, attempt->began_ms, end_ms);
    at = put_own_text(at, STR("upstream.name"), attempt->group);
    at = put_own_text(at, STR("upstream.addr"), attempt->peer);
    if (attempt->status != 0) {
        at = put_number(at, STR("http.status_code"), attempt->status);
    }
    at = put_milliseconds(at, STR("upstream.connect_time_ms"), attempt->connect_ms);
    at = put_milliseconds(at, STR("upstream.header_time_ms"), attempt->header_ms);
    at = put_number(at, STR("upstream.bytes_sent"), attempt->bytes_sent);
    at = put_number(at, STR("upstream.bytes_received"), attempt->bytes_received);
    if (attempt->status == 0 || attempt->status >= 500) {
        at = put_error(at);
    }
    out->len = (size_t) (at - out->data);
    put_span_length(out, start + 1);
}

/* ---- parts ---- */

/* Nanoseconds of the wall clock; a part lies within its request, whose times are milliseconds. */
static uint64_t wall_ns(const struct request *request, uint64_t ns)
{
    uint64_t first_ns = request->start_ms * 1000000;
    uint64_t last_ns = clock_now.now_ms * 1000000;
    uint64_t wall_ms = (uint64_t) clock_now.seconds * 1000 + clock_now.milliseconds;

    ns = ns < first_ns ? first_ns : ns > last_ns ? last_ns : ns;
    return wall_ms * 1000000 - (last_ns - ns);
}

void otel_put_part(struct buf *out, struct request *request, const struct otel_part *part)
{
    size_t start = out->len;
    char *at = buf_reserve(out, SPAN_ROOM);

    at = put_child(at, otel_context_made(request), part->name, KIND_INTERNAL);
    at = put_time(at, SPAN_START, wall_ns(request, part->began_ns));
    at = put_time(at, SPAN_END, wall_ns(request, part->ended_ns));
    if (part->value.len != 0) {
        at = put_text(at, SPAN_ATTRIBUTES, part->key, part->value, TARGET_MOST);
    }
    if (part->status != 0) {
        at = put_number(at, STR("http.status_code"), part->status);
    }
    if (part->status >= 500) {
        at = put_error(at);
    }
    out->len = (size_t) (at - out->data);
    put_span_length(out, start + 1);
}

/* ---- what is around spans ---- */

static void put_resource_text(struct buf *out, struct str key, struct str value)
{
    char *at = buf_reserve(out, key.len + TARGET_MOST + ATTRIBUTE_ROOM);

    out->len = (size_t) (put_text(at, RESOURCE_ATTRIBUTES, key, value, TARGET_MOST) - out->data);
}

static void put_resource(struct buf *out, const struct otel_main *main)
{
    size_t resource = protobuf_begin(out, RESOURCE_SPANS_RESOURCE);
    bool has_service = !str_is(main->service_name, OTEL_UNKNOWN_SERVICE);

    vec_each(const struct otel_pair, pair, &main->resource) {
        bool is_service = str_is(pair->name, "service.name");

        if (!is_service || !has_service) {
            put_resource_text(out, pair->name, pair->value);
        }
        has_service |= is_service;
    }
    if (!has_service || !str_is(main->service_name, OTEL_UNKNOWN_SERVICE)) {
        put_resource_text(out, STR("service.name"), main->service_name);
    }
    protobuf_end(out, resource);
}

static void put_scope(struct buf *out)
{
    size_t scope = protobuf_begin(out, SCOPE_SPANS_SCOPE);

    protobuf_put_bytes(out, SCOPE_NAME, STR("nginx"));
    protobuf_put_bytes(out, SCOPE_VERSION, STR(PORTUNUS_VERSION));
    protobuf_end(out, scope);
}

static size_t varint_size(uint64_t value)
{
    char text[PROTOBUF_VARINT_MAX];

    return protobuf_varint(text, value);
}

void otel_put_frame(struct buf *out, const struct otel_main *main, size_t spans_size)
{
    struct buf resource = {0};
    struct buf scope = {0};

    put_resource(&resource, main);
    put_scope(&scope);
    uint64_t scope_spans = scope.len + spans_size;
    uint64_t resource_spans = resource.len + 1 + varint_size(scope_spans) + scope_spans;
    protobuf_put_key(out, REQUEST_RESOURCE_SPANS, PROTOBUF_BYTES);
    protobuf_put_varint(out, resource_spans);
    buf_append(out, buf_str(&resource));
    protobuf_put_key(out, RESOURCE_SPANS_SCOPE_SPANS, PROTOBUF_BYTES);
    protobuf_put_varint(out, scope_spans);
    buf_append(out, buf_str(&scope));
    buf_free(&resource);
    buf_free(&scope);
}

bool otel_read_refusal(struct str answer, uint64_t *refused, struct str *reason)
{
    struct protobuf_field field, inner;
    bool is_bad;

    *refused = 0;
    *reason = STR_NONE;
    while (protobuf_next(&answer, &field, &is_bad)) {
        struct str partial = field.bytes;

        while (field.number == ANSWER_PARTIAL && protobuf_next(&partial, &inner, &is_bad)) {
            if (inner.number == PARTIAL_REFUSED) {
                *refused = inner.value;
            } else if (inner.number == PARTIAL_REASON) {
                *reason = inner.bytes;
            }
        }
    }
    return *refused != 0 || reason->len != 0;
}
