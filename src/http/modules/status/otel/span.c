/* A request as an OTLP span: opentelemetry.proto.trace.v1. */
#include "base/checksum.h"
#include "base/clock.h"
#include "http/modules/status/otel/encode.h"
#include "http/modules/status/otel/otel.h"
#include "http/request/request.h"
#include "shared/upstream/attempts.h"

/* Field numbers. */
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

enum { KIND_INTERNAL = 1, KIND_SERVER = 2, KIND_CLIENT = 3, STATUS_ERROR = 2 };
enum { FLAG_HAS_REMOTE = 0x100, FLAG_IS_REMOTE = 0x200 }; /* flags about the parent */

/* ---- attributes ---- */

/* Attributes with few values, encoded as they follow the key of their field. */
#define CONSTANT(PAIR_SIZE, KEY_SIZE, KEY, VALUE_SIZE, TEXT_SIZE, TEXT)                            \
    PAIR_SIZE "\n" KEY_SIZE KEY "\x12" VALUE_SIZE "\n" TEXT_SIZE TEXT
#define FLAVOR(TEXT) CONSTANT("\x14", "\x0b", "http.flavor", "\x05", "\x03", TEXT)
#define SCHEME_HTTP CONSTANT("\x15", "\x0b", "http.scheme", "\x06", "\x04", "http")
#define SCHEME_HTTPS CONSTANT("\x16", "\x0b", "http.scheme", "\x07", "\x05", "https")

#define ROUTE STR("http.route")

/* By enum http_version; all of the same size. */
static const char flavors[][sizeof(FLAVOR("1.1"))] = {
    [HTTP_0_9] = FLAVOR("0.9"), [HTTP_1_0] = FLAVOR("1.0"), [HTTP_1_1] = FLAVOR("1.1"),
    [HTTP_2] = FLAVOR("2.0"),   [HTTP_3] = FLAVOR("3.0"),
};

/* The host of the request, and the port unless it is the default one. */
static inline __attribute__((always_inline)) char *put_host(char *at, unsigned field,
                                                            struct request *request,
                                                            bool is_encrypted)
{
    uint16_t port = addr_port(connection_local(request->connection));

    at = put_own_text(at, field, STR("net.host.name"),
                      request->head.host.len != 0 ? request->head.host : request->server->name);
    if (port != 0 && port != (is_encrypted ? 443 : 80)) {
        at = put_number(at, field, STR("net.host.port"), port);
    }
    return at;
}

/* Writes the most common kind of address directly to its field. */
static inline __attribute__((always_inline)) char *put_ipv4_client(char *at, unsigned field,
                                                                   const struct sockaddr_in *client)
{
    const struct str key = STR("net.sock.peer.addr");
    char *text = put_key_of(at, field, key, 0) + 2;
    char *end = addr_put_v4(text, (const unsigned char *) &client->sin_addr);
    unsigned len = (unsigned) (end - text);

    at[1] = (char) (key.len + 4 + 2 + len);
    text[-3] = (char) (2 + len);
    text[-2] = VALUE_STRING << 3 | PROTOBUF_BYTES;
    text[-1] = (char) len;
    return put_number(end, field, STR("net.sock.peer.port"), ntohs(client->sin_port));
}

static char *put_client(char *at, unsigned field, struct request *request)
{
    struct addr client;

    at = put_own_text(at, field, STR("net.sock.peer.addr"), request_client_text(request));
    request_client(request, &client);
    uint16_t port = addr_port(&client);
    return port == 0 ? at : put_number(at, field, STR("net.sock.peer.port"), port);
}

/* The attributes of every span except the route; names are those of nginx-otel. */
static inline __attribute__((always_inline)) char *put_attributes(char *at, unsigned field,
                                                                  struct request *request)
{
    const struct field *agent = fields_get(&request->headers, FIELD_USER_AGENT);
    bool is_encrypted = request_is_encrypted(request);

    at = put_own_text(at, field, STR("http.method"), request->method_name);
    if (request->head.target.len != 0) {
        at = put_text(at, field, STR("http.target"), request->head.target, TARGET_MOST);
    }
    at = put_byte(at, field << 3 | PROTOBUF_BYTES);
    at = is_encrypted ? STR_PUT(at, SCHEME_HTTPS) : STR_PUT(at, SCHEME_HTTP);
    at = put_byte(at, field << 3 | PROTOBUF_BYTES);
    memcpy(at, flavors[request->head.version], sizeof(flavors[0]) - 1);
    at += sizeof(flavors[0]) - 1;
    if (agent != NULL) {
        at = put_own_text(at, field, STR("http.user_agent"), agent->value);
    }
    if (request->incoming.length > 0 || request->incoming.received != 0) {
        at = put_number(at, field, STR("http.request_content_length"),
                        request->incoming.length > 0 ? (uint64_t) request->incoming.length
                                                     : request->incoming.received);
    }
    at = put_number(at, field, STR("http.response_content_length"),
                    request_body_bytes_sent(request));
    at = put_number(at, field, STR("http.status_code"), request->response.status);
    at = put_host(at, field, request, is_encrypted);
    const struct sockaddr_in *ipv4 = connection_brief_ipv4(request->connection);
    return ipv4 != NULL && request->client == NULL ? put_ipv4_client(at, field, ipv4)
                                                   : put_client(at, field, request);
}

char *otel_put_attributes(char *at, unsigned field, struct request *request)
{
    at = put_own_text(at, field, ROUTE, request->location->name);
    return put_attributes(at, field, request);
}

/* Configured attributes: any number, values of any length. */
static char *put_configured(struct buf *out, char *at, struct request *request,
                            const struct vec *attributes)
{
    vec_each(const struct key_template, attribute, attributes) {
        struct str value = template_text(attribute->text, &request->env);

        out->len = (size_t) (at - out->data);
        at = buf_reserve(out, attribute->key.len + TARGET_MOST + ATTRIBUTE_SIZE + SPAN_SIZE / 2);
        at = put_text(at, SPAN_ATTRIBUTES, attribute->key, value, TARGET_MOST);
    }
    return at;
}

/* ---- the span ---- */

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
    struct buf out = {0};

    protobuf_put_text(&out, SPAN_NAME, name, TEXT_MOST);
    at = str_put(at, buf_str(&out));
    buf_free(&out);
    return at;
}

/* Encodes what all spans of a location have: their name, unless it is configured, and the route. */
void otel_lay_out_span(struct otel_settings *settings, struct arena *arena, struct str name)
{
    struct buf out = {0};

    settings->has_name = settings->span_name == NULL && name.len != 0;
    if (settings->has_name) {
        protobuf_put_text(&out, SPAN_NAME, name, TEXT_MOST);
    }
    protobuf_put_unsigned(&out, SPAN_KIND, KIND_SERVER);
    /* A byte that is not UTF-8 becomes U+FFFD, three bytes. */
    char *at = buf_reserve(&out, ROUTE.len + 3 * TEXT_MOST + ATTRIBUTE_SIZE);
    out.len = (size_t) (put_own_text(at, SPAN_ATTRIBUTES, ROUTE, name) - out.data);
    settings->laid_out = arena_dup(arena, buf_str(&out));
    buf_free(&out);
}

/* Times of the monotonic clock. */
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

void otel_put_span(struct buf *out, struct request *request, const struct otel_context *context)
{
    const struct otel_settings *settings = otel_settings_at(request->location);
    size_t start = out->len;
    char *at = span_reserve(out);

    at = put_byte(at, SCOPE_ITEMS << 3 | PROTOBUF_BYTES) + 2; /* most lengths take two bytes */
    at = put_identity(at, context);
    at = str_put(at, settings->laid_out);
    if (!settings->has_name) {
        at = put_span_name(at, settings->span_name != NULL
                                   ? template_text(settings->span_name, &request->env)
                                   : request->method_name);
    }
    at = put_times(at, request->start_ms, clock_now.now_ms); /* the same time as $request_time */
    at = put_attributes(at, SPAN_ATTRIBUTES, request);
    if (settings->attributes.count != 0) {
        at = put_configured(out, at, request, &settings->attributes);
    }
    if (request->response.status >= 500) {
        at = put_error(at);
    }
    at = put_flags(at, context);
    out->len = (size_t) (at - out->data);
    otel_put_length(out, start + 1);
}

/* ---- attempts at backends ---- */

static char *put_milliseconds(char *at, struct str key, uint64_t ms)
{
    return ms == UINT64_MAX ? at : put_number(at, SPAN_ATTRIBUTES, key, ms);
}

/* Writes the beginning of a span within that of the request. */
static char *put_child(char *at, const struct otel_context *context, struct str name, unsigned kind)
{
    unsigned char id[SPAN_ID_SIZE];

    random_bytes(id, sizeof(id));
    id[0] |= id[0] == 0;
    at = put_byte(at, SCOPE_ITEMS << 3 | PROTOBUF_BYTES) + 2;
    at = put_id(at, SPAN_TRACE_ID, context->own.trace_id, TRACE_ID_SIZE);
    at = put_id(at, SPAN_ID, id, SPAN_ID_SIZE);
    at = put_id(at, SPAN_PARENT_ID, context->own.span_id, SPAN_ID_SIZE);
    at = put_span_name(at, name);
    at = put_byte(at, SPAN_KIND << 3 | PROTOBUF_VARINT);
    return put_byte(at, kind);
}

void otel_put_attempt(struct buf *out, const struct otel_context *context,
                      const struct attempt *attempt)
{
    uint64_t end_ms = attempt->response_ms == UINT64_MAX ? clock_now.now_ms
                                                         : attempt->began_ms + attempt->response_ms;
    size_t start = out->len;
    char *at = span_reserve(out);

    at = put_child(at, context, attempt->group.len != 0 ? attempt->group : attempt->peer,
                   KIND_CLIENT);
    at = put_times(at, attempt->began_ms, end_ms);
    at = put_own_text(at, SPAN_ATTRIBUTES, STR("upstream.name"), attempt->group);
    at = put_own_text(at, SPAN_ATTRIBUTES, STR("upstream.addr"), attempt->peer);
    if (attempt->status != 0) {
        at = put_number(at, SPAN_ATTRIBUTES, STR("http.status_code"), attempt->status);
    }
    at = put_milliseconds(at, STR("upstream.connect_time_ms"), attempt->connect_ms);
    at = put_milliseconds(at, STR("upstream.header_time_ms"), attempt->header_ms);
    at = put_number(at, SPAN_ATTRIBUTES, STR("upstream.bytes_sent"), attempt->bytes_sent);
    at = put_number(at, SPAN_ATTRIBUTES, STR("upstream.bytes_received"), attempt->bytes_received);
    if (attempt->status == 0 || attempt->status >= 500) {
        at = put_error(at);
    }
    out->len = (size_t) (at - out->data);
    otel_put_length(out, start + 1);
}

/* ---- parts ---- */

/* Nanoseconds of the wall clock; a part is within its request, whose times are milliseconds. */
static uint64_t wall_ns(const struct request *request, uint64_t ns)
{
    uint64_t first_ns = request->start_ms * 1000000;
    uint64_t last_ns = clock_now.now_ms * 1000000;
    uint64_t wall_ms = (uint64_t) clock_now.seconds * 1000 + clock_now.milliseconds;

    ns = ns < first_ns ? first_ns : ns > last_ns ? last_ns : ns;
    return wall_ms * 1000000 - (last_ns - ns);
}

void otel_put_part(struct buf *out, const struct request *request,
                   const struct otel_context *context, const struct otel_part *part)
{
    size_t start = out->len;
    char *at = span_reserve(out);

    at = put_child(at, context, part->name, KIND_INTERNAL);
    at = put_time(at, SPAN_START, wall_ns(request, part->began_ns));
    at = put_time(at, SPAN_END, wall_ns(request, part->ended_ns));
    if (part->value.len != 0) {
        at = put_text(at, SPAN_ATTRIBUTES, part->key, part->value, TARGET_MOST);
    }
    if (part->status != 0) {
        at = put_number(at, SPAN_ATTRIBUTES, STR("http.status_code"), part->status);
    }
    if (part->status >= 500) {
        at = put_error(at);
    }
    out->len = (size_t) (at - out->data);
    otel_put_length(out, start + 1);
}
