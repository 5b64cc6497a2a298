/* A parser for small XML documents from peers: elements with their namespaces (XML 1.0, Namespaces
 * in XML 1.0). UTF-8 only. A document type is rejected, so that the only entities are the five
 * predefined ones and character references; comments and processing instructions are skipped. Pure
 * functions on a slice. */
#ifndef HTTP_MESSAGE_XML_H
#define HTTP_MESSAGE_XML_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

#define XML_DEPTH_MAX 32      /* nested elements */
#define XML_BINDINGS_MAX 64   /* prefixes bound at the same time */
#define XML_ATTRIBUTES_MAX 64 /* of an element, including namespace declarations */

enum xml_event {
    XML_START, /* an element begins: see `name` */
    XML_END,   /* the innermost open element ends: see `name` */
    XML_TEXT,  /* decoded text; including white space between elements */
    XML_EOF,   /* the document is complete */
    XML_ERROR  /* malformed, or beyond a limit */
};

struct xml_name {
    struct str space; /* the namespace; empty = none */
    struct str local;
};

/* The binding of a prefix, in the element that declares it and those inside. */
struct xml_binding {
    struct str prefix;
    struct str space;
    unsigned depth;
};

struct xml_open {
    struct str tag; /* as written */
    struct xml_name name;
    struct str language; /* from xml:lang of it or an enclosing element; data NULL: none */
};

struct xml_attribute {
    struct str tag;   /* as written */
    struct str value; /* decoded */
    struct xml_name name;
    bool is_binding; /* it is a namespace declaration, and has no name */
};

struct xml_reader {
    struct arena *arena;      /* for decoded text */
    struct str rest;          /* remaining input */
    struct xml_name name;     /* with XML_START and XML_END */
    struct str text;          /* with XML_TEXT */
    unsigned depth;           /* open elements */
    bool is_empty_tag;        /* "<a/>" has begun: its end is next */
    bool has_root;            /* the root element has begun */
    bool is_at_start;         /* nothing was read so far */
    unsigned attribute_count; /* of the innermost element */
    unsigned binding_count;
    struct xml_attribute attributes[XML_ATTRIBUTES_MAX];
    struct xml_open open[XML_DEPTH_MAX];
    struct xml_binding bindings[XML_BINDINGS_MAX];
};

/* The document must live as long as the results. */
void xml_begin(struct xml_reader *reader, struct arena *arena, struct str document);
enum xml_event xml_next(struct xml_reader *reader);

/* Gets the next child of the current element, skipping text: XML_START, after which the child must
 * be read to its end before the next call; XML_END after the last one; or XML_ERROR. */
enum xml_event xml_next_child(struct xml_reader *reader);

/* After XML_START: skips to the end of that element. False: XML_ERROR. */
bool xml_skip(struct xml_reader *reader);

/* Reads the beginning of the root element, which must have this name in the namespace "DAV:"; only
 * white space may precede it. */
bool xml_read_root(struct xml_reader *reader, const char *local);
/* Reads the end of the root element, after which nothing may follow. */
bool xml_read_end(struct xml_reader *reader);

static inline bool xml_is(const struct xml_name *name, const char *space, const char *local)
{
    return str_is(name->local, local) && str_is(name->space, space);
}

#endif
