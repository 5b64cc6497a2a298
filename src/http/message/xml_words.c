/* The XML declaration, and URIs of namespaces. */
#include "http/message/xml_words.h"

/* ---- the declaration ---- */

static bool xml_words_skip_spaces(struct str *s)
{
    size_t before = s->len;

    while (s->len != 0 && ascii_is_space(s->data[0])) {
        *s = str_skip(*s, 1);
    }
    return s->len != before;
}

/* Takes ` name = "value"` with white space before it. False: absent, and *s is unchanged. */
static bool take_part(struct str *s, struct str name, struct str *value)
{
    struct str rest = *s;

    if (!xml_words_skip_spaces(&rest) || !str_starts(rest, name)) {
        return false;
    }
    rest = str_skip(rest, name.len);
    xml_words_skip_spaces(&rest);
    if (!str_starts(rest, STR("="))) {
        return false;
    }
    rest = str_skip(rest, 1);
    xml_words_skip_spaces(&rest);
    if (rest.len == 0 || (rest.data[0] != '"' && rest.data[0] != '\'')) {
        return false;
    }
    const char *end = str_find_char(str_skip(rest, 1), rest.data[0]);
    if (end == NULL) {
        return false;
    }
    *value = str_from(rest.data + 1, end);
    *s = str_from(end + 1, rest.data + rest.len);
    return true;
}

static bool is_version(struct str value)
{
    if (!str_starts(value, STR("1.")) || value.len == 2) {
        return false;
    }
    for (size_t i = 2; i < value.len; i++) {
        if (!ascii_is_digit((unsigned char) value.data[i])) {
            return false;
        }
    }
    return true;
}

bool xml_is_declaration(struct str inner)
{
    struct str value;

    if (!take_part(&inner, STR("version"), &value) || !is_version(value)) {
        return false;
    }
    if (take_part(&inner, STR("encoding"), &value) && !str_equal_nocase(value, STR("utf-8")) &&
        !str_equal_nocase(value, STR("utf8")) && !str_equal_nocase(value, STR("us-ascii"))) {
        return false;
    }
    if (take_part(&inner, STR("standalone"), &value) && !str_is(value, "yes") &&
        !str_is(value, "no")) {
        return false;
    }
    xml_words_skip_spaces(&inner);
    return inner.len == 0;
}

/* ---- URIs ---- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_hex(char c)
{
    return ascii_is_digit((unsigned char) c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Only unreserved characters, sub-delims, those of `more`, and %xx (RFC 3986, 2)? */
static bool is_made_of(struct str s, const char *more)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.data[i];

        if (c == '%') {
            if (s.len - i < 3 || !is_hex(s.data[i + 1]) || !is_hex(s.data[i + 2])) {
                return false;
            }
            i += 2;
        } else if (!is_letter(c) && !ascii_is_digit((unsigned char) c) &&
                   (c == '\0' ||
                    (strchr("-._~!$&'()*+,;=", c) == NULL && strchr(more, c) == NULL))) {
            return false;
        }
    }
    return true;
}

enum { PORT_DIGITS = 5 };

/* "user@host:port" (3.2); a colon must be followed by digits, as in libxml2. */
static bool is_authority(struct str s)
{
    const char *at = str_find_char(s, '@');

    if (at != NULL) {
        if (!is_made_of(str_from(s.data, at), ":")) {
            return false;
        }
        s = str_from(at + 1, s.data + s.len);
    }
    if (str_starts(s, STR("["))) {
        const char *end = str_find_char(s, ']');
        if (end == NULL || !is_made_of(str_from(s.data + 1, end), ":")) {
            return false;
        }
        s = str_from(end + 1, s.data + s.len);
    } else {
        const char *colon = str_find_char(s, ':');
        const char *end = colon == NULL ? s.data + s.len : colon;
        if (end == s.data || !is_made_of(str_from(s.data, end), "")) {
            return false;
        }
        s = str_from(end, s.data + s.len);
    }
    for (size_t i = 1; i < s.len; i++) {
        if (!ascii_is_digit((unsigned char) s.data[i])) {
            return false;
        }
    }
    return s.len == 0 || (s.data[0] == ':' && s.len > 1 && s.len <= 1 + PORT_DIGITS);
}

/* Takes "scheme:" from *s (3.1). False: the text before the first ':' of the path is not a
 * scheme. */
static bool take_scheme(struct str *s)
{
    size_t len = 0;

    while (len < s->len &&
           (is_letter(s->data[len]) ||
            (len != 0 && (ascii_is_digit((unsigned char) s->data[len]) ||
                          (strchr("+-.", s->data[len]) != NULL && s->data[len] != '\0'))))) {
        len++;
    }
    if (len != 0 && len < s->len && s->data[len] == ':') {
        *s = str_skip(*s, len + 1);
        return true;
    }
    struct str first = *s;
    first = str_cut(&first, '/');
    return str_find_char(first, ':') == NULL;
}

bool xml_is_uri(struct str text)
{
    struct str fragment = text;
    struct str query = str_cut(&fragment, '#');
    struct str path = str_cut(&query, '?');

    if (!take_scheme(&path) || !is_made_of(query, ":@/?") || !is_made_of(fragment, ":@/?")) {
        return false;
    }
    if (str_starts(path, STR("//"))) {
        path = str_skip(path, 2);
        const char *slash = str_find_char(path, '/');
        const char *end = slash == NULL ? path.data + path.len : slash;
        if (end != path.data && !is_authority(str_from(path.data, end))) {
            return false;
        }
        path = str_from(end, path.data + path.len);
    }
    return is_made_of(path, ":@/");
}
