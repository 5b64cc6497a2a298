/* XML bodies of requests. */
#include "http/modules/content/dav_ext/bodies.h"

const struct str property_names[PROPERTY_COUNT] = {
#define PROPERTY_NAME(property, name) [property] = STR_INIT(name),
    DAV_PROPERTIES(PROPERTY_NAME)
#undef PROPERTY_NAME
};

/* ---- PROPFIND ---- */

/* Adds a property of <prop>, whose element has begun, to what is requested. */
static bool want(struct arena *arena, const struct xml_name *name, struct wanted *out)
{
    for (unsigned i = 0; i < PROPERTY_COUNT && str_is(name->space, "DAV:"); i++) {
        if (str_equal(name->local, property_names[i])) {
            out->properties |= PROPERTY_BIT(i);
            return true;
        }
    }
    out->unknown_size += name->space.len + name->local.len;
    if (out->unknown.count == WANTED_UNKNOWN_MAX || out->unknown_size > WANTED_NAMES_MAX) {
        return false;
    }
    *vec_add(&out->unknown, arena, struct xml_name) = *name;
    return true;
}

static bool read_prop(struct xml_reader *reader, struct wanted *out)
{
    enum xml_event event;

    while ((event = xml_next_child(reader)) == XML_START) {
        if (!want(reader->arena, &reader->name, out) || !xml_skip(reader)) {
            return false;
        }
    }
    return event == XML_END;
}

/* Reads a child of <propfind> that has begun. */
static bool read_propfind_child(struct xml_reader *reader, struct wanted *out)
{
    if (xml_is(&reader->name, "DAV:", "prop")) {
        return read_prop(reader, out);
    }
    out->names_only |= xml_is(&reader->name, "DAV:", "propname");
    if (out->names_only || xml_is(&reader->name, "DAV:", "allprop")) {
        out->properties = PROPERTY_ALL;
    }
    return xml_skip(reader);
}

bool propfind_parse(struct arena *arena, struct str body, struct wanted *out)
{
    struct xml_reader *reader = arena_new(arena, struct xml_reader);
    enum xml_event event;

    *out = (struct wanted){.properties = PROPERTY_ALL};
    if (body.len == 0) {
        return true;
    }
    out->properties = 0;
    xml_begin(reader, arena, body);
    if (!xml_read_root(reader, "propfind")) {
        return false;
    }
    while ((event = xml_next_child(reader)) == XML_START) {
        if (!read_propfind_child(reader, out)) {
            return false;
        }
    }
    return event == XML_END && xml_read_end(reader);
}

/* ---- LOCK ---- */

static struct str trim_spaces(struct str s)
{
    while (s.len != 0 && memchr(" \t\r\n", s.data[0], 4) != NULL) {
        s = str_skip(s, 1);
    }
    while (s.len != 0 && memchr(" \t\r\n", s.data[s.len - 1], 4) != NULL) {
        s.len--;
    }
    return s;
}

/* All text in the element that has begun, up to its end. */
static bool dav_ext_bodies_read_text(struct xml_reader *reader, struct str *out)
{
    unsigned depth = reader->depth - 1;
    struct vec parts = {0};

    while (reader->depth > depth) {
        enum xml_event event = xml_next(reader);
        if (event == XML_ERROR) {
            return false;
        }
        if (event == XML_TEXT) {
            *vec_add(&parts, reader->arena, struct str) = reader->text;
        }
    }
    *out = trim_spaces(arena_join(reader->arena, parts.items, parts.count));
    return true;
}

struct lockinfo_seen {
    bool has_scope, has_type;
};

/* Reads an element below <lockinfo> that has begun. */
static bool read_lockinfo_child(struct xml_reader *reader, struct lock_info *out,
                                struct lockinfo_seen *seen)
{
    if (xml_is(&reader->name, "DAV:", "owner")) {
        return dav_ext_bodies_read_text(reader, &out->owner);
    }
    if (xml_is(&reader->name, "DAV:", "exclusive") || xml_is(&reader->name, "DAV:", "shared")) {
        out->is_shared = str_is(reader->name.local, "shared");
        seen->has_scope = true;
    }
    seen->has_type |= xml_is(&reader->name, "DAV:", "write");
    return true;
}

bool lockinfo_parse(struct arena *arena, struct str body, struct lock_info *out)
{
    struct xml_reader *reader = arena_new(arena, struct xml_reader);
    struct lockinfo_seen seen = {false, false};
    enum xml_event event;

    *out = (struct lock_info){.is_shared = false};
    xml_begin(reader, arena, body);
    if (!xml_read_root(reader, "lockinfo")) {
        return false;
    }
    do {
        event = xml_next(reader);
        if (event == XML_START && !read_lockinfo_child(reader, out, &seen)) {
            return false;
        }
    } while (event != XML_EOF && event != XML_ERROR);
    return event == XML_EOF && seen.has_scope && seen.has_type;
}
