/* The engine of libmodsecurity and its sets of rules, as the configuration names them. */
#ifndef HTTP_MODULES_ACCESS_MODSECURITY_RULES_H
#define HTTP_MODULES_ACCESS_MODSECURITY_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include <modsecurity/modsecurity.h>
#include <modsecurity/rules_set.h>

#include "base/arena.h"
#include "base/str.h"

#define RESPONSE_LOOKED_AT_MAX                                                                     \
    (1 << 20) /* bytes of a response that are held for the engine, at most */

#define KNOWN_TYPES                                                                                \
    16 /* media types of which is remembered what the rules want of their bodies                   \
        */

struct known_type {
    struct str name; /* malloc'ed; data NULL = none yet */
    uint64_t limit;  /* bytes that are looked at; 0 = bodies of this type are not */
};

/* Rules that hold together. Made in the master, when the configuration is read; workers inherit
 * them. */
struct rule_set {
    RulesSet *rules;                            /* goes with the arena */
    RulesSet *probe;                            /* what is asked about responses; the same */
    struct known_type known_types[KNOWN_TYPES]; /* of this worker */
    unsigned next_type;                         /* whose place the next new one takes */
};

/* The one engine of this process, made at its first use; NULL: there is no memory. */
ModSecurity *rules_engine(void);

/* A set without rules; its memory beyond the arena goes with that. NULL: there is no memory. */
struct rule_set *rule_set_new(struct arena *arena);

/* Rules of a text, of a file; rules of an outer block. False: what is wrong stands in *error, which
 * is the caller's to free. */
bool rule_set_add(struct rule_set *set, const char *text, const char **error);
bool rule_set_add_file(struct rule_set *set, const char *path, const char **error);
bool rule_set_merge(struct rule_set *set, const struct rule_set *outer, const char **error);

/* The set is whole: it can be asked about responses. False as above. */
bool rule_set_finish(struct rule_set *set, struct arena *arena, const char **error);

/*
 * How many bytes of a body of this type (without parameters; empty = not known) the rules look at,
 * at most RESPONSE_LOOKED_AT_MAX; 0 = at none. In a worker; never waits.
 */
uint64_t rule_set_response_limit(struct rule_set *set, struct str type);

#endif
