/* Header fields: lists of name and value, and the names that the server itself looks at. */
#ifndef HTTP_MESSAGE_FIELDS_H
#define HTTP_MESSAGE_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

/*
 * Fields that the server knows by number, for request and response. One list serves the enum, the
 * names and the lookup. X(id, "Name as sent", may it come twice in a request)
 */
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
    FIELD_OTHER, /* none of the known */
#define FIELD_ENUM(id, name, repeats) id,
    KNOWN_FIELDS(FIELD_ENUM)
#undef FIELD_ENUM
        FIELD_COUNT
};

_Static_assert(FIELD_COUNT <= 64, "each number has a bit in fields.seen");
#define FIELD_BIT(id) ((uint64_t) 1 << (id))

/* Of a connection alone: they do not go further, and HTTP/2 has none of them (RFC 9113, 8.2.2).
 * Proxy-Connection is one as well. */
#define FIELDS_OF_CONNECTION                                                                       \
    (FIELD_BIT(FIELD_CONNECTION) | FIELD_BIT(FIELD_KEEP_ALIVE) |                                   \
     FIELD_BIT(FIELD_TRANSFER_ENCODING) | FIELD_BIT(FIELD_UPGRADE))

/* They say how a message is framed, or where it goes: nothing after its body (RFC 9110, 6.5.1). */
#define FIELDS_NOT_IN_TRAILERS                                                                     \
    (FIELDS_OF_CONNECTION | FIELD_BIT(FIELD_CONTENT_LENGTH) | FIELD_BIT(FIELD_HOST) |              \
     FIELD_BIT(FIELD_TRAILER) | FIELD_BIT(FIELD_TE) | FIELD_BIT(FIELD_CONTENT_ENCODING) |          \
     FIELD_BIT(FIELD_CONTENT_TYPE) | FIELD_BIT(FIELD_CONTENT_RANGE) | FIELD_BIT(FIELD_SET_COOKIE))

extern const struct str field_names[FIELD_COUNT];

/* The number of a name, in any case. */
enum field_id field_identify(struct str name);

struct field {
    struct str name; /* as received, or as it will be sent */
    struct str value;
    uint8_t id;      /* enum field_id */
    bool is_removed; /* stays in the list, is not sent */
    bool is_early;   /* of a response: sent before its ETag */
    bool is_added;   /* add_header put it there: it says nothing of what a body is */
    bool is_list; /* an error page of our own put it there: what else is to be in it goes after its
                     value */
};

/* Is it of a connection alone? Such fields have no place in frames of a response (RFC 9113, 8.2.2;
 * RFC 9114, 4.2); TE belongs to requests. */
static inline bool field_is_of_connection(const struct field *field)
{
    if (field->id == FIELD_OTHER) {
        return str_equal_nocase(field->name, STR("Proxy-Connection")) ||
               str_equal_nocase(field->name, STR("HTTP2-Settings"));
    }
    return (FIELD_BIT(field->id) & (FIELDS_OF_CONNECTION | FIELD_BIT(FIELD_TE))) != 0;
}

/*
 * Fields in order of appearance; known ones are found by number. The room for items is taken from
 * an arena when the first is added. All zero is empty.
 */
struct fields {
    struct field *items;
    uint32_t count;
    uint32_t capacity;
    bool has_repeats; /* a number came twice (FIELD_OTHER is one, too) */
    uint64_t seen;    /* bit n: number n came */
    uint8_t
        first[FIELD_COUNT]; /* by number: index + 1 of the first, if among the first 255; else 0 */
};

/* Appends; name and value are not copied. The second form knows the number already. */
struct field *fields_add(struct fields *fields, struct arena *arena, struct str name,
                         struct str value);
struct field *fields_add_identified(struct fields *fields, struct arena *arena, enum field_id id,
                                    struct str name, struct str value);
struct field *fields_add_known(struct fields *fields, struct arena *arena, enum field_id id,
                               struct str value);

/* The slow path of fields_get: the first was removed, or stands beyond the index. */
struct field *fields_search(const struct fields *fields, enum field_id id);

/* The first with this number, or NULL; removed ones are not seen. */
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

/* The first with this name, any case. */
struct field *fields_find(const struct fields *fields, struct str name);
/* Is the word, in any case, one of a field's comma separated list? */
bool field_lists(const struct field *field, struct str word);
/* Replaces all of the number by one; an empty value removes. */
void fields_set(struct fields *fields, struct arena *arena, enum field_id id, struct str value);
/* The values of all with this number or name, joined ("; " for cookies, ", " else); false = none.
 */
bool fields_joined(const struct fields *fields, struct arena *arena, enum field_id id,
                   struct str *out);

/*
 * For $http_NAME and $sent_http_NAME: name in lower case with '_' for '-'. All values joined with
 * ", " (nginx 1.23 and later).
 */
bool fields_by_variable_name(const struct fields *fields, struct arena *arena, struct str name,
                             struct str *out);

/* A value that variables gave: nobody ends a field or begins another with it (RFC 9110, 5.5). The
 * bytes that would are blanks in a copy. */
struct str field_value_safe(struct arena *arena, struct str value);

/* The value of the cookie of this name, in any case, that a Set-Cookie field sets; false = none. */
bool fields_set_cookie(const struct fields *fields, struct str name, struct str *out);

/* Writes the line "name: value" (RFC 9112, 5), of both lengths and 4 bytes; gives the place after
 * it. */
static inline char *field_put(char *at, struct str name, struct str value)
{
    at = str_put(at, name);
    at = STR_PUT(at, ": ");
    at = str_put(at, value);
    return STR_PUT(at, "\r\n");
}

/* Walks all fields, removed ones too. */
#define fields_each(field, fields)                                                                 \
    for (struct field *field = (fields)->items;                                                    \
         field != NULL && field < (fields)->items + (fields)->count; field++)

/* A field out of a compressed head (HPACK, QPACK). Its slices are in the arena, in a static table
 * or in the input. */
struct coded_field {
    struct str name; /* lower case as sent; checked by the caller */
    struct str value;
    uint8_t static_index; /* of the name: HPACK's in its static table, 1 to 61, or 1 + QPACK's; 0 =
                             none */
    uint32_t longest_coded; /* bytes of the longer of its two strings, as they were sent; 0 = none
                               was sent */
    bool never_indexed;     /* the sender wants it in no table (RFC 7541, 7.1.3) */
};

/* What a log line has of a value that may be unsound: up to its first byte that no value may have,
 * which follows as \xHH, as nginx has it of lines. In the arena where it is not the value itself.
 */
struct str field_value_shown(struct arena *arena, struct str value);

/* May it be a field's value: no byte that ends a line or a text (RFC 9113, 8.2.1)? */
static inline bool field_value_is_sound(struct str value)
{
    const uint64_t ones = 0x0101010101010101u;
    size_t i = 0;

    /* Eight at a time: a word without bytes below 0x10 has none. */
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
