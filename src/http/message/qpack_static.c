/* QPACK's static table (RFC 9204, appendix A), and ids of its field names. */
#include "http/message/qpack_static.h"

#define ENTRY(name, value)                                                                         \
    {                                                                                              \
        STR_INIT(name), STR_INIT(value)                                                            \
    }

static const struct qpack_static static_table[QPACK_STATIC_COUNT] = {
    ENTRY(":authority", ""),
    ENTRY(":path", "/"),
    ENTRY("age", "0"),
    ENTRY("content-disposition", ""),
    ENTRY("content-length", "0"),
    ENTRY("cookie", ""),
    ENTRY("date", ""),
    ENTRY("etag", ""),
    ENTRY("if-modified-since", ""),
    ENTRY("if-none-match", ""),
    ENTRY("last-modified", ""),
    ENTRY("link", ""),
    ENTRY("location", ""),
    ENTRY("referer", ""),
    ENTRY("set-cookie", ""),
    ENTRY(":method", "CONNECT"),
    ENTRY(":method", "DELETE"),
    ENTRY(":method", "GET"),
    ENTRY(":method", "HEAD"),
    ENTRY(":method", "OPTIONS"),
    ENTRY(":method", "POST"),
    ENTRY(":method", "PUT"),
    ENTRY(":scheme", "http"),
    ENTRY(":scheme", "https"),
    ENTRY(":status", "103"),
    ENTRY(":status", "200"),
    ENTRY(":status", "304"),
    ENTRY(":status", "404"),
    ENTRY(":status", "503"),
    ENTRY("accept", "*/*"),
    ENTRY("accept", "application/dns-message"),
    ENTRY("accept-encoding", "gzip, deflate, br"),
    ENTRY("accept-ranges", "bytes"),
    ENTRY("access-control-allow-headers", "cache-control"),
    ENTRY("access-control-allow-headers", "content-type"),
    ENTRY("access-control-allow-origin", "*"),
    ENTRY("cache-control", "max-age=0"),
    ENTRY("cache-control", "max-age=2592000"),
    ENTRY("cache-control", "max-age=604800"),
    ENTRY("cache-control", "no-cache"),
    ENTRY("cache-control", "no-store"),
    ENTRY("cache-control", "public, max-age=31536000"),
    ENTRY("content-encoding", "br"),
    ENTRY("content-encoding", "gzip"),
    ENTRY("content-type", "application/dns-message"),
    ENTRY("content-type", "application/javascript"),
    ENTRY("content-type", "application/json"),
    ENTRY("content-type", "application/x-www-form-urlencoded"),
    ENTRY("content-type", "image/gif"),
    ENTRY("content-type", "image/jpeg"),
    ENTRY("content-type", "image/png"),
    ENTRY("content-type", "text/css"),
    ENTRY("content-type", "text/html; charset=utf-8"),
    ENTRY("content-type", "text/plain"),
    ENTRY("content-type", "text/plain;charset=utf-8"),
    ENTRY("range", "bytes=0-"),
    ENTRY("strict-transport-security", "max-age=31536000"),
    ENTRY("strict-transport-security", "max-age=31536000; includesubdomains"),
    ENTRY("strict-transport-security", "max-age=31536000; includesubdomains; preload"),
    ENTRY("vary", "accept-encoding"),
    ENTRY("vary", "origin"),
    ENTRY("x-content-type-options", "nosniff"),
    ENTRY("x-xss-protection", "1; mode=block"),
    ENTRY(":status", "100"),
    ENTRY(":status", "204"),
    ENTRY(":status", "206"),
    ENTRY(":status", "302"),
    ENTRY(":status", "400"),
    ENTRY(":status", "403"),
    ENTRY(":status", "421"),
    ENTRY(":status", "425"),
    ENTRY(":status", "500"),
    ENTRY("accept-language", ""),
    ENTRY("access-control-allow-credentials", "FALSE"),
    ENTRY("access-control-allow-credentials", "TRUE"),
    ENTRY("access-control-allow-headers", "*"),
    ENTRY("access-control-allow-methods", "get"),
    ENTRY("access-control-allow-methods", "get, post, options"),
    ENTRY("access-control-allow-methods", "options"),
    ENTRY("access-control-expose-headers", "content-length"),
    ENTRY("access-control-request-headers", "content-type"),
    ENTRY("access-control-request-method", "get"),
    ENTRY("access-control-request-method", "post"),
    ENTRY("alt-svc", "clear"),
    ENTRY("authorization", ""),
    ENTRY("content-security-policy", "script-src 'none'; object-src 'none'; base-uri 'none'"),
    ENTRY("early-data", "1"),
    ENTRY("expect-ct", ""),
    ENTRY("forwarded", ""),
    ENTRY("if-range", ""),
    ENTRY("origin", ""),
    ENTRY("purpose", "prefetch"),
    ENTRY("server", ""),
    ENTRY("timing-allow-origin", "*"),
    ENTRY("upgrade-insecure-requests", "1"),
    ENTRY("user-agent", ""),
    ENTRY("x-forwarded-for", ""),
    ENTRY("x-frame-options", "deny"),
    ENTRY("x-frame-options", "sameorigin"),
};

#define BUCKETS 128

/* Computed from the table at first use. */
static struct {
    bool is_ready;
    uint8_t first[BUCKETS];           /* by hash of the name: 1 + the first entry, or 0 */
    uint8_t next[QPACK_STATIC_COUNT]; /* 1 + the next entry of the bucket, or 0 */
    uint8_t ids[QPACK_STATIC_COUNT];  /* enum field_id of the name */
} lookup;

static unsigned qpack_static_bucket_of(struct str name)
{
    unsigned hash = (unsigned) name.len * 31;

    if (name.len != 0) {
        hash += (unsigned char) name.data[0];
        hash = hash * 31 + (unsigned char) name.data[name.len - 1];
        hash = hash * 31 + (unsigned char) name.data[name.len / 2];
    }
    return hash % BUCKETS;
}

static void lookup_make(void)
{
    for (unsigned i = QPACK_STATIC_COUNT; i-- > 0;) {
        struct str name = static_table[i].name;
        unsigned bucket = qpack_static_bucket_of(name);

        lookup.ids[i] = (uint8_t) field_identify(name);
        lookup.next[i] = lookup.first[bucket];
        lookup.first[bucket] = (uint8_t) (i + 1);
    }
    lookup.is_ready = true;
}

const struct qpack_static *qpack_static_get(uint64_t index)
{
    return index < QPACK_STATIC_COUNT ? &static_table[index] : NULL;
}

enum field_id qpack_static_field(uint64_t index)
{
    if (!lookup.is_ready) {
        lookup_make();
    }
    return (enum field_id) lookup.ids[index];
}

bool qpack_static_find(struct str name, struct str value, unsigned *index)
{
    int named = -1;

    if (!lookup.is_ready) {
        lookup_make();
    }
    for (unsigned i = lookup.first[qpack_static_bucket_of(name)]; i != 0; i = lookup.next[i - 1]) {
        const struct qpack_static *entry = &static_table[i - 1];

        if (!str_equal(entry->name, name)) {
            continue;
        }
        if (str_equal(entry->value, value)) {
            *index = i - 1;
            return true;
        }
        named = named < 0 ? (int) i - 1 : named;
    }
    *index = named < 0 ? QPACK_STATIC_COUNT : (unsigned) named;
    return false;
}
