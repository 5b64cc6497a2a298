/* Where our rows differ from the facts, each with its reason. Read by test_directives.c alone. */
#ifndef TESTS_REFERENCE_DEVIATIONS_H
#define TESTS_REFERENCE_DEVIATIONS_H

/* What differs; MISSING: we have no such row, EXTRA: the facts know none in this module. */
enum aspect { CONTEXTS, KIND, ARGUMENTS, DEFAULT, MISSING, EXTRA };

struct deviation {
    const char *module; /* ours */
    const char *name;
    enum aspect aspect;
    const char *ours;   /* what our row says; empty for MISSING and EXTRA */
    const char *reason;
};

static const struct deviation deviations[] = {
    {"none", "none", EXTRA, "", "none"},
};

#endif
