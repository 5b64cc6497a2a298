/* Rules of `nginx -t --lint` for HTTP, and for TLS anywhere. Implemented in lint.c, lint_access.c
 * and lint_regex.c. */
#ifndef HTTP_CONFIG_LINT_H
#define HTTP_CONFIG_LINT_H

#include <stdbool.h>

#include "base/str.h"
#include "conf/lint.h"

extern const struct lint_rule http_lint_rules[];

/* Can matching take time that is exponential in the subject's length, or a high power of it? True
 * for a group that is repeated without an upper bound and can match the same text in several ways,
 * as far as the pattern shows it. */
bool lint_is_slow_regex(struct str pattern);

/* ---- for the files of these rules ---- */

bool lint_is_named(const struct conf_node *node, const char *name);
/* The enclosing block with this name, at any depth; NULL: there is none. */
const struct conf_node *lint_inside(const struct conf_node *node, const char *block);
/* Does its `return` respond with a client error (4xx)? */
bool lint_returns_refusal(const struct conf_node *block);

/* Rules of lint_access.c. */
void lint_status(struct lint *lint, const struct conf_node *node);
void lint_real_ip(struct lint *lint, const struct conf_node *node);
void lint_default(struct lint *lint, const struct conf_node *node);
void lint_allow(struct lint *lint, const struct conf_node *node);
void lint_return(struct lint *lint, const struct conf_node *node);

#endif
