/* Names in listings. */
#include "http/files/listing.h"

void listing_put_escaped(struct buf *out, struct str text, enum escape_set set)
{
    char *at = buf_reserve(out, escape_length(text, set));

    out->len += (size_t) (escape_write(at, text, set) - at);
}

/* The first `count` characters: code points of UTF-8, else bytes. */
static struct str first_characters(struct str text, size_t count, bool is_utf8)
{
    struct str rest = text;

    if (!is_utf8) {
        return str_head(text, count);
    }
    while (count-- != 0 && rest.len != 0) {
        utf8_next(&rest);
    }
    return str_head(text, text.len - rest.len);
}

size_t listing_put_name(struct buf *out, struct str name, size_t most, size_t shown, bool is_utf8)
{
    size_t width = is_utf8 ? utf8_length(name) : name.len;

    if (width <= most) {
        listing_put_escaped(out, name, ESCAPE_HTML);
        return width;
    }
    listing_put_escaped(out, first_characters(name, shown, is_utf8), ESCAPE_HTML);
    buf_append(out, STR("..&gt;"));
    return width;
}
