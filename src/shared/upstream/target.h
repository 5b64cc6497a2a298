/* The target of a *_pass whose value is known only at run time. */
#ifndef SHARED_UPSTREAM_TARGET_H
#define SHARED_UPSTREAM_TARGET_H

#include "upstream/upstream.h"

/* The target, and what is needed to find its group. */
struct target_options {
    const struct upstream_subsystem *subsystem;
    struct str text;                          /* the value: a group's name, host:port, unix:/path */
    uint16_t default_port;                    /* 0: the port is mandatory */
    const struct resolver_settings *resolver; /* or NULL */
    uint64_t resolver_timeout_ms;
    struct log *log; /* its action is cleared while the name is resolved */
};

enum target_result {
    TARGET_FOUND,
    TARGET_BAD,        /* invalid; logged */
    TARGET_UNRESOLVED, /* logged */
    TARGET_CANCELLED,  /* the fiber was cancelled */
};

/* Finds a group of the running generation, or makes one for the target. MAY WAIT for the
   resolver. */
enum target_result target_find(const struct target_options *options, struct upstream_group **out);

#endif
