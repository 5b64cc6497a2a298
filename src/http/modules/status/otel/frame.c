/* What is around spans, log records and metrics: these messages of OTLP differ in their names alone. */
#include "config.h"
#include "http/modules/status/otel/encode.h"
#include "http/modules/status/otel/otel.h"

/* Numbers of fields, of each message. */
enum { REQUEST_RESOURCES = 1 };
enum { RESOURCE = 1, RESOURCE_SCOPES = 2 };
enum { RESOURCE_ATTRIBUTES = 1 };
enum { SCOPE = 1 };
enum { SCOPE_NAME = 1, SCOPE_VERSION = 2 };
enum { ANSWER_PARTIAL = 1, PARTIAL_REFUSED = 1, PARTIAL_REASON = 2 };

char *otel_put_long_text(char *at, unsigned field, struct str key, struct str value, size_t most)
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

void otel_put_length(struct buf *out, size_t at)
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

static void put_resource_text(struct buf *out, struct str key, struct str value)
{
    char *at = buf_reserve(out, key.len + TARGET_MOST + ATTRIBUTE_ROOM);

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

static size_t varint_size(uint64_t value)
{
    char text[PROTOBUF_VARINT_MAX];

    return protobuf_varint(text, value);
}

void otel_put_frame(struct buf *out, const struct otel_main *main, size_t items_size)
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
