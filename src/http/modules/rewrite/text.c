/* Texts that rewrite and return show to clients. Pure functions. */
#include "base/text.h"
#include "http/modules/rewrite/rewrite.h"

static bool is_control(unsigned char c)
{
    return c < 32 || c == 127;
}

struct str rewrite_safe_location(struct arena *arena, struct str text)
{
    size_t bad = 0;

    for (size_t i = 0; i < text.len; i++) {
        bad += is_control((unsigned char) text.data[i]);
    }
    if (bad == 0) {
        return text;
    }
    char *start = arena_text(arena, text.len + 2 * bad);
    char *at = start;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char) text.data[i];
        if (is_control(c)) {
            *at++ = '%';
            *at++ = "0123456789ABCDEF"[c >> 4];
            *at++ = "0123456789ABCDEF"[c & 15];
        } else {
            *at++ = (char) c;
        }
    }
    return str_from(start, at);
}

struct str rewrite_readable_path(struct arena *arena, struct str path)
{
    if (str_find_char(path, '%') == NULL) {
        return path;
    }
    char *start = arena_text(arena, path.len);
    char *at = start;
    bool is_decoding = true;
    for (size_t i = 0; i < path.len; i++) {
        unsigned char c = (unsigned char) path.data[i];
        if (c == '%' && is_decoding && path.len - i > 2) {
            int high = hex_value[(unsigned char) path.data[i + 1]];
            int low = hex_value[(unsigned char) path.data[i + 2]];
            int code = high < 0 || low < 0 ? 0 : high << 4 | low;
            if (code > '%' && code < 127) {
                c = (unsigned char) code;
                i += 2;
            }
        }
        is_decoding = is_decoding && c != '?';
        *at++ = (char) c;
    }
    return str_from(start, at);
}
