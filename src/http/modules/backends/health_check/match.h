/* `match` blocks: conditions for a healthy response. */
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

/* A `header` or `body` directive. */
struct match_rule {
    enum match_how how;
    struct str name;     /* name of the field; empty for the body */
    struct str value;    /* of MATCH_EQUAL and MATCH_UNEQUAL */
    struct regex *regex; /* of the two others */
};

/* Status codes from first to last. */
struct match_codes {
    unsigned first, last;
};

/* A `match` block. */
struct match {
    struct health_match block;
    bool has_status;
    bool is_status_negated; /* "status ! …" */
    struct vec codes;       /* struct match_codes */
    struct vec headers;     /* struct match_rule */
    struct vec bodies;      /* struct match_rule */
    struct vec required;    /* struct template *: none may be empty or "0" */
};

/* How a response is judged: the judge_settings of a http_probe. */
struct match_use {
    const struct match *match;            /* NULL: status codes 200 to 399 are good */
    const struct variable_set *variables; /* of the configuration: `require` uses some of them */
};

/* The apply function of the block's row. */
bool match_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                 void *settings);

/* Finds the match with this name, which may follow later in the file. */
struct match *match_named(struct conf *conf, const struct conf_node *node, struct str name);

/* Called after the configuration was read: reports each match that was used and does not exist. */
bool match_check_all(struct conf *conf);

/* The judge of a http_probe: settings is a struct match_use. */
bool match_judge(struct health_probe *probe, struct probe_response *response, const void *settings);

/* Are all variables of `require` neither empty nor "0"? They are evaluated for the response; `set`
 * is that of the configuration. (require.c) */
bool match_required(const struct vec *required, const struct variable_set *set,
                    const struct health_probe *probe, const struct probe_response *response);

#endif
