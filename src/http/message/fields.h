/* Header fields: lists of names and values, and the names that the server itself uses. */
#ifndef HTTP_MESSAGE_FIELDS_H
#define HTTP_MESSAGE_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

/* Fields that the server knows by id, for requests and responses. One list for the enum, the names
 * and the lookup. X(id, "Name as sent", may it be repeated in a request) */
#define KNOWN_FIELDS(X)                                                                            \
    X(FIELD_HOST, "Host", false)                                                                   \
    X(FIELD_CONNECTION, "Connection", true)                                                        \
    X(FIELD_CONTENT_LENGTH, "Content-Length", false)                                               \
    X(FIELD_CONTENT_TYPE, "Content-Type", true)                                                    \
    X(FIELD_TRANSFER_ENCODING, "Transfer-Encoding", false)                                         \
    X(FIELD_EXPECT, "Expect", false)                                                               \
    X(FIELD_USER_AGENT, "User-Agent", true)                                                        \
    X(FIELD_REFERER, "Referer", true)                                                              \
    X(FIELD_IF_MODIFIED_SINCE, "If-Modified-Since", false)                                         \
    X(FIELD_IF_UNMODIFIED_SINCE, "If-Unmodified-Since", false)                                     \
    X(FIELD_IF_MATCH, "If-Match", false)                                                           \
    X(FIELD_IF_NONE_MATCH, "If-None-Match", false)                                                 \
    X(FIELD_IF_RANGE, "If-Range", false)                                                           \
    X(FIELD_RANGE, "Range", true)                                                                  \
    X(FIELD_ACCEPT_ENCODING, "Accept-Encoding", true)                                              \
    X(FIELD_AUTHORIZATION, "Authorization", false)                                                 \
    X(FIELD_COOKIE, "Cookie", true)                                                                \
    X(FIELD_X_FORWARDED_FOR, "X-Forwarded-For", true)                                              \
    X(FIELD_VIA, "Via", true)                                                                      \
    X(FIELD_UPGRADE, "Upgrade", true)                                                              \
    X(FIELD_TE, "TE", true)                                                                        \
    X(FIELD_KEEP_ALIVE, "Keep-Alive", true)                                                        \
    X(FIELD_TRAILER, "Trailer", true)                                                              \
    X(FIELD_SERVER, "Server", true)                                                                \
    X(FIELD_DATE, "Date", true)                                                                    \
    X(FIELD_LOCATION, "Location", true)                                                            \
    X(FIELD_LAST_MODIFIED, "Last-Modified", true)                                                  \
    X(FIELD_ETAG, "ETag", true)                                                                    \
    X(FIELD_ACCEPT_RANGES, "Accept-Ranges", true)                                                  \
    X(FIELD_CONTENT_RANGE, "Content-Range", false)                                                 \
    X(FIELD_CONTENT_ENCODING, "Content-Encoding", true)                                            \
    X(FIELD_CACHE_CONTROL, "Cache-Control", true)                                                  \
    X(FIELD_EXPIRES, "Expires", true)                                                              \
    X(FIELD_LINK, "Link", true)                                                                    \
    X(FIELD_VARY, "Vary", true)                                                                    \
    X(FIELD_WWW_AUTHENTICATE, "WWW-Authenticate", true)                                            \
    X(FIELD_SET_COOKIE, "Set-Cookie", true)                                                        \
    X(FIELD_REFRESH, "Refresh", true)                                                              \
    X(FIELD_STATUS, "Status", true)                                                                \
    X(FIELD_X_ACCEL_REDIRECT, "X-Accel-Redirect", true)                                            \
    X(FIELD_X_ACCEL_EXPIRES, "X-Accel-Expires", true)                                              \
    X(FIELD_X_ACCEL_LIMIT_RATE, "X-Accel-Limit-Rate", true)                                        \
    X(FIELD_X_ACCEL_BUFFERING, "X-Accel-Buffering", true)                                          \
    X(FIELD_X_ACCEL_CHARSET, "X-Accel-Charset", true)                                              \
    X(FIELD_X_PAD, "X-Pad", true)                                                                  \
    X(FIELD_PROXY_AUTHENTICATE, "Proxy-Authenticate", true)                                        \
    X(FIELD_PROXY_AUTHORIZATION, "Proxy-Authorization", true)

enum field_id {
    FIELD_OTHER, /* any other field */
#define FIELD_ENUM(id, name, repeats) id,
    KNOWN_FIELDS(FIELD_ENUM)
#undef FIELD_ENUM
        FIELD_COUNT
};

_Static_assert(FIELD_COUNT <= 64, "each number has a bit in fields.seen");
#define FIELD_BIT(id) ((uint64_t) 1 << (id))

/* Connection-specific fields: they are not forwarded, and are not allowed in HTTP/2 (RFC 9113,
 * 8.2.2). Proxy-Connection is one as well. */
#define FIELDS_OF_CONNECTION                                                                       \
    (FIELD_BIT(FIELD_CONNECTION) | FIELD_BIT(FIELD_KEEP_ALIVE) |                                   \
     FIELD_BIT(FIELD_TRANSFER_ENCODING) | FIELD_BIT(FIELD_UPGRADE))

/* Fields about framing or routing, which are not allowed in trailers (RFC 9110, 6.5.1). */
#define FIELDS_NOT_IN_TRAILERS                                                                     \
    (FIELDS_OF_CONNECTION | FIELD_BIT(FIELD_CONTENT_LENGTH) | FIELD_BIT(FIELD_HOST) |              \
     FIELD_BIT(FIELD_TRAILER) | FIELD_BIT(FIELD_TE) | FIELD_BIT(FIELD_CONTENT_ENCODING) |          \
     FIELD_BIT(FIELD_CONTENT_TYPE) | FIELD_BIT(FIELD_CONTENT_RANGE) | FIELD_BIT(FIELD_SET_COOKIE))

extern const struct str field_names[FIELD_COUNT];

/* The id of a name, case-insensitive. */
enum field_id field_identify(struct str name);

struct field {
    struct str name; /* as received, or as it will be sent */
    struct str value;
    uint8_t id;      /* an enum field_id */
    bool is_removed; /* in the list, but not sent */
    bool is_early;   /* in a response: sent before ETag */
    bool is_added;   /* added by add_header: does not describe the body */
    bool is_list;    /* added by a built-in error page: further values are appended to it */
};

/* Is it connection-specific? Such fields are not allowed in responses of HTTP/2 and HTTP/3 (RFC
 * 9113, 8.2.2; RFC 9114, 4.2); TE is a request field. */
static inline bool field_is_of_connection(const struct field *field)
{
    if (field->id == FIELD_OTHER) {
        return str_equal_nocase(field->name, STR("Proxy-Connection")) ||
               str_equal_nocase(field->name, STR("HTTP2-Settings"));
    }
    return (FIELD_BIT(field->id) & (FIELDS_OF_CONNECTION | FIELD_BIT(FIELD_TE))) != 0;
}

/* Fields in the order of appearance; known ones are found by id. The array is allocated from an
 * arena when the first field is added. All zero is an empty list. */
struct fields {
    struct field *items;
    uint32_t count;
    uint32_t capacity;
    bool has_repeats; /* an id is repeated (including FIELD_OTHER) */
    uint64_t seen;    /* bit n: there is a field with id n */
    /* By id: index + 1 of the first field, if that is among the first 255; else 0. */
    uint8_t first[FIELD_COUNT];
};

/* Append a field; name and value are not copied. The second function is for a known id. */
struct field *fields_add(struct fields *fields, struct arena *arena, struct str name,
                         struct str value);
struct field *fields_add_identified(struct fields *fields, struct arena *arena, enum field_id id,
                                    struct str name, struct str value);
struct field *fields_add_known(struct fields *fields, struct arena *arena, enum field_id id,
                               struct str value);

/* The slow path of fields_get: the first field was removed, or is beyond the index. */
struct field *fields_search(const struct fields *fields, enum field_id id);

/* The first field with this id, or NULL; skips removed ones. */
static inline struct field *fields_get(const struct fields *fields, enum field_id id)
{
    unsigned first = fields->first[id];

    if ((fields->seen & FIELD_BIT(id)) == 0) {
        return NULL;
    }
    if (first != 0 && !fields->items[first - 1].is_removed) {
        return &fields->items[first - 1];
    }
    return fields_search(fields, id);
}

/* The first field with this name, case-insensitive. */
struct field *fields_find(const struct fields *fields, struct str name);
/* Does the field's comma-separated list contain this word, case-insensitive? */
bool field_lists(const struct field *field, struct str word);
/* Replaces all fields with this id by one; an empty value removes them. */
void fields_set(struct fields *fields, struct arena *arena, enum field_id id, struct str value);
/* All values with this id or name, joined ("; " for cookies, else ", "); false = none. */
bool fields_joined(const struct fields *fields, struct arena *arena, enum field_id id,
                   struct str *out);

/* For $http_NAME and $sent_http_NAME: the name is in lower case with '_' for '-'. All values are
 * joined with ", " (as in nginx 1.23 and later). */
bool fields_by_variable_name(const struct fields *fields, struct arena *arena, struct str name,
                             struct str *out);

/* A value from variables, made safe so that it cannot end the field or begin another one (RFC 9110,
 * 5.5): such bytes become spaces in a copy. */
struct str field_value_safe(struct arena *arena, struct str value);

/* The value of the cookie with this name, case-insensitive, in Set-Cookie fields; false = none. */
bool fields_set_cookie(const struct fields *fields, struct str name, struct str *out);

/* Writes the line "name: value" (RFC 9112, 5), both lengths plus 4 bytes; returns the end. */
static inline char *field_put(char *at, struct str name, struct str value)
{
    at = str_put(at, name);
    at = STR_PUT(at, ": ");
    at = str_put(at, value);
    return STR_PUT(at, "\r\n");
}

/* Iterates over all fields, including removed ones. */
#define fields_each(field, fields)                                                                 \
    for (struct field *field = (fields)->items;                                                    \
         field != NULL && field < (fields)->items + (fields)->count; field++)

/* A field from a compressed header (HPACK, QPACK). Its slices point into the arena, a static table
 * or the input. */
struct coded_field {
    struct str name; /* in lower case; the caller checks it */
    struct str value;
    uint8_t static_index; /* index of the name in the static table: HPACK's 1 to 61, or 1 + QPACK's;
                             0 = none */
    uint32_t longest_coded; /* bytes of its longer string as encoded; 0 = both were indexed */
    bool never_indexed;     /* the sender forbids adding it to a table (RFC 7541, 7.1.3) */
};

/* A possibly invalid value for a log line: up to the first byte that is invalid in values, which is
 * written as \xHH, as nginx does in lines. In the arena, unless it is the value itself. */
struct str field_value_shown(struct arena *arena, struct str value);

/* Is it a valid field value: without bytes that end a line or a string (RFC 9113, 8.2.1)? */
static inline bool field_value_is_sound(struct str value)
{
    const uint64_t ones = 0x0101010101010101u;
    size_t i = 0;

    /* Eight bytes at once: a word without bytes below 0x10 is valid. */
    for (; i + 8 <= value.len; i += 8) {
        uint64_t word;
        memcpy(&word, value.data + i, 8);
        if (((word - ones * 0x10) & ~word & ones * 0x80) == 0) {
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

#endif
