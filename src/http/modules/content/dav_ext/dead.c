/* Dead properties of files. */
#include "http/modules/content/dav_ext/dead.h"

#include <errno.h>
#include <sys/xattr.h>

#include "http/modules/content/dav_ext/dav_ext.h"

#define ROOT_START "<properties>"
#define ROOT_END "</properties>"

static bool dav_ext_dead_is_same(const struct xml_name *a, const struct xml_name *b)
{
    return str_equal(a->local, b->local) && str_equal(a->space, b->space);
}

/* ---- stored properties ---- */

/* Reads the children of the root element, which has begun. False: some are not well formed. */
static bool read_children(struct xml_reader *reader, struct vec *out)
{
    for (;;) {
        const char *start = reader->rest.data;
        struct xml_name name;

        switch (xml_next(reader)) {
        case XML_START:
            name = reader->name;
            if (!xml_skip(reader)) {
                return false;
            }
            *vec_add(out, reader->arena, struct dead_property) =
                (struct dead_property){name, str_from(start, reader->rest.data)};
            break;
        case XML_TEXT:
            break;
        case XML_END:
            return true;
        default:
            return false;
        }
    }
}

void dead_parse(struct arena *arena, struct str text, struct vec *out)
{
    struct xml_reader *reader = arena_new(arena, struct xml_reader);

    *out = (struct vec){0};
    xml_begin(reader, arena, text);
    if (!str_starts(text, STR(ROOT_START)) || xml_next(reader) != XML_START ||
        !read_children(reader, out) || xml_next(reader) != XML_EOF) {
        *out = (struct vec){0};
    }
}

void dead_write(struct buf *out, const struct vec *properties)
{
    if (properties->count == 0) {
        return;
    }
    buf_append(out, STR(ROOT_START));
    vec_each(const struct dead_property, property, properties) {
        buf_append(out, property->element);
    }
    buf_append(out, STR(ROOT_END));
}

const struct dead_property *dead_find(const struct vec *properties, const struct xml_name *name)
{
    vec_each(const struct dead_property, property, properties) {
        if (dav_ext_dead_is_same(&property->name, name)) {
            return property;
        }
    }
    return NULL;
}

void dead_apply(struct vec *properties, struct arena *arena, const struct dead_change *change)
{
    struct dead_property *items = properties->items;
    size_t kept = 0;

    for (size_t i = 0; i < properties->count; i++) {
        if (!dav_ext_dead_is_same(&items[i].name, &change->name)) {
            items[kept++] = items[i];
        }
    }
    properties->count = kept;
    if (change->element.len != 0) {
        *vec_add(properties, arena, struct dead_property) =
            (struct dead_property){change->name, change->element};
    }
}

void dead_put_name(struct buf *out, const struct xml_name *name)
{
    buf_printf(out, "<%.*s xmlns=\"", STR_ARG(name->local));
    put_xml(out, name->space);
    buf_append(out, STR("\"/>\n"));
}

/* ---- PROPPATCH ---- */

/* A namespace prefix that is not bound here. */
static struct str free_prefix(const struct xml_reader *reader)
{
    struct str prefix = STR("P_______________________________________________________________");
    struct str tried = str_head(prefix, 1);

    for (unsigned i = 0; i < reader->binding_count; i++) {
        if (str_equal(reader->bindings[i].prefix, tried) && tried.len < prefix.len) {
            tried.len++;
            i = (unsigned) -1;
        }
    }
    return tried;
}

/* Writes ` xmlns:a="..."` for every prefix that is bound here. */
static void put_bindings(struct buf *out, const struct xml_reader *reader, bool with_default)
{
    for (unsigned i = reader->binding_count; i-- != 0;) {
        const struct xml_binding *binding = &reader->bindings[i];
        bool is_hidden = binding->prefix.len == 0 && !with_default;

        for (unsigned later = i + 1; later < reader->binding_count; later++) {
            is_hidden |= str_equal(reader->bindings[later].prefix, binding->prefix);
        }
        if (!is_hidden) {
            buf_printf(out, " xmlns%s%.*s=\"", binding->prefix.len == 0 ? "" : ":",
                       STR_ARG(binding->prefix));
            put_xml(out, binding->space);
            buf_append_char(out, '"');
        }
    }
}

/* Writes text, escaped for an element or for an attribute. */
static void put_text(struct buf *out, struct str text, bool is_attribute)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i];
        bool is_space = c == '\r' || (is_attribute && (c == '\n' || c == '\t'));

        if (is_space || c == '<' || c == '>' || c == '&' || (is_attribute && c == '"')) {
            buf_printf(out, "&#%u;", (unsigned) (unsigned char) c);
        } else {
            buf_append_char(out, c);
        }
    }
}

static void put_attribute(struct buf *out, struct str tag, struct str value)
{
    buf_printf(out, " %.*s=\"", STR_ARG(tag));
    put_text(out, value, true);
    buf_append_char(out, '"');
}

/* Writes the attributes of the element that has begun; namespace declarations only if
 * with_bindings. */
static void put_attributes(struct buf *out, const struct xml_reader *reader, bool with_bindings)
{
    for (unsigned i = 0; i < reader->attribute_count; i++) {
        const struct xml_attribute *attribute = &reader->attributes[i];

        if (with_bindings || !attribute->is_binding) {
            put_attribute(out, attribute->tag, attribute->value);
        }
    }
}

/* Writes the xml:lang that the property inherits from an enclosing element (RFC 4918, 4.3). */
static void put_language(struct buf *out, const struct xml_reader *reader)
{
    const struct xml_open *open = &reader->open[reader->depth - 1];

    for (unsigned i = 0; i < reader->attribute_count; i++) {
        if (str_is(reader->attributes[i].tag, "xml:lang")) {
            return;
        }
    }
    if (open->language.data != NULL) {
        put_attribute(out, STR("xml:lang"), open->language);
    }
}

/* Writes the start tag of the property itself, complete with the namespaces, so that it is
 * independent of its context. */
static void put_root(struct buf *out, const struct xml_reader *reader, struct str tag,
                     struct str prefix)
{
    bool has_space = prefix.len != 0;

    buf_printf(out, "<%.*s", STR_ARG(tag));
    if (has_space) {
        buf_printf(out, " xmlns:%.*s=\"", STR_ARG(prefix));
        put_xml(out, reader->name.space);
        buf_append_char(out, '"');
    } else {
        buf_append(out, STR(" xmlns=\"\""));
    }
    put_bindings(out, reader, has_space);
    put_attributes(out, reader, false);
    put_language(out, reader);
    buf_append_char(out, '>');
}

/* Writes the contents again from the parsed events, so that what is stored is well formed. False:
 * the input was not. */
static bool put_inside(struct buf *out, struct xml_reader *reader)
{
    unsigned outside = reader->depth - 1;

    for (;;) {
        enum xml_event event = xml_next(reader);

        /* The stored text has one more prefix, and must be readable with it. */
        if (event == XML_ERROR || reader->binding_count >= XML_BINDINGS_MAX ||
            out->len > DEAD_MAX) {
            return false;
        }
        if (event == XML_END && reader->depth == outside) {
            return true;
        }
        if (event == XML_TEXT) {
            put_text(out, reader->text, false);
        } else if (event == XML_START) {
            buf_printf(out, "<%.*s", STR_ARG(reader->open[reader->depth - 1].tag));
            put_attributes(out, reader, true);
            buf_append_char(out, '>');
        } else {
            buf_printf(out, "</%.*s>", STR_ARG(reader->open[reader->depth].tag));
        }
    }
}

/* Reads the element that has begun and writes it independent of its context. False: it is
 * malformed, or too long. */
static bool read_element(struct xml_reader *reader, struct dead_change *change)
{
    struct xml_name name = reader->name;
    struct str prefix = name.space.len != 0 ? free_prefix(reader) : STR_NONE;
    struct str tag = prefix.len != 0 ? arena_printf(reader->arena, "%.*s:%.*s", STR_ARG(prefix),
                                                    STR_ARG(name.local))
                                     : name.local;
    struct buf out = {0};

    put_root(&out, reader, tag, prefix);
    bool is_sound = put_inside(&out, reader);
    buf_printf(&out, "</%.*s>", STR_ARG(tag));
    is_sound = is_sound && out.len <= DEAD_MAX;
    if (is_sound) {
        *change = (struct dead_change){name, arena_dup(reader->arena, buf_str(&out))};
    }
    buf_free(&out);
    return is_sound;
}

/* Reads the children of a <prop> that has begun. */
static bool read_prop(struct xml_reader *reader, bool sets, struct vec *out, size_t *total)
{
    enum xml_event event;

    while ((event = xml_next_child(reader)) == XML_START) {
        struct dead_change change = {.name = reader->name};

        if (sets ? !read_element(reader, &change) : !xml_skip(reader)) {
            return false;
        }
        *total += change.element.len + change.name.space.len + change.name.local.len;
        if (*total > 2 * (size_t) DEAD_MAX || out->count == DEAD_CHANGES_MAX) {
            return false;
        }
        *vec_add(out, reader->arena, struct dead_change) = change;
    }
    return event == XML_END;
}

/* Reads a <set> or <remove> that has begun. */
static bool read_changes(struct xml_reader *reader, bool sets, struct vec *out, size_t *total)
{
    enum xml_event event;

    while ((event = xml_next_child(reader)) == XML_START) {
        if (xml_is(&reader->name, "DAV:", "prop") ? !read_prop(reader, sets, out, total)
                                                  : !xml_skip(reader)) {
            return false;
        }
    }
    return event == XML_END;
}

bool proppatch_parse(struct arena *arena, struct str body, struct vec *out)
{
    struct xml_reader *reader = arena_new(arena, struct xml_reader);
    enum xml_event event;
    size_t total = 0;

    *out = (struct vec){0};
    xml_begin(reader, arena, body);
    if (!xml_read_root(reader, "propertyupdate")) {
        return false;
    }
    while ((event = xml_next_child(reader)) == XML_START) {
        bool sets = xml_is(&reader->name, "DAV:", "set");

        if (sets || xml_is(&reader->name, "DAV:", "remove")
                ? !read_changes(reader, sets, out, &total)
                : !xml_skip(reader)) {
            return false;
        }
    }
    return event == XML_END && out->count != 0 && xml_read_end(reader);
}

/* ---- the extended attribute ---- */

bool dead_load(int fd, struct buf *out)
{
    ssize_t size = fgetxattr(fd, DEAD_ATTRIBUTE, NULL, 0);

    if (size > 0 && size <= DEAD_MAX) {
        size = fgetxattr(fd, DEAD_ATTRIBUTE, buf_reserve(out, (size_t) size), (size_t) size);
    }
    if (size > DEAD_MAX || (size == -1 && (errno == ENODATA || errno == ENOTSUP))) {
        return true;
    }
    out->len += size > 0 ? (size_t) size : 0;
    return size != -1;
}

bool dead_store(int fd, struct str text)
{
    if (text.len > DEAD_MAX) {
        errno = E2BIG;
        return false;
    }
    if (text.len == 0) {
        return fremovexattr(fd, DEAD_ATTRIBUTE) == 0 || errno == ENODATA || errno == ENOTSUP;
    }
    return fsetxattr(fd, DEAD_ATTRIBUTE, text.data, text.len, 0) == 0;
}
