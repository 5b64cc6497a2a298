/* The messages around spans, log records and metrics, which differ only in their names. */
#include "config.h"
#include "http/modules/status/otel/encode.h"
#include "http/modules/status/otel/otel.h"

/* Field numbers by message. */
enum { REQUEST_RESOURCES = 1 };
enum { RESOURCE = 1, RESOURCE_SCOPES = 2 };
enum { RESOURCE_ATTRIBUTES = 1 };
enum { SCOPE = 1 };
enum { SCOPE_NAME = 1, SCOPE_VERSION = 2 };
enum { ANSWER_PARTIAL = 1, PARTIAL_REFUSED = 1, PARTIAL_REASON = 2 };

static size_t varint_size(uint64_t value)
{
    char text[PROTOBUF_VARINT_MAX];

    return protobuf_varint(text, value);
}

static char *put_delimited(char *at, unsigned field, size_t size)
{
    at = put_varint(at, field << 3 | PROTOBUF_BYTES);
    return put_varint(at, size);
}

/* Writes a long string if it is ASCII, as long user agents are. NULL: it is not. */
static char *put_long_ascii(char *at, unsigned field, struct str key, struct str value)
{
    size_t inner = 1 + varint_size(value.len) + value.len;
    size_t pair = 1 + varint_size(key.len) + key.len + 1 + varint_size(inner) + inner;

    at = put_delimited(at, field, pair);
    at = str_put(put_delimited(at, PAIR_KEY, key.len), key);
    at = put_delimited(at, PAIR_VALUE, inner);
    at = put_delimited(at, VALUE_STRING, value.len);
    return (put_bytes(at, value) & NOT_ASCII) == 0 ? at + value.len : NULL;
}

char *otel_put_long_text(char *at, unsigned field, struct str key, struct str value, size_t most)
{
    char *next = put_long_ascii(at, field, key, str_head(value, most));

    if (next != NULL) {
        return next;
    }
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

void otel_put_long_length(struct buf *out, size_t at)
{
    size_t size = out->len - at - 2;
    char length[PROTOBUF_VARINT_MAX];
    size_t more = protobuf_varint(length, size) - 2;

    buf_reserve(out, more);
    memmove(out->data + at + 2 + more, out->data + at + 2, size);
    memcpy(out->data + at, length, 2 + more);
    out->len += more;
}

static void put_resource_text(struct buf *out, struct str key, struct str value)
{
    char *at = buf_reserve(out, key.len + TARGET_MOST + ATTRIBUTE_SIZE);

    out->len = (size_t) (put_text(at, RESOURCE_ATTRIBUTES, key, value, TARGET_MOST) - out->data);
}

static void put_resource(struct buf *out, const struct otel_main *main)
{
    size_t resource = protobuf_begin(out, RESOURCE);
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
    size_t scope = protobuf_begin(out, SCOPE);

    protobuf_put_bytes(out, SCOPE_NAME, STR("nginx"));
    protobuf_put_bytes(out, SCOPE_VERSION, STR(PORTUNUS_VERSION));
    protobuf_end(out, scope);
}

/* Writes everything before the items; it contains their size twice. */
static void put_frame(struct buf *out, const struct otel_main *main, size_t items_size)
{
    struct buf resource = {0};
    struct buf scope = {0};

    put_resource(&resource, main);
    put_scope(&scope);
    uint64_t scopes = scope.len + items_size;
    uint64_t resources = resource.len + 1 + varint_size(scopes) + scopes;
    protobuf_put_key(out, REQUEST_RESOURCES, PROTOBUF_BYTES);
    protobuf_put_varint(out, resources);
    buf_append(out, buf_str(&resource));
    protobuf_put_key(out, RESOURCE_SCOPES, PROTOBUF_BYTES);
    protobuf_put_varint(out, scopes);
    buf_append(out, buf_str(&scope));
    buf_free(&resource);
    buf_free(&scope);
}

size_t otel_frame_most(const struct otel_main *main)
{
    struct buf frame = {0};

    put_frame(&frame, main, UINT32_MAX);
    size_t size = frame.len;
    buf_free(&frame);
    return size;
}

struct str otel_put_frame(struct str buffer, const struct otel_main *main, size_t frame_most)
{
    struct buf frame = {0};

    put_frame(&frame, main, buffer.len - frame_most);
    char *at = (char *) buffer.data + frame_most - frame.len;
    memcpy(at, frame.data, frame.len);
    struct str message = str_skip(buffer, frame_most - frame.len);
    buf_free(&frame);
    return message;
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
