/* Sets of media types: gzip_types, ssi_types, sub_filter_types and similar directives, and whether
 * a response is in one. */
#ifndef HTTP_MESSAGE_TYPE_SET_H
#define HTTP_MESSAGE_TYPE_SET_H

#include <stdbool.h>

#include "base/map.h"
#include "base/str.h"
#include "conf/directive.h"

/* Media types, in the configuration's arena. */
struct type_set {
    struct map types;              /* by name, in any case; the value is the set itself */
    bool has_all;                  /* "*" was written */
    const struct conf_node *level; /* the block where it was written: more lines there add to it */
};

/*
 * Of a row `X_types` (CUSTOM_FIELD(S, member, type_set_apply), a `struct type_set *`; ARGS(1,
 * ARGS_ANY), REPEAT_APPEND): reads a line. The first word of the row's .initial is in each set,
 * whatever is written, as with nginx; a word that comes again is warned of.
 */
bool type_set_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                    void *settings);

/* Is the type in the set? Parameters after a ';' do not count. An empty type is in "*" alone. */
bool type_set_has(const struct type_set *set, struct str content_type);

#endif
