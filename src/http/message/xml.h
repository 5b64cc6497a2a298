/*
 * A reader of small XML documents that peers send: elements with their namespaces (XML 1.0,
 * Namespaces in XML 1.0). UTF-8 only. A document type is refused, so there are no entities but the
 * five that XML has and numbers; comments and processing instructions are skipped. A pure function
 * on a slice.
 */
#ifndef HTTP_MESSAGE_XML_H
#define HTTP_MESSAGE_XML_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

#define XML_DEPTH_MAX 32      /* elements inside each other */
#define XML_BINDINGS_MAX 64   /* prefixes that hold at one place */
#define XML_ATTRIBUTES_MAX 64 /* of one element, with those that bind prefixes */

enum xml_event {
    XML_START, /* of an element: name */
    XML_END,   /* of the one that began last and has not ended: name */
    XML_TEXT,  /* text, decoded; blanks between elements, too */
    XML_EOF,   /* the document is whole */
    XML_ERROR  /* it is not well formed, or beyond a limit */
};

struct xml_name {
    struct str space; /* the namespace; empty = none */
    struct str local;
};

/* What a prefix stands for, in the element where that was said and those inside. */
struct xml_binding {
    struct str prefix;
    struct str space;
    unsigned depth;
};

struct xml_open {
    struct str tag; /* as written */
    struct xml_name name;
    struct str language; /* by xml:lang, its own or of an element around it; data NULL: none */
};

struct xml_attribute {
    struct str tag;   /* as written */
    struct str value; /* decoded */
    struct xml_name name;
    bool is_binding; /* it says what a prefix stands for: it has no name */
};

struct xml_reader {
    struct arena *arena;      /* of decoded texts */
    struct str rest;          /* what was not read yet */
    struct xml_name name;     /* of XML_START and XML_END */
    struct str text;          /* of XML_TEXT */
    unsigned depth;           /* elements that are open */
    bool is_empty_tag;        /* "<a/>" began: its end comes next */
    bool has_root;            /* the outermost element began */
    bool is_at_start;         /* nothing was read yet */
    unsigned attribute_count; /* of the element that has begun last */
    unsigned binding_count;
    struct xml_attribute attributes[XML_ATTRIBUTES_MAX];
    struct xml_open open[XML_DEPTH_MAX];
    struct xml_binding bindings[XML_BINDINGS_MAX];
};

/* The document must live as long as what is made of it. */
void xml_begin(struct xml_reader *reader, struct arena *arena, struct str document);
enum xml_event xml_next(struct xml_reader *reader);

/* The next child of the element that is being read, over texts: XML_START, whose element is read to
 * its end before the next call; XML_END after the last one; or XML_ERROR. */
enum xml_event xml_next_child(struct xml_reader *reader);

/* After XML_START: reads on to the end of that element. False: XML_ERROR. */
bool xml_skip(struct xml_reader *reader);

/* The outermost element begins, of this name in the namespace "DAV:"; what precedes it is blanks.
 */
bool xml_read_root(struct xml_reader *reader, const char *local);
/* The outermost element has ended, and nothing follows it. */
bool xml_read_end(struct xml_reader *reader);

static inline bool xml_is(const struct xml_name *name, const char *space, const char *local)
{
    return str_is(name->local, local) && str_is(name->space, space);
}

#endif
