/* `nginx -t --lint`: traps in a configuration that is valid. */
#ifndef CONF_LINT_H
#define CONF_LINT_H

#include <stdbool.h>

#include "base/buf.h"
#include "conf/conf.h"

struct lint;

/* One trap. Tables of them end with a NULL name. */
struct lint_rule {
    const char *name;      /* "alias-slash" */
    const char *directive; /* whose nodes are checked; NULL = of all, the main block included */
    void (*check)(struct lint *lint, const struct conf_node *node);
    const char *change; /* what to write instead */
};

/* A run. */
struct lint {
    struct conf *conf;
    struct buf *out;
    struct str off;               /* rules that are off: "-RULE,-RULE", as --lint=… has them */
    const struct lint_rule *rule; /* that checks now */
    unsigned count;               /* findings so far */
};

/*
 * Checks a tree that was applied without an error, in the order of the file; each finding is a line
 * "FILE:LINE: [RULE] REASON; CHANGE". A rule is off in a directive that has the comment "# lint:
 * -RULE" on one of its lines, of a block up to the "{". Gives the number of findings.
 */
unsigned lint_run(struct lint *lint, const struct lint_rule *const *tables);

/* Is the value of --lint= good? If not, *error has the reason and the names of the rules. */
bool lint_options_check(struct str off, const struct lint_rule *const *tables, struct buf *error);

/* A finding of the rule that checks now. */
void lint_report(struct lint *lint, const struct conf_node *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The next directive of this name in a block, after `last` or from the beginning (NULL); or NULL.
 */
const struct conf_node *lint_next(const struct conf_node *block, const struct conf_node *last,
                                  const char *name);
/* The same of the nearest block around a node that has such a directive; *block is that block.
 * NULL: none has. */
const struct conf_node *lint_inherited(const struct conf_node *block, const char *name,
                                       const struct conf_node **of);

/* The next variable in a text with $names: its name. False: there are no more. */
bool lint_variable(struct str *rest, struct str *name);

/* Has the node this argument, from the first after the name? */
bool lint_has_arg(const struct conf_node *node, const char *word);

#endif
