/* Texts that rewrite and return show to clients. Pure functions. */
#include "base/text.h"
#include "http/modules/values/rewrite/rewrite.h"

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
