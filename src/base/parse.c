/* Numbers, sizes and times as users write them. Every result fits in a signed 64-bit number. */
#include <stddef.h>

#include "base/parse.h"
#include "base/text.h"

/* Takes the digits at the start of *s. False when there are none or the value exceeds the limit. */
static bool take_digits(struct str *s, uint64_t limit, uint64_t *out)
{
    uint64_t n = 0;
    size_t i = 0;

    for (; i < s->len && ascii_is_digit((unsigned char) s->data[i]); i++) {
        unsigned digit = (unsigned) (s->data[i] - '0');
        if (n > (limit - digit) / 10) {
            return false;
        }
        n = n * 10 + digit;
    }
    if (i == 0) {
        return false;
    }
    *s = str_skip(*s, i);
    *out = n;
    return true;
}

bool parse_uint(struct str s, uint64_t *out)
{
    uint64_t n;

    if (!take_digits(&s, UINT64_MAX, &n) || s.len != 0) {
        return false;
    }
    *out = n;
    return true;
}

bool parse_int(struct str s, int64_t *out)
{
    bool is_negative = s.len != 0 && s.data[0] == '-';
    uint64_t limit = (uint64_t) INT64_MAX + (is_negative ? 1 : 0);
    uint64_t n;

    if (is_negative) {
        s = str_skip(s, 1);
    }
    if (!take_digits(&s, limit, &n) || s.len != 0) {
        return false;
    }
    *out = (int64_t) (is_negative ? -n : n);
    return true;
}

bool parse_hex(struct str s, uint64_t *out)
{
    uint64_t n = 0;

    if (s.len == 0) {
        return false;
    }
    for (size_t i = 0; i < s.len; i++) {
        int digit = hex_value[(unsigned char) s.data[i]];
        if (digit < 0 || n > UINT64_MAX >> 4) {
            return false;
        }
        n = n << 4 | (unsigned) digit;
    }
    *out = n;
    return true;
}

/* Digits and optionally one unit; the product must fit in an off_t. */
static bool parse_scaled(struct str s, bool may_be_giga, uint64_t *out)
{
    uint64_t n;
    unsigned shift = 0;

    if (!take_digits(&s, INT64_MAX, &n) || s.len > 1) {
        return false;
    }
    if (s.len == 1) {
        switch (ascii_lower((unsigned char) s.data[0])) {
        case 'k':
            shift = 10;
            break;
        case 'm':
            shift = 20;
            break;
        case 'g':
            shift = may_be_giga ? 30 : 0;
            break;
        default:
            break;
        }
        if (shift == 0) {
            return false;
        }
    }
    if (n > (uint64_t) INT64_MAX >> shift) {
        return false;
    }
    *out = n << shift;
    return true;
}

bool parse_size(struct str s, uint64_t *out)
{
    return parse_scaled(s, false, out);
}

bool parse_offset(struct str s, int64_t *out)
{
    uint64_t n;

    if (!parse_scaled(s, true, &n)) {
        return false;
    }
    *out = (int64_t) n;
    return true;
}

/* A unit of time. Units must be used in this order, each at most once. */
struct time_unit {
    struct str name;
    uint64_t seconds; /* 0: one millisecond */
    bool is_long;     /* only for times in seconds */
};

/* clang-format off */
static const struct time_unit time_units[] = {
    {STR_INIT("y"), 365 * 86400, true},
    {STR_INIT("M"), 30 * 86400, true},
    {STR_INIT("w"), 7 * 86400, false},
    {STR_INIT("d"), 86400, false},
    {STR_INIT("h"), 3600, false},
    {STR_INIT("m"), 60, false},
    {STR_INIT("s"), 1, false},
    {STR_INIT("ms"), 0, false},
};
/* clang-format on */
enum { TIME_UNITS = sizeof(time_units) / sizeof(time_units[0]), UNIT_SECOND = TIME_UNITS - 2 };

/* Takes the letters of a unit off *s; no letters mean seconds. Gives its index or -1. */
static int take_unit(struct str *s, bool is_msec)
{
    size_t n = 0;

    while (n < s->len && s->data[n] != ' ' && !ascii_is_digit((unsigned char) s->data[n])) {
        n++;
    }
    struct str name = str_head(*s, n);
    *s = str_skip(*s, n);
    if (name.len == 0) {
        return UNIT_SECOND;
    }
    for (int i = 0; i < TIME_UNITS; i++) {
        bool is_known = is_msec ? !time_units[i].is_long : time_units[i].seconds != 0;
        if (is_known && str_equal(name, time_units[i].name)) {
            return i;
        }
    }
    return -1;
}

static bool parse_time(struct str s, bool is_msec, uint64_t *out)
{
    uint64_t total = 0;
    int last = -1;

    s = str_trim(s);
    while (s.len != 0) {
        uint64_t n;
        if (!take_digits(&s, INT64_MAX, &n)) {
            return false;
        }
        int unit = take_unit(&s, is_msec);
        if (unit <= last) {
            return false;
        }
        last = unit;
        uint64_t scale = time_units[unit].seconds * (is_msec ? 1000 : 1);
        if (scale == 0) {
            scale = 1;
        }
        if (__builtin_mul_overflow(n, scale, &n) || __builtin_add_overflow(total, n, &total) ||
            total > INT64_MAX) {
            return false;
        }
        while (s.len != 0 && s.data[0] == ' ') {
            s = str_skip(s, 1);
        }
    }
    if (last < 0) {
        return false;
    }
    *out = total;
    return true;
}

bool parse_msec(struct str s, uint64_t *out_ms)
{
    return parse_time(s, true, out_ms);
}

bool parse_sec(struct str s, uint64_t *out_s)
{
    return parse_time(s, false, out_s);
}

bool parse_fixed_point(struct str s, unsigned digits, uint64_t *out)
{
    uint64_t n = 0;
    bool has_point = false;
    bool has_digit = false;

    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char) s.data[i];
        if (c == '.' && !has_point) {
            has_point = true;
            continue;
        }
        if (!ascii_is_digit(c) || (has_point && digits == 0)) {
            return false;
        }
        has_digit = true;
        digits -= has_point;
        if (__builtin_mul_overflow(n, (uint64_t) 10, &n) ||
            __builtin_add_overflow(n, (uint64_t) (c - '0'), &n)) {
            return false;
        }
    }
    for (; digits > 0; digits--) {
        if (__builtin_mul_overflow(n, (uint64_t) 10, &n)) {
            return false;
        }
    }
    if (!has_digit || n > INT64_MAX) {
        return false;
    }
    *out = n;
    return true;
}

/* "00" to "99". */
static const char pairs[200] =
    "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546"
    "4748495051525354555657585960616263646566676869707172737475767778798081828384858687888990919293"
    "949596979899";

char *format_uint(char *at, uint64_t n)
{
    if (n >= 10000) {
        /* First the leading digits, then four at a time with leading zeros. */
        unsigned last = (unsigned) (n % 10000);
        at = format_uint(at, n / 10000);
        memcpy(at, pairs + last / 100 * 2, 2);
        memcpy(at + 2, pairs + last % 100 * 2, 2);
        return at + 4;
    }
    unsigned high = (unsigned) n / 100;
    unsigned low = (unsigned) n % 100;

    if (n >= 1000) {
        memcpy(at, pairs + high * 2, 2);
        memcpy(at + 2, pairs + low * 2, 2);
        return at + 4;
    }
    if (n >= 100) {
        *at++ = (char) ('0' + high);
        memcpy(at, pairs + low * 2, 2);
        return at + 2;
    }
    if (n >= 10) {
        memcpy(at, pairs + low * 2, 2);
        return at + 2;
    }
    *at = (char) ('0' + n);
    return at + 1;
}
