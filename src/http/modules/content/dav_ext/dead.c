/* Dead properties of files. */
#include "http/modules/content/dav_ext/dead.h"

#include <errno.h>
#include <sys/xattr.h>

#include "http/modules/content/dav_ext/dav_ext.h"

#define ROOT_START "<properties>"
#define ROOT_END "</properties>"

static bool is_same(const struct xml_name *a, const struct xml_name *b)
{
    return str_equal(a->local, b->local) && str_equal(a->space, b->space);
}

/* ---- what is kept ---- */

/* The children of the root that has begun. False: they are not all well formed. */
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
        if (is_same(&property->name, name)) {
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
        if (!is_same(&items[i].name, &change->name)) {
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

/* A prefix that stands for nothing here. */
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

/* ` xmlns:a="..."` of all prefixes that stand for something at this place. */
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

/* The element that has begun, as it can stand anywhere. False: it is malformed, or too long. */
static bool read_element(struct xml_reader *reader, struct dead_change *change)
{
    struct xml_name name = reader->name;
    bool has_space = name.space.len != 0;
    struct str prefix = has_space ? free_prefix(reader) : STR_NONE;
    struct str tag =
        has_space ? arena_printf(reader->arena, "%.*s:%.*s", STR_ARG(prefix), STR_ARG(name.local))
                  : name.local;
    struct buf out = {0};

    buf_printf(&out, "<%.*s", STR_ARG(tag));
    if (has_space) {
        buf_printf(&out, " xmlns:%.*s=\"", STR_ARG(prefix));
        put_xml(&out, name.space);
        buf_append_char(&out, '"');
    } else {
        buf_append(&out, STR(" xmlns=\"\""));
    }
    put_bindings(&out, reader, has_space);
    buf_append_char(&out, '>');
    const char *start = reader->rest.data;
    const char *end = start;
    bool is_empty = reader->is_empty_tag;
    unsigned outside = reader->depth - 1;
    /* One more prefix holds in what is kept: it shall be read again. */
    bool is_sound = reader->binding_count < XML_BINDINGS_MAX;
    while (is_sound && reader->depth > outside) {
        end = reader->rest.data;
        is_sound = xml_next(reader) != XML_ERROR && reader->binding_count < XML_BINDINGS_MAX;
    }
    if (is_sound && !is_empty) {
        buf_append(&out, str_from(start, end));
    }
    buf_printf(&out, "</%.*s>", STR_ARG(tag));
    is_sound = is_sound && out.len <= DEAD_MAX;
    if (is_sound) {
        *change = (struct dead_change){name, arena_dup(reader->arena, buf_str(&out))};
    }
    buf_free(&out);
    return is_sound;
}

/* The children of a prop that has begun. */
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

/* set or remove, which has begun. */
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

/* ---- the attribute ---- */

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
