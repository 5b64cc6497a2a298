/* Rule sets: compiled once, in the master, and used by all workers. */
#include "http/modules/access/modsecurity/rules.h"

#include <stdlib.h>
#include <string.h>

#include <modsecurity/transaction.h>

#include "base/text.h"
#include "fiber/fiber.h"

/* The C interface of libmodsecurity does not provide whether bodies of responses are checked, of
 * which types and up to which length. This is found by a test: a rule of our own precedes those of
 * the set. The test has no side effects: the engine ends a phase with the first rule that
 * denies. */
#define PROBE_STATUS 599
static const char probe_rules[] = "SecRuleEngine On\n"
                                  "SecAuditEngine Off\n"
                                  "SecDebugLogLevel 0\n"
                                  "SecResponseBodyLimitAction ProcessPartial\n"
                                  "SecAction \"id:2147483001,phase:4,deny,nolog,status:599\"\n";

ModSecurity *rules_engine(void)
{
    static ModSecurity *engine;

    if (engine == NULL) {
        engine = msc_init();
        if (engine != NULL) {
            msc_set_connector_info(engine, "Portunus");
        }
    }
    return engine;
}

static void free_rules(void *arg)
{
    msc_rules_cleanup(arg);
}

static RulesSet *new_rules(struct arena *arena)
{
    RulesSet *rules = msc_create_rules_set();

    if (rules != NULL) {
        arena_on_free(arena, free_rules, rules);
    }
    return rules;
}

static void forget_types(void *arg)
{
    struct rule_set *set = arg;

    for (unsigned i = 0; i < KNOWN_TYPES; i++) {
        free((void *) (uintptr_t) set->known_types[i].name.data);
    }
}

struct rule_set *rule_set_new(struct arena *arena)
{
    struct rule_set *set = arena_new(arena, struct rule_set);

    set->rules = rules_engine() == NULL ? NULL : new_rules(arena);
    arena_on_free(arena, forget_types, set);
    return set->rules == NULL ? NULL : set;
}

bool rule_set_add(struct rule_set *set, const char *text, const char **error)
{
    return msc_rules_add(set->rules, text, error) >= 0;
}

bool rule_set_add_file(struct rule_set *set, const char *path, const char **error)
{
    return msc_rules_add_file(set->rules, path, error) >= 0;
}

bool rule_set_merge(struct rule_set *set, const struct rule_set *outer, const char **error)
{
    return msc_rules_merge(set->rules, outer->rules, error) >= 0;
}

/* ---- tests of a rule set ---- */

bool rule_set_finish(struct rule_set *set, struct arena *arena, const char **error)
{
    set->probe = new_rules(arena);
    return set->probe != NULL && msc_rules_add(set->probe, probe_rules, error) >= 0 &&
           msc_rules_merge(set->probe, set->rules, error) >= 0;
}

/* A test for a type, and its result. */
struct type_question {
    RulesSet *probe;
    const char *type; /* NUL-terminated */
    uint64_t limit;
};

/* Do the rules of phase 4 run for this body? */
static bool reaches_rules(Transaction *transaction)
{
    ModSecurityIntervention verdict = {.status = 200};

    msc_process_response_body(transaction);
    msc_intervention(transaction, &verdict);
    free(verdict.url);
    free(verdict.log);
    return verdict.status == PROBE_STATUS;
}

static void ask_probe(void *arg)
{
    struct type_question *question = arg;
    Transaction *transaction = msc_new_transaction(rules_engine(), question->probe, NULL);
    unsigned char *bytes = calloc(1, RESPONSE_LOOKED_AT_MAX);

    if (transaction != NULL && bytes != NULL) {
        if (question->type[0] != '\0') {
            msc_add_response_header(transaction, (const unsigned char *) "Content-Type",
                                    (const unsigned char *) question->type);
        }
        msc_append_response_body(transaction, bytes, RESPONSE_LOOKED_AT_MAX);
        if (reaches_rules(transaction)) {
            question->limit = msc_get_response_body_length(transaction);
        }
    }
    free(bytes);
    if (transaction != NULL) {
        msc_transaction_cleanup(transaction);
    }
}

uint64_t rule_set_response_limit(struct rule_set *set, struct str type)
{
    for (unsigned i = 0; i < KNOWN_TYPES && set->known_types[i].name.data != NULL; i++) {
        if (str_equal(set->known_types[i].name, type)) {
            return set->known_types[i].limit;
        }
    }
    char *name = strndup(type.len == 0 ? "" : type.data, type.len);
    if (name == NULL) {
        return RESPONSE_LOOKED_AT_MAX;
    }
    struct type_question question = {.probe = set->probe, .type = name};
    struct known_type *known = &set->known_types[set->next_type];
    fiber_call_on_main(ask_probe, &question);
    set->next_type = (set->next_type + 1) % KNOWN_TYPES;
    free((void *) (uintptr_t) known->name.data);
    *known = (struct known_type){.name = {name, type.len}, .limit = question.limit};
    return question.limit;
}
