/* Shared by the parsers of answers. */
#ifndef UPSTREAM_DISCOVERY_PARSE_H
#define UPSTREAM_DISCOVERY_PARSE_H

#include "base/parse.h"
#include "upstream/discovery/private.h"

/* Iterate over the object, or list, that comes next. Do not use `break` inside: set `is_good` to
 * false to end the loop. */
#define JSON_EACH_MEMBER(text, name, is_good)                                                      \
    for (bool is_first_ = true, is_end_ = false;                                                   \
         ((is_good) = (is_good) && (!is_first_ || json_skip(text, '{')) &&                         \
                      json_next_member(text, &is_first_, &(name), &is_end_)) &&                    \
         !is_end_;)
#define JSON_EACH_ITEM(text, is_good)                                                              \
    for (bool is_first_ = true, is_end_ = false;                                                   \
         ((is_good) = (is_good) && (!is_first_ || json_skip(text, '[')) &&                         \
                      json_next_item(text, &is_first_, &is_end_)) &&                               \
         !is_end_;)

/* Is the value null? Go writes null for an empty list. */
static inline bool parse_is_null(struct json_text *text)
{
    return json_peek(text) == 'n' && json_take_word(text, STR("null"));
}

/* A string; null counts as empty. */
static inline bool parse_text(struct json_text *text, struct str *out)
{
    *out = STR_NONE;
    return parse_is_null(text) || json_take_string(text, out);
}

/* A number, or a string that contains one: gRPC gateways write 64-bit numbers as strings. */
static inline bool parse_number(struct json_text *text, uint64_t *out)
{
    struct str digits;

    if (json_peek(text) != '"') {
        return json_take_number(text, out);
    }
    return json_take_string(text, &digits) && parse_uint(digits, out);
}

/* A weight of at most 16 bits; 0 becomes 1. */
static inline uint16_t parse_weight(uint64_t weight)
{
    return (uint16_t) (weight == 0 ? 1 : weight > UINT16_MAX ? UINT16_MAX : weight);
}

#endif
