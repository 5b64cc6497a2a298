/* Directives of Cache-Control (RFC 9111, 5.2). */
#include "http/message/cache_control.h"

#include "base/parse.h"

bool cache_seconds(struct str text, int64_t *out)
{
    uint64_t number;

    if (text.len == 0) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (!ascii_is_digit((unsigned char) text.data[i])) {
            return false;
        }
    }
    *out = parse_uint(text, &number) && number < CACHE_LIFETIME_MAX ? (int64_t) number
                                                                    : CACHE_LIFETIME_MAX;
    return true;
}

bool cache_control_seconds(struct str directive, struct str name, int64_t *out)
{
    if (!str_starts_nocase(directive, name)) {
        return false;
    }
    struct str value = str_skip(directive, name.len);
    if (value.len >= 2 && value.data[0] == '"' && value.data[value.len - 1] == '"') {
        value = (struct str){value.data + 1, value.len - 2};
    }
    return cache_seconds(value, out);
}
