/* Regular expressions: PCRE2, compiled when the configuration is read, matched on a slice.
 * Implemented in regex.c and regex_set.c. */
#ifndef CONF_REGEX_H
#define CONF_REGEX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"
#include "conf/conf.h"
#include "conf/template.h"

struct regex;

/*
 * Compiles; freed with conf->arena. NULL after conf_error `pcre2_compile() failed: TEXT in "RE" at
 * "REST"`. Named captures become variables of conf_variables(conf) when define_names is set.
 */
struct regex *regex_compile(struct conf *conf, const struct conf_node *node, struct str pattern,
                            bool is_nocase, bool define_names);
unsigned regex_capture_count(const struct regex *regex); /* groups, without $0 */
struct str regex_pattern(const struct regex *regex);

/* pcre_jit on|off: whether patterns that are compiled from now on use JIT. */
void regex_use_jit(bool on);

/*
 * Matches. Unless env is NULL, sets its captures and the named variables (in env->arena; the
 * subject must live as long). An error of PCRE2 (limits) is logged and counts as no match. The work
 * is bounded by a match limit.
 */
bool regex_match(const struct regex *regex, struct str subject, struct variable_env *env,
                 const struct log *log);

/* A group of a pattern that was compiled at run time, and what it matched. */
struct regex_group {
    struct str name;  /* of a named group; otherwise empty */
    struct str value; /* a slice of the subject; empty when the group did not take part */
};

enum regex_result { REGEX_NO_MATCH, REGEX_MATCH, REGEX_INVALID };

/*
 * One match of a pattern that is known only while a request is served (ssi): compiles, matches,
 * frees, on the worker's own stack. groups gets the groups of a match by number, $0 first, in the
 * arena. REGEX_INVALID for an invalid pattern, which is logged. Bounded like regex_match; never
 * waits.
 */
enum regex_result regex_match_once(struct arena *arena, struct str pattern, struct str subject,
                                   const struct log *log, struct vec *groups);

/*
 * A list of expressions in order of preference. regex_set_first gives the index of the first that
 * matches, or -1. With vectorscan, one scan finds the candidates and PCRE2 confirms; without it, a
 * filter by literal strings finds them.
 */
struct regex_set;
struct regex_set *regex_set_new(struct conf *conf, struct regex *const *items, unsigned count);
int regex_set_first(const struct regex_set *set, struct str subject, struct variable_env *env,
                    const struct log *log);

#endif
