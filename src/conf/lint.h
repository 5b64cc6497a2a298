/* `nginx -t --lint`: common mistakes in a valid configuration. */
#ifndef CONF_LINT_H
#define CONF_LINT_H

#include <stdbool.h>

#include "base/buf.h"
#include "conf/conf.h"

struct lint;

/* One rule. Tables of rules end with a NULL name. */
struct lint_rule {
    const char *name;      /* "alias-slash" */
    const char *directive; /* checked are its nodes; NULL = all, including the main block */
    void (*check)(struct lint *lint, const struct conf_node *node);
    const char *change; /* what to write instead */
};

/* A run. */
struct lint {
    struct conf *conf;
    struct buf *out;
    struct str off;               /* rules that are switched off: "-RULE,-RULE", from --lint=… */
    const struct lint_rule *rule; /* the rule that is checking */
    unsigned count;               /* findings so far */
};

/*
 * Checks a tree that was applied without errors, in the order of the file; each finding is a line
 * "FILE:LINE: [RULE] REASON; CHANGE". A rule is off for a directive that has the comment "# lint:
 * -RULE" on one of its lines; for a block, on the lines up to the "{". Gives the number of
 * findings.
 */
unsigned lint_run(struct lint *lint, const struct lint_rule *const *tables);

/* Is the value of --lint= valid? If not, *error has the reason and the names of the rules. */
bool lint_options_check(struct str off, const struct lint_rule *const *tables, struct buf *error);

/* Reports a finding of the rule that is checking. */
void lint_report(struct lint *lint, const struct conf_node *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The next directive with this name in a block, after `last` or from the start (NULL); or NULL. */
const struct conf_node *lint_next(const struct conf_node *block, const struct conf_node *last,
                                  const char *name);
/* The same for the innermost block around a node that has such a directive; *of is that block.
 * NULL: there is none. */
const struct conf_node *lint_inherited(const struct conf_node *block, const char *name,
                                       const struct conf_node **of);

/* Takes the next variable of a text with $names: gives its name. False: there are no more. */
bool lint_variable(struct str *rest, struct str *name);

/* Does the node have this argument (after the name)? */
bool lint_has_arg(const struct conf_node *node, const char *word);

#endif
