/* Rules of `nginx -t --lint` about HTTP, and TLS wherever it is. Implemented in lint_regex.c. */
#ifndef HTTP_CONFIG_LINT_H
#define HTTP_CONFIG_LINT_H

#include <stdbool.h>

#include "base/str.h"
#include "conf/lint.h"

extern const struct lint_rule http_lint_rules[];

/*
 * Can the regular expression take a time that grows faster than any power of the subject's length, or a high power of it? True for
 * a group that is repeated without a bound and can match the same text in several ways, as far as that can be seen in its form.
 */
bool lint_is_slow_regex(struct str pattern);

#endif
