/* The engine of libmodsecurity and its rule sets. */
#ifndef HTTP_MODULES_ACCESS_MODSECURITY_RULES_H
#define HTTP_MODULES_ACCESS_MODSECURITY_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include <modsecurity/modsecurity.h>
#include <modsecurity/rules_set.h>

#include "base/arena.h"
#include "base/str.h"

/* Most bytes of a response body that are held for the engine. */
#define RESPONSE_LOOKED_AT_MAX (1 << 20)

/* Media types for which the result of the test is cached. */
#define KNOWN_TYPES 16

struct known_type {
    struct str name; /* malloc'ed; data NULL = unused entry */
    uint64_t limit;  /* bytes that are checked; 0 = bodies of this type are not */
};

/* A set of rules. Made in the master, when the configuration is read; workers inherit it. */
struct rule_set {
    RulesSet *rules;                            /* freed with the arena */
    RulesSet *probe;                            /* for tests with responses; freed with the arena */
    struct known_type known_types[KNOWN_TYPES]; /* of this worker */
    unsigned next_type;                         /* the entry to replace next */
};

/* The engine of this process, made at its first use; NULL: out of memory. */
ModSecurity *rules_engine(void);

/* Makes an empty set; its memory outside the arena is freed with the arena. NULL: out of memory. */
struct rule_set *rule_set_new(struct arena *arena);

/* Add rules from a string, from a file, or from the set of an outer block. False: *error has the
 * message, which the caller frees. */
bool rule_set_add(struct rule_set *set, const char *text, const char **error);
bool rule_set_add_file(struct rule_set *set, const char *path, const char **error);
bool rule_set_merge(struct rule_set *set, const struct rule_set *outer, const char **error);

/* Completes the set, so that it can be tested with responses. False as above. */
bool rule_set_finish(struct rule_set *set, struct arena *arena, const char **error);

/* How many bytes of a body of this type (without parameters; empty = unknown) the rules check, at
 * most RESPONSE_LOOKED_AT_MAX; 0 = none. In a worker; never waits. */
uint64_t rule_set_response_limit(struct rule_set *set, struct str type);

#endif
