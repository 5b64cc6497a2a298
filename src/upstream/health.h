/* Active health checks: which worker probes a peer and when, and the effect of results. The layer
 * of the protocols provides the probes themselves. Implemented in health/health.c,
 * health/health_settings.c, health/health_talk.c and health/health_worker.c. */
#ifndef UPSTREAM_HEALTH_H
#define UPSTREAM_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

#include "upstream/peer.h"

struct conn;
struct health_settings;

/* One probe of a peer, on a connected connection, new or kept. */
struct health_probe {
    const struct health_settings *settings;
    const struct upstream_group *group;
    const struct peer *peer;
    struct conn *conn;
    uint64_t deadline_ms;
    const struct log *log;
    struct arena *arena; /* for this probe */
    bool may_keep;       /* another probe may use the connection: ask the backend to keep it */
    bool keeps_conn;     /* out: the connection can be used for the next probe */
    const char *reason;  /* out, for the log: the failed step, as "status code 500" */
    int error;           /* out: errno, logged after the reason, or 0 */
};

/* A check of a group, and the peer that it probes. */
struct health_subject {
    const struct upstream_group *group;
    const struct health_settings *settings;
    unsigned index; /* position of the check in group->health */
    const struct peer *peer;
};

/* A check that several nodes share: for each peer, one of them makes the probes. Set by
 * src/shared/upstream. */
enum health_turn {
    HEALTH_TURN_OURS,
    HEALTH_TURN_OTHERS,
    HEALTH_TURN_UNKNOWN /* the nodes cannot agree: each makes the probe on its own */
};
struct health_sharing {
    /* Which node makes the probe that is due? If it is this one, so it is for probes until
     * *leads_until_ms. MAY WAIT. */
    enum health_turn (*turn)(const struct health_subject *subject, uint64_t *leads_until_ms);
    /* This node has made the probe, its result counts, and the next probe is planned. */
    void (*probed)(const struct health_subject *subject);
};

/* The settings of a check. Set by `health_check` and by `check`. */
struct health_settings {
    struct health_settings *next; /* the next check of the group, or NULL; see health_add */
    struct str name;              /* of the match block, for the log; or empty */
    uint64_t interval_ms;
    uint64_t jitter_ms;      /* random, added to each interval */
    uint64_t timeout_ms;     /* of one probe, including the connect */
    unsigned fails, passes;  /* consecutive results that make a peer unhealthy, and healthy again */
    bool is_down_at_first;   /* not used before the first successful probes */
    uint64_t first_delay_ms; /* before the first probe */
    /* The peer's state in the previous generation has priority over is_down_at_first. */
    bool is_persistent;
    bool is_unique;   /* the same address in several groups is probed once for all of them */
    bool is_datagram; /* over UDP; connecting proves nothing then */
    uint16_t port;    /* 0 = the peer's port */
    int64_t keepalive_requests; /* probes on one connection; 0 = no limit */
    uint64_t keepalive_time_ms; /* lifetime of a probe's connection; 0 = a new one for each probe */
    struct str type;            /* "tcp", "http", "fastcgi" …, for status pages */
    const struct upstream_connection_tls *tls; /* TLS of connections; NULL = plain */
    /* Runs the protocol on probe->conn; true = healthy. MAY WAIT until the deadline. NULL:
     * connecting is sufficient. */
    bool (*speak)(struct health_probe *probe);
    const void *speak_settings;           /* for speak: what is sent and expected */
    const struct health_sharing *sharing; /* NULL: this node makes all probes */
    struct log_sink *const *error_log;    /* of the check's block; NULL: that of the set */
    struct log log;                       /* for its messages; set in a running worker */
};

/* ---- while the configuration is read ---- */

/* Adds a check to the group: a peer is used while none of its checks reports it as unhealthy. False
 * after conf_error: there are PEER_CHECKS_MAX already. */
bool health_add(struct conf *conf, const struct conf_node *node, struct upstream_group *group,
                struct health_settings *settings);

/* The defaults of `health_check`, and its parameters for all protocols: interval=, jitter=, fails=,
 * passes=, port=, mandatory, persistent. False: an unknown parameter (*is_known is false), or an
 * invalid value. */
void health_settings_init(struct health_settings *settings);
bool health_word_read(struct health_settings *settings, struct str word, bool *is_known);
/* Checks the combination of parameters. False after conf_error. */
bool health_words_check(struct conf *conf, const struct conf_node *node,
                        const struct health_settings *settings);

/* A `match` block: first member of a protocol's own struct. It may be referenced before it is read;
 * node is NULL until then. */
struct health_match {
    struct str name;
    const struct conf_node *node;    /* the block, or NULL */
    const struct conf_node *used_by; /* the first line that references it, or NULL */
};

/* The `match` blocks of one protocol. */
struct health_match_kind {
    const char *state; /* key of their table while the configuration is read */
    size_t size;       /* of the protocol's own struct */
    /* Reads one line of a block. False after conf_error. */
    bool (*read_line)(struct conf *conf, const struct conf_node *line, struct health_match *match);
};

/* The match of this name, which may follow later in the file. */
struct health_match *health_match_named(struct conf *conf, const struct health_match_kind *kind,
                                        const struct conf_node *node, struct str name);
/* Reads a block; called by the apply function of its row. False after conf_error. */
bool health_match_apply(struct conf *conf, const struct health_match_kind *kind,
                        struct conf_node *node);
/* After the whole configuration was read: reports blocks that were referenced and not defined. */
bool health_match_check_all(struct conf *conf, const struct health_match_kind *kind);

/* ---- for speak ---- */

/* Sets the reason of a failed probe; always false. */
bool health_fail(struct health_probe *probe, const char *reason, int error);

/* Sends bytes. False: probe->reason and error are set. */
bool health_send(struct health_probe *probe, struct str bytes);

/* Waits for more input, in conn_input, which has at most max bytes; *is_end: the peer has closed
 * instead. MAY WAIT. False: timed out or broken; probe->reason is set. */
bool health_receive(struct health_probe *probe, size_t max, bool *is_end);

/* ---- in a worker ---- */

/*
 * In each worker: starts a fiber that starts probes when they are due, each on a fiber of its own.
 * The worker that first moves peer_check.next_ms forward makes the probe; if it dies, another
 * worker makes the next one at that time. False: no memory, or no stack.
 */
bool health_worker_start(struct upstream_set *set);

/* Ends the checks: running probes are cancelled and do not count. All memory is freed by fibers
 * that run in the next turn of the loop. */
void health_worker_quit(struct upstream_set *set);

/* Time after which a due probe is assumed lost by other nodes and workers. */
uint64_t health_lost_after_ms(const struct health_settings *settings);

/*
 * Another node has probed the peer: sets its state, and probes it here only after wait_ms without a
 * further result. Ignored if this node makes the probes, since the result is outdated then.
 */
void health_learn(const struct health_subject *subject, bool is_healthy, uint64_t wait_ms);

/* Visits the peers of groups with checks, for status pages. */
void health_each_peer(const struct upstream_set *set,
                      void (*visit)(const struct upstream_group *group, const struct peer *peer,
                                    void *arg),
                      void *arg);

#endif
