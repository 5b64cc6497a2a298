/* The parser for byte ranges. */
#include "http/message/ranges_parse.h"

static void ranges_parse_skip_spaces(struct str *text)
{
    while (text->len != 0 && text->data[0] == ' ') {
        *text = str_skip(*text, 1);
    }
}

static bool take_char(struct str *text, char c)
{
    if (text->len == 0 || text->data[0] != c) {
        return false;
    }
    *text = str_skip(*text, 1);
    return true;
}

/* Takes a number of at least one digit; false if there is none, or if it exceeds any file size. */
static bool take_number(struct str *text, uint64_t *out)
{
    uint64_t number = 0;

    if (text->len == 0 || !ascii_is_digit((unsigned char) text->data[0])) {
        return false;
    }
    while (text->len != 0 && ascii_is_digit((unsigned char) text->data[0])) {
        uint64_t digit = (uint64_t) (text->data[0] - '0');
        if (number > ((uint64_t) INT64_MAX - digit) / 10) {
            return false;
        }
        number = number * 10 + digit;
        *text = str_skip(*text, 1);
    }
    *out = number;
    return true;
}

/* Takes "5-9", "5-" or "-3". An empty range has start == end. */
static bool take_range(struct str *text, uint64_t size, struct byte_range *out)
{
    ranges_parse_skip_spaces(text);
    if (take_char(text, '-')) {
        uint64_t suffix;
        if (!take_number(text, &suffix)) {
            return false;
        }
        out->start = suffix < size ? size - suffix : 0;
        out->end = size;
        return true;
    }
    if (!take_number(text, &out->start)) {
        return false;
    }
    ranges_parse_skip_spaces(text);
    if (!take_char(text, '-')) {
        return false;
    }
    ranges_parse_skip_spaces(text);
    out->end = size;
    if (text->len != 0 && text->data[0] != ',') {
        uint64_t last;
        if (!take_number(text, &last)) {
            return false;
        }
        out->end = last < size ? last + 1 : size;
    }
    return true;
}

enum ranges_result ranges_parse(struct str text, uint64_t size, uint64_t most, struct arena *arena,
                                struct vec *out)
{
    bool is_too_much = false;
    uint64_t total = 0;

    *out = (struct vec){0};
    do {
        struct byte_range range;
        if (!take_range(&text, size, &range)) {
            return RANGES_NONE;
        }
        ranges_parse_skip_spaces(&text);
        if (text.len != 0 && text.data[0] != ',') {
            return RANGES_NONE;
        }
        if (range.start < range.end) {
            if (out->count == most) {
                return RANGES_WHOLE;
            }
            is_too_much |= range.end - range.start > size - total;
            if (!is_too_much) {
                total += range.end - range.start;
                *vec_add(out, arena, struct byte_range) = range;
            }
        } else if (range.start == 0) {
            return RANGES_WHOLE; /* the body is empty */
        }
    } while (take_char(&text, ','));
    if (is_too_much) {
        return RANGES_WHOLE;
    }
    return out->count == 0 ? RANGES_NONE : RANGES_SOME;
}
