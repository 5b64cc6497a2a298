/* A parser for small XML documents from peers. */
#include "http/message/xml.h"

#include "base/parse.h"
#include "base/text.h"
#include "http/message/xml_words.h"

void xml_begin(struct xml_reader *reader, struct arena *arena, struct str document)
{
    reader->arena = arena;
    reader->rest = str_starts(document, STR("\xef\xbb\xbf")) ? str_skip(document, 3) : document;
    reader->depth = 0;
    reader->binding_count = 0;
    reader->attribute_count = 0;
    reader->is_empty_tag = false;
    reader->has_root = false;
    reader->is_at_start = true;
}

/* Ranges of name characters beyond ASCII (XML 1.0, 2.3): first, last. */
/* clang-format off */
static const uint32_t name_ranges[][2] = {
    {0xc0, 0xd6},
    {0xd8, 0xf6},
    {0xf8, 0x2ff},
    {0x370, 0x37d},
    {0x37f, 0x1fff},
    {0x200c, 0x200d},
    {0x2070, 0x218f},
    {0x2c00, 0x2fef},
    {0x3001, 0xd7ff},
    {0xf900, 0xfdcf},
    {0xfdf0, 0xfffd},
    {0x10000, 0xeffff},
};
/* clang-format on */

static bool begins_name(uint32_t c)
{
    if (c < 0x80) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    }
    for (size_t i = 0; i < sizeof(name_ranges) / sizeof(name_ranges[0]); i++) {
        if (c >= name_ranges[i][0] && c <= name_ranges[i][1]) {
            return true;
        }
    }
    return false;
}

static bool continues_name(uint32_t c)
{
    return begins_name(c) || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == 0xb7 ||
           (c >= 0x300 && c <= 0x36f) || (c >= 0x203f && c <= 0x2040);
}

/* Takes a name without a colon from *s; false: there is none. */
static bool take_part(struct str *s, struct str *out)
{
    const char *start = s->data;

    for (;;) {
        struct str rest = *s;
        uint32_t c = rest.len == 0 ? UINT32_MAX : utf8_next(&rest);

        if (c == UINT32_MAX || !(s->data == start ? begins_name(c) : continues_name(c))) {
            *out = str_from(start, s->data);
            return out->len != 0;
        }
        *s = rest;
    }
}

static void xml_skip_spaces(struct str *s)
{
    while (s->len != 0 && ascii_is_space(s->data[0])) {
        *s = str_skip(*s, 1);
    }
}

/* Takes a name, with or without a prefix, from *s; false: there is none. */
static bool take_name(struct str *s, struct str *out)
{
    const char *start = s->data;
    struct str part;

    if (!take_part(s, &part)) {
        return false;
    }
    if (str_starts(*s, STR(":"))) {
        *s = str_skip(*s, 1);
        if (!take_part(s, &part)) {
            return false;
        }
    }
    *out = str_from(start, s->data);
    return true;
}

/* Is it UTF-8, without characters that XML forbids (2.2)? */
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

/* The character of a reference, without "&" and ";"; 0: invalid. */
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

/* Writes a white space character: in an attribute it becomes a space, elsewhere a line end becomes
 * a line feed (2.11, 3.3.3). */
static size_t put_space(char *at, struct str raw, bool is_attribute)
{
    bool is_two = raw.data[0] == '\r' && raw.len > 1 && raw.data[1] == '\n';

    *at = is_attribute ? ' ' : raw.data[0] == '\r' ? '\n' : raw.data[0];
    return is_two ? 2 : 1;
}

/* Replaces references; the result is never longer. */
static bool xml_decode(struct arena *arena, struct str raw, bool is_attribute, struct str *out)
{
    char *start = arena_text(arena, raw.len);
    char *at = start;

    if (!is_text(raw)) {
        return false;
    }
    while (raw.len != 0) {
        if (ascii_is_space(raw.data[0])) {
            raw = str_skip(raw, put_space(at++, raw, is_attribute));
            continue;
        }
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

#define XML_SPACE STR("http://www.w3.org/XML/1998/namespace")
#define XMLNS_SPACE STR("http://www.w3.org/2000/xmlns/")

/* "xml" is bound only to its own namespace, and no other prefix to that; "xmlns" cannot be
 * bound. */
static bool may_bind(struct str prefix, struct str space)
{
    return !str_is(prefix, "xmlns") && !str_equal(space, XMLNS_SPACE) &&
           str_is(prefix, "xml") == str_equal(space, XML_SPACE) &&
           (prefix.len == 0 || space.len != 0) && xml_is_uri(space);
}

static bool bind(struct xml_reader *reader, struct str prefix, struct str space)
{
    if (reader->binding_count == XML_BINDINGS_MAX || !may_bind(prefix, space)) {
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
        *space = XML_SPACE;
    }
    return prefix.len == 0 || space->len != 0;
}

static bool resolve(const struct xml_reader *reader, struct str tag, struct xml_name *name)
{
    const char *colon = str_find_char(tag, ':');
    struct str prefix = colon == NULL ? STR_NONE : str_from(tag.data, colon);

    name->local = colon == NULL ? tag : str_from(colon + 1, tag.data + tag.len);
    return find_space(reader, prefix, &name->space);
}

/* ---- tags ---- */

/* Takes ` = "value"` after a name. */
static bool take_value(struct str *rest, struct str *out)
{
    xml_skip_spaces(rest);
    if (!str_starts(*rest, STR("="))) {
        return false;
    }
    *rest = str_skip(*rest, 1);
    xml_skip_spaces(rest);
    if (rest->len == 0 || (rest->data[0] != '"' && rest->data[0] != '\'')) {
        return false;
    }
    const char *end = str_find_char(str_skip(*rest, 1), rest->data[0]);
    if (end == NULL) {
        return false;
    }
    *out = str_from(rest->data + 1, end);
    *rest = str_from(end + 1, rest->data + rest->len);
    return str_find_char(*out, '<') == NULL;
}

/* Takes ` name="value"`. */
static bool read_attribute(struct xml_reader *reader, struct str *rest)
{
    struct xml_attribute attribute = {.is_binding = false};
    struct str value;

    if (reader->attribute_count == XML_ATTRIBUTES_MAX || !take_name(rest, &attribute.tag) ||
        !take_value(rest, &value) || !xml_decode(reader->arena, value, true, &attribute.value)) {
        return false;
    }
    for (unsigned i = 0; i < reader->attribute_count; i++) {
        if (str_equal(reader->attributes[i].tag, attribute.tag)) {
            return false;
        }
    }
    bool is_default = str_is(attribute.tag, "xmlns");
    attribute.is_binding = is_default || str_starts(attribute.tag, STR("xmlns:"));
    reader->attributes[reader->attribute_count++] = attribute;
    return !attribute.is_binding ||
           bind(reader, is_default ? STR_NONE : str_skip(attribute.tag, 6), attribute.value);
}

/* Resolves the names of all attributes after all prefixes are known: two with the same name are an
 * error, even with different prefixes. */
static bool name_attributes(struct xml_reader *reader, struct xml_open *open)
{
    for (unsigned i = 0; i < reader->attribute_count; i++) {
        struct xml_attribute *attribute = &reader->attributes[i];

        if (attribute->is_binding) {
            continue;
        }
        if (str_find_char(attribute->tag, ':') == NULL) {
            attribute->name = (struct xml_name){.local = attribute->tag};
        } else if (!resolve(reader, attribute->tag, &attribute->name)) {
            return false;
        }
        for (unsigned before = 0; before < i; before++) {
            const struct xml_attribute *other = &reader->attributes[before];

            if (!other->is_binding && str_equal(other->name.local, attribute->name.local) &&
                str_equal(other->name.space, attribute->name.space)) {
                return false;
            }
        }
        if (str_is(attribute->name.local, "lang") && str_equal(attribute->name.space, XML_SPACE)) {
            open->language = attribute->value;
        }
    }
    return true;
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
    open->language = reader->depth == 1 ? STR_NONE : open[-1].language;
    reader->attribute_count = 0;
    for (;;) {
        size_t before = rest.len;
        xml_skip_spaces(&rest);
        if (str_starts(rest, STR(">")) || str_starts(rest, STR("/>"))) {
            break;
        }
        if (rest.len == before || !read_attribute(reader, &rest)) {
            return XML_ERROR;
        }
    }
    if (!resolve(reader, tag, &open->name) || !name_attributes(reader, open)) {
        return XML_ERROR;
    }
    open->tag = tag;
    reader->has_root = true;
    reader->is_empty_tag = rest.data[0] == '/';
    reader->rest = str_skip(rest, reader->is_empty_tag ? 2 : 1);
    reader->name = open->name;
    return XML_START;
}

/* Ends the innermost element, and the bindings of its prefixes. */
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
    xml_skip_spaces(&rest);
    if (!str_starts(rest, STR(">"))) {
        return XML_ERROR;
    }
    reader->rest = str_skip(rest, 1);
    return end_element(reader);
}

/* ---- the document ---- */

/* Skips to after `end`, which is searched from `skip` bytes on; *inner is the text between. */
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

static enum xml_event xml_read_text(struct xml_reader *reader)
{
    const char *end = str_find_char(reader->rest, '<');
    struct str raw = end == NULL ? reader->rest : str_from(reader->rest.data, end);

    reader->rest = str_skip(reader->rest, raw.len);
    if (str_find(raw, STR("]]>")) != NULL ||
        !xml_decode(reader->arena, raw, false, &reader->text)) {
        return XML_ERROR;
    }
    for (size_t i = 0; reader->depth == 0 && i < raw.len; i++) {
        if (!ascii_is_space(raw.data[i])) {
            return XML_ERROR;
        }
    }
    return XML_TEXT;
}

static bool pass_comment(struct xml_reader *reader)
{
    struct str inner;

    return pass(reader, 4, STR("--"), &inner) && str_starts(reader->rest, STR(">")) &&
           is_text(inner) && (reader->rest = str_skip(reader->rest, 1), true);
}

/* Skips a processing instruction; one named "xml" is the declaration, which must come first. */
static bool pass_instruction(struct xml_reader *reader)
{
    bool is_first = reader->is_at_start;
    struct str inner, name;

    if (!pass(reader, 2, STR("?>"), &inner) || !is_text(inner) || !take_part(&inner, &name) ||
        (inner.len != 0 && !ascii_is_space(inner.data[0]))) {
        return false;
    }
    return !str_equal_nocase(name, STR("xml")) ||
           (is_first && str_is(name, "xml") && xml_is_declaration(inner));
}

static enum xml_event read_characters(struct xml_reader *reader)
{
    struct str inner;

    if (reader->depth == 0 || !pass(reader, 9, STR("]]>"), &inner) || !is_text(inner)) {
        return XML_ERROR;
    }
    reader->text = inner;
    return XML_TEXT;
}

static enum xml_event read_any(struct xml_reader *reader)
{
    for (;;) {
        if (reader->rest.len == 0) {
            return reader->depth == 0 && reader->has_root ? XML_EOF : XML_ERROR;
        }
        if (reader->rest.data[0] != '<') {
            return xml_read_text(reader);
        }
        bool is_comment = str_starts(reader->rest, STR("<!--"));
        if (!is_comment && !str_starts(reader->rest, STR("<?"))) {
            break;
        }
        if (is_comment ? !pass_comment(reader) : !pass_instruction(reader)) {
            return XML_ERROR;
        }
        reader->is_at_start = false;
    }
    if (str_starts(reader->rest, STR("<![CDATA["))) {
        return read_characters(reader);
    }
    return str_starts(reader->rest, STR("</")) ? read_end(reader) : read_start(reader);
}

enum xml_event xml_next(struct xml_reader *reader)
{
    if (reader->is_empty_tag) {
        return end_element(reader);
    }
    enum xml_event event = read_any(reader);
    reader->is_at_start = false;
    return event;
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
