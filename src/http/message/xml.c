/* A reader of small XML documents that peers send. */
#include "http/message/xml.h"

#include "base/parse.h"
#include "base/text.h"

void xml_begin(struct xml_reader *reader, struct arena *arena, struct str document)
{
    reader->arena = arena;
    reader->rest = str_starts(document, STR("\xef\xbb\xbf")) ? str_skip(document, 3) : document;
    reader->depth = 0;
    reader->binding_count = 0;
    reader->is_empty_tag = false;
    reader->has_root = false;
}

static bool is_name_byte(char c)
{
    return (unsigned char) c >= 0x80 || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.' || c == ':';
}

static void skip_spaces(struct str *s)
{
    while (s->len != 0 && ascii_is_space(s->data[0])) {
        *s = str_skip(*s, 1);
    }
}

/* A name at the beginning of *s; false: there is none. */
static bool take_name(struct str *s, struct str *out)
{
    size_t len = 0;

    while (len < s->len && is_name_byte(s->data[len])) {
        len++;
    }
    *out = str_head(*s, len);
    *s = str_skip(*s, len);
    return len != 0 && out->data[0] != '-' && out->data[0] != '.' &&
           !ascii_is_digit((unsigned char) out->data[0]);
}

/* Is it UTF-8, without characters that XML has not (2.2)? */
static bool is_text(struct str s)
{
    while (s.len != 0) {
        uint32_t c = utf8_next(&s);
        if (c == UINT32_MAX || c == 0xfffe || c == 0xffff ||
            (c < 0x20 && c != '\t' && c != '\n' && c != '\r')) {
            return false;
        }
    }
    return true;
}

/* ---- references ---- */

static char *put_utf8(char *at, uint32_t c)
{
    if (c < 0x80) {
        *at++ = (char) c;
    } else if (c < 0x800) {
        *at++ = (char) (0xc0 | c >> 6);
        *at++ = (char) (0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        *at++ = (char) (0xe0 | c >> 12);
        *at++ = (char) (0x80 | (c >> 6 & 0x3f));
        *at++ = (char) (0x80 | (c & 0x3f));
    } else {
        *at++ = (char) (0xf0 | c >> 18);
        *at++ = (char) (0x80 | (c >> 12 & 0x3f));
        *at++ = (char) (0x80 | (c >> 6 & 0x3f));
        *at++ = (char) (0x80 | (c & 0x3f));
    }
    return at;
}

/* The character of "&…;", without both ends; 0: it is none. */
static uint32_t reference_value(struct str name)
{
    uint64_t c = 0;

    if (name.len > 2 && name.data[0] == '#' && name.data[1] == 'x') {
        return parse_hex(str_skip(name, 2), &c) && c <= 0x10ffff ? (uint32_t) c : 0;
    }
    if (name.len > 1 && name.data[0] == '#') {
        return parse_uint(str_skip(name, 1), &c) && c <= 0x10ffff ? (uint32_t) c : 0;
    }
    return str_is(name, "lt")     ? '<'
           : str_is(name, "gt")   ? '>'
           : str_is(name, "amp")  ? '&'
           : str_is(name, "quot") ? '"'
           : str_is(name, "apos") ? '\''
                                  : 0;
}

/* With references replaced: never longer than it was. */
static bool decode(struct arena *arena, struct str raw, struct str *out)
{
    if (!is_text(raw)) {
        return false;
    }
    *out = raw;
    if (str_find_char(raw, '&') == NULL) {
        return true;
    }
    char *start = arena_text(arena, raw.len);
    char *at = start;
    while (raw.len != 0) {
        if (raw.data[0] != '&') {
            *at++ = raw.data[0];
            raw = str_skip(raw, 1);
            continue;
        }
        const char *end = str_find_char(raw, ';');
        uint32_t c = end == NULL ? 0 : reference_value(str_from(raw.data + 1, end));
        if (c == 0 || (c >= 0xd800 && c < 0xe000)) {
            return false;
        }
        at = put_utf8(at, c);
        raw = str_skip(raw, (size_t) (end + 1 - raw.data));
    }
    *out = str_from(start, at);
    return is_text(*out);
}

/* ---- namespaces ---- */

static bool bind(struct xml_reader *reader, struct str prefix, struct str value)
{
    struct str space;

    if (reader->binding_count == XML_BINDINGS_MAX || !decode(reader->arena, value, &space) ||
        (prefix.len != 0 && space.len == 0)) {
        return false;
    }
    reader->bindings[reader->binding_count++] =
        (struct xml_binding){.prefix = prefix, .space = space, .depth = reader->depth};
    return true;
}

static bool find_space(const struct xml_reader *reader, struct str prefix, struct str *space)
{
    for (unsigned i = reader->binding_count; i-- != 0;) {
        if (str_equal(reader->bindings[i].prefix, prefix)) {
            *space = reader->bindings[i].space;
            return true;
        }
    }
    *space = STR_NONE;
    if (str_is(prefix, "xml")) {
        *space = STR("http://www.w3.org/XML/1998/namespace");
    }
    return prefix.len == 0 || space->len != 0;
}

static bool resolve(const struct xml_reader *reader, struct str tag, struct xml_name *name)
{
    const char *colon = str_find_char(tag, ':');
    struct str prefix = colon == NULL ? STR_NONE : str_from(tag.data, colon);

    name->local = colon == NULL ? tag : str_from(colon + 1, tag.data + tag.len);
    return name->local.len != 0 && str_find_char(name->local, ':') == NULL &&
           (colon == NULL || prefix.len != 0) && find_space(reader, prefix, &name->space);
}

/* ---- tags ---- */

/* ` name="value"`: of those only the ones that bind prefixes are looked at. */
static bool read_attribute(struct xml_reader *reader, struct str *rest)
{
    struct str name;

    if (!take_name(rest, &name)) {
        return false;
    }
    skip_spaces(rest);
    if (!str_starts(*rest, STR("="))) {
        return false;
    }
    *rest = str_skip(*rest, 1);
    skip_spaces(rest);
    if (rest->len == 0 || (rest->data[0] != '"' && rest->data[0] != '\'')) {
        return false;
    }
    const char *end = str_find_char(str_skip(*rest, 1), rest->data[0]);
    if (end == NULL) {
        return false;
    }
    struct str value = str_from(rest->data + 1, end);
    *rest = str_from(end + 1, rest->data + rest->len);
    if (str_find_char(value, '<') != NULL) {
        return false;
    }
    if (str_is(name, "xmlns")) {
        return bind(reader, STR_NONE, value);
    }
    return !str_starts(name, STR("xmlns:")) || bind(reader, str_skip(name, 6), value);
}

static enum xml_event read_start(struct xml_reader *reader)
{
    struct str rest = str_skip(reader->rest, 1);
    struct str tag;

    if (reader->depth == XML_DEPTH_MAX || (reader->depth == 0 && reader->has_root) ||
        !take_name(&rest, &tag)) {
        return XML_ERROR;
    }
    struct xml_open *open = &reader->open[reader->depth++];
    for (;;) {
        size_t before = rest.len;
        skip_spaces(&rest);
        if (str_starts(rest, STR(">")) || str_starts(rest, STR("/>"))) {
            break;
        }
        if (rest.len == before || !read_attribute(reader, &rest)) {
            return XML_ERROR;
        }
    }
    if (!is_text(tag) || !resolve(reader, tag, &open->name)) {
        return XML_ERROR;
    }
    open->tag = tag;
    reader->has_root = true;
    reader->is_empty_tag = rest.data[0] == '/';
    reader->rest = str_skip(rest, reader->is_empty_tag ? 2 : 1);
    reader->name = open->name;
    return XML_START;
}

/* The innermost element ends, and with it what its prefixes stood for. */
static enum xml_event end_element(struct xml_reader *reader)
{
    while (reader->binding_count != 0 &&
           reader->bindings[reader->binding_count - 1].depth == reader->depth) {
        reader->binding_count--;
    }
    reader->is_empty_tag = false;
    reader->name = reader->open[--reader->depth].name;
    return XML_END;
}

static enum xml_event read_end(struct xml_reader *reader)
{
    struct str rest = str_skip(reader->rest, 2);
    struct str tag;

    if (reader->depth == 0 || !take_name(&rest, &tag) ||
        !str_equal(tag, reader->open[reader->depth - 1].tag)) {
        return XML_ERROR;
    }
    skip_spaces(&rest);
    if (!str_starts(rest, STR(">"))) {
        return XML_ERROR;
    }
    reader->rest = str_skip(rest, 1);
    return end_element(reader);
}

/* ---- all of it ---- */

/* Goes to behind `end`, from `skip` bytes on; the part between is *inner. */
static bool pass(struct xml_reader *reader, size_t skip, struct str end, struct str *inner)
{
    struct str rest = str_skip(reader->rest, skip);
    const char *at = str_find(rest, end);

    if (at == NULL) {
        return false;
    }
    *inner = str_from(rest.data, at);
    reader->rest = str_from(at + end.len, rest.data + rest.len);
    return true;
}

static enum xml_event read_text(struct xml_reader *reader)
{
    const char *end = str_find_char(reader->rest, '<');
    struct str raw = end == NULL ? reader->rest : str_from(reader->rest.data, end);

    reader->rest = str_skip(reader->rest, raw.len);
    if (!decode(reader->arena, raw, &reader->text)) {
        return XML_ERROR;
    }
    for (size_t i = 0; reader->depth == 0 && i < raw.len; i++) {
        if (!ascii_is_space(raw.data[i])) {
            return XML_ERROR;
        }
    }
    return XML_TEXT;
}

enum xml_event xml_next(struct xml_reader *reader)
{
    struct str inner;

    if (reader->is_empty_tag) {
        return end_element(reader);
    }
    for (;;) {
        if (reader->rest.len == 0) {
            return reader->depth == 0 && reader->has_root ? XML_EOF : XML_ERROR;
        }
        if (reader->rest.data[0] != '<') {
            return read_text(reader);
        }
        if (str_starts(reader->rest, STR("<!--"))) {
            if (!pass(reader, 4, STR("-->"), &inner)) {
                return XML_ERROR;
            }
        } else if (str_starts(reader->rest, STR("<?"))) {
            if (!pass(reader, 2, STR("?>"), &inner)) {
                return XML_ERROR;
            }
        } else if (str_starts(reader->rest, STR("<![CDATA["))) {
            reader->text = STR_NONE;
            return reader->depth != 0 && pass(reader, 9, STR("]]>"), &reader->text) &&
                           is_text(reader->text)
                       ? XML_TEXT
                       : XML_ERROR;
        } else {
            return str_starts(reader->rest, STR("</")) ? read_end(reader) : read_start(reader);
        }
    }
}

enum xml_event xml_next_child(struct xml_reader *reader)
{
    enum xml_event event;

    do {
        event = xml_next(reader);
    } while (event == XML_TEXT);
    return event;
}

bool xml_skip(struct xml_reader *reader)
{
    unsigned depth = reader->depth - 1;

    while (reader->depth > depth) {
        if (xml_next(reader) == XML_ERROR) {
            return false;
        }
    }
    return true;
}

bool xml_read_root(struct xml_reader *reader, const char *local)
{
    enum xml_event event;

    do {
        event = xml_next(reader);
    } while (event == XML_TEXT);
    return event == XML_START && xml_is(&reader->name, "DAV:", local);
}

bool xml_read_end(struct xml_reader *reader)
{
    enum xml_event event;

    do {
        event = xml_next(reader);
    } while (event == XML_TEXT);
    return event == XML_EOF;
}
