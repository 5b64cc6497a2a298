/* `match` blocks: what a healthy answer looks like. */
#ifndef HTTP_MODULES_BACKENDS_HEALTH_CHECK_MATCH_H
#define HTTP_MODULES_BACKENDS_HEALTH_CHECK_MATCH_H

#include <stdbool.h>

#include "conf/conf.h"
#include "conf/regex.h"
#include "conf/template.h"
#include "http/exchange/probe/probe.h"
#include "http/routing/settings.h"

/* How the value of a field, or the body, is compared. */
enum match_how {
    MATCH_PRESENT,
    MATCH_ABSENT,
    MATCH_EQUAL,
    MATCH_UNEQUAL,
    MATCH_REGEX,
    MATCH_NO_REGEX
};

/* A line `header` or `body`. */
struct match_rule {
    enum match_how how;
    struct str name;     /* of the field; empty for the body */
    struct str value;    /* of MATCH_EQUAL and MATCH_UNEQUAL */
    struct regex *regex; /* of the other two */
};

/* Codes from first to last. */
struct match_codes {
    unsigned first, last;
};

/* A block. */
struct match {
    struct health_match block;
    bool has_status;
    bool is_status_negated; /* status ! … */
    struct vec codes;       /* struct match_codes */
    struct vec headers;     /* struct match_rule */
    struct vec bodies;      /* struct match_rule */
    struct vec required;    /* struct template *: none may be empty or "0" */
};

/* What judges an answer: judge_settings of a http_probe. */
struct match_use {
    const struct match *match;            /* NULL: a status of 200 to 399 is good */
    const struct variable_set *variables; /* of the configuration: `require` names some */
};

/* The row of the block. */
bool match_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                 void *settings);

/* The match of this name, which may come later in the file. */
struct match *match_named(struct conf *conf, const struct conf_node *node, struct str name);

/* When all is read: an error for each that was named and never came. */
bool match_check_all(struct conf *conf);

/* judge of http_probe: settings is a struct match_use. */
bool match_judge(struct health_probe *probe, struct probe_response *response, const void *settings);

/* Are the variables of `require` all there? They are asked of the answer; `set` is that of the
 * configuration. (require.c) */
bool match_required(const struct vec *required, const struct variable_set *set,
                    const struct health_probe *probe, const struct probe_response *response);

#endif
