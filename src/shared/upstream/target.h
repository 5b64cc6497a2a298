/* The target of a *_pass whose name is known at run time only. */
#ifndef SHARED_UPSTREAM_TARGET_H
#define SHARED_UPSTREAM_TARGET_H

#include "upstream/upstream.h"

/* What is looked for, and with which means. */
struct target_options {
    const struct upstream_subsystem *subsystem;
    struct str text;       /* as it was evaluated: a group's name, host:port, unix:/path */
    uint16_t default_port; /* 0: a port must be there */
    const struct resolver_settings *resolver; /* or NULL */
    uint64_t resolver_timeout_ms;
    struct log *log; /* its action is taken away while the name is looked up */
};

enum target_result {
    TARGET_FOUND,
    TARGET_BAD,        /* it is none; logged */
    TARGET_UNRESOLVED, /* logged */
    TARGET_CANCELLED,  /* the fiber was cancelled */
};

/* Among the groups of the running generation, else one made for it. MAY WAIT for the resolver. */
enum target_result target_find(const struct target_options *options, struct upstream_group **out);

#endif
