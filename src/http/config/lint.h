/* Rules of `nginx -t --lint` about HTTP, and TLS wherever it is. Implemented in lint_access.c and
 * lint_regex.c. */
#ifndef HTTP_CONFIG_LINT_H
#define HTTP_CONFIG_LINT_H

#include <stdbool.h>

#include "base/str.h"
#include "conf/lint.h"

extern const struct lint_rule http_lint_rules[];

/*
 * Can the regular expression take a time that grows faster than any power of the subject's length,
 * or a high power of it? True for a group that is repeated without a bound and can match the same
 * text in several ways, as far as that can be seen in its form.
 */
bool lint_is_slow_regex(struct str pattern);

/* ---- for the files of these rules ---- */

bool lint_is_named(const struct conf_node *node, const char *name);
/* The block of this name that the directive is in, however deep; NULL: it is in none. */
const struct conf_node *lint_inside(const struct conf_node *node, const char *block);
/* Is the answer of its `return` an error of the client's (4xx)? */
bool lint_returns_refusal(const struct conf_node *block);

/* Rules of lint_access.c. */
void lint_status(struct lint *lint, const struct conf_node *node);
void lint_real_ip(struct lint *lint, const struct conf_node *node);
void lint_default(struct lint *lint, const struct conf_node *node);
void lint_allow(struct lint *lint, const struct conf_node *node);
void lint_return(struct lint *lint, const struct conf_node *node);

#endif
