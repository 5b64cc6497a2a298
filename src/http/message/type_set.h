/* Sets of media types, for gzip_types, ssi_types, sub_filter_types and similar directives. */
#ifndef HTTP_MESSAGE_TYPE_SET_H
#define HTTP_MESSAGE_TYPE_SET_H

#include <stdbool.h>

#include "base/map.h"
#include "base/str.h"
#include "conf/directive.h"

/* Media types, in the configuration's arena. */
struct type_set {
    struct map types; /* by name, case-insensitive; the value is the set itself */
    bool has_all;     /* contains "*" */
    const struct conf_node
        *level; /* the block of the first directive: further ones in it add to the set */
};

/* The apply function of an `X_types` row (CUSTOM_FIELD(S, member, type_set_apply), a `struct
 * type_set *`; ARGS(1, ARGS_ANY), REPEAT_APPEND). The first word of the row's .initial is in every
 * set, as in nginx; a repeated type is reported by a warning. */
bool type_set_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                    void *settings);

/* Is the type in the set? Parameters after a ';' are ignored. An empty type is only in "*". */
bool type_set_has(const struct type_set *set, struct str content_type);

#endif
