/* limit_conn: the number of requests, or sessions, of a key that may be in progress at one time. */
#ifndef SHARED_LIMIT_CONN_H
#define SHARED_LIMIT_CONN_H

#include "shared/limit/conn_sync.h"
#include "shared/limit/counts.h"
#include "shared/limit/zone.h"

/* A zone in this process. */
struct conn_zone {
    struct limit_zone limit;
    unsigned holder;        /* number of this worker, from count_join */
    struct conn_sync *sync; /* counts together with other nodes; NULL: this node only */
};

/* One `limit_conn`. */
struct conn_limit {
    struct conn_zone *zone;
    uint32_t most; /* at one time */
};

/* The zones of the module of one protocol, which is a string literal. */
#define CONN_ZONES(PROTOCOL)                                                                       \
    {                                                                                              \
        .state = PROTOCOL " limit_conn_zone", .protocol = PROTOCOL,                                \
        .directive = "limit_conn_zone", .label = "limit_conn_zone",                                \
        .size = sizeof(struct conn_zone), .record_size = COUNT_RECORD_SIZE,                        \
        .head_size = sizeof(struct count_head)                                                     \
    }

/* Each reads one directive. False after conf_error. */

/* limit_conn_zone KEY zone=NAME:SIZE [sync[=STORE]] [sync_interval=TIME]; */
bool conn_zone_read(struct conf *conf, struct conf_node *node, const struct limit_kind *kind);
/* limit_zone NAME $VARIABLE SIZE; */
bool conn_zone_read_old(struct conf *conf, struct conf_node *node, const struct limit_kind *kind);
/* limit_conn ZONE NUMBER; adds a struct conn_limit. */
bool conn_limit_read(struct conf *conf, struct conf_node *node, const struct limit_kind *kind,
                     struct vec *limits);

/* ---- for a request, or a session ---- */

/* The result for a request. */
enum conn_status { CONN_UNLIMITED, CONN_PASSED, CONN_REJECTED, CONN_REJECTED_DRY_RUN };
struct conn_outcome {
    enum conn_status status;
    struct count_share *shares; /* held until the arena is freed that they were taken for */
    unsigned count;             /* of shares: at most one for each limit */
};

/* The limits of a location. */
struct conn_rules {
    const struct vec *limits; /* struct conn_limit: all must let the request pass */
    unsigned log_level;       /* of the line about a refused request */
    bool is_dry_run;          /* refusals are only logged */
    /* Gives in *share a share of this count that an earlier request leaves to this one. NULL: there
       is never one. */
    bool (*take_over)(void *subject, struct shm_table *table, const struct shm_key *key,
                      struct count_share *share);
    void *subject; /* for take_over */
};

/* Takes the shares of a request, which are released with the arena. False: it must not pass. */
bool conn_limits_take(const struct conn_rules *rules, struct variable_env *env, struct arena *arena,
                      struct conn_outcome *outcome);
/* $limit_conn_status; outcome may be NULL. False: there is none. */
bool conn_outcome_text(const struct conn_outcome *outcome, struct str *out);

/* This worker starts, and stops, counting in all zones. */
void conn_zones_join(struct conf *conf, const struct limit_kind *kind);
void conn_zones_leave(struct conf *conf, const struct limit_kind *kind);

/* The rows of a module; S has members with these names, APPLY functions read a zone and a limit. */
#define CONN_LIMIT_ROWS(CONTEXT, S, APPLY)                                                         \
    {"limit_conn",                                                                                 \
     CONTEXT,                                                                                      \
     CUSTOM_FIELD(S, limits, APPLY),                                                               \
     ARGS(2, 2),                                                                                   \
     .repeat = REPEAT_APPEND,                                                                      \
     .syntax = "zone number",                                                                      \
     .doc = "Largest number of concurrent requests or connections for one key of this zone; "      \
            "each request of an HTTP/2 connection counts. If there are several limits, all "       \
            "of them apply."},                                                                     \
        {"limit_conn_log_level", CONTEXT, ENUM(S, log_level, limit_log_levels),                    \
         .initial = "error",                                                                       \
         .doc = "Log level of the message about a refused request or connection."},                \
    {                                                                                              \
        "limit_conn_dry_run", CONTEXT, FLAG(S, is_dry_run),                                        \
            .initial = "off",                                                                      \
            .doc =                                                                                 \
                "Enables the dry run mode: nothing is refused; the log and `$limit_conn_status` "  \
                "show what would be refused."                                                      \
    }

#endif
