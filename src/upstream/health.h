/* Active health checks: who probes a peer when, and what the results mean. How a probe speaks is
 * handed down by the protocols' layer. Implemented in health/health.c, health/health_settings.c,
 * health/health_talk.c and health/health_worker.c. */
#ifndef UPSTREAM_HEALTH_H
#define UPSTREAM_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

#include "upstream/peer.h"

struct conn;
struct health_settings;

/* One probe of a peer on a fresh or kept connection that is up. */
struct health_probe {
    const struct health_settings *settings;
    const struct upstream_group *group;
    const struct peer *peer;
    struct conn *conn;
    uint64_t deadline_ms;
    const struct log *log;
    struct arena *arena; /* of this probe */
    bool may_keep;       /* another probe may use the connection: ask the backend to keep it */
    bool keeps_conn;     /* out: the connection may serve the next probe */
    const char *reason;  /* out, for the log: what was wrong, as "status code 500" */
    int error;           /* out: errno after the reason, or 0 */
};

/* A check of a group and the peer that it is made of. */
struct health_subject {
    const struct upstream_group *group;
    const struct health_settings *settings;
    unsigned index; /* place of the check in group->health */
    const struct peer *peer;
};

/* A check that several nodes make together: of each peer one of them makes the probes. Handed down
 * by src/shared/upstream. */
enum health_turn {
    HEALTH_TURN_OURS,
    HEALTH_TURN_OTHERS,
    HEALTH_TURN_UNKNOWN /* nodes cannot agree: each makes the probe, for itself */
};
struct health_sharing {
    /* Whose turn is the probe that is due? *leads_until_ms: if it is ours, so are those until then.
     * MAY WAIT. */
    enum health_turn (*turn)(const struct health_subject *subject, uint64_t *leads_until_ms);
    /* It was ours, its result counts, and the next one is planned. */
    void (*probed)(const struct health_subject *subject);
};

/* How often, and when a peer changes sides. Both spellings fill it: `health_check` and `check`. */
struct health_settings {
    struct health_settings *next; /* one more check of the group, or NULL; see health_add */
    struct str name;              /* of the match block, for the log; or empty */
    uint64_t interval_ms;
    uint64_t jitter_ms;      /* at random, added to each interval */
    uint64_t timeout_ms;     /* of one probe, connect included */
    unsigned fails, passes;  /* in a row, to become unhealthy and healthy again */
    bool is_down_at_first;   /* not served before the first good answers */
    uint64_t first_delay_ms; /* before the first probe */
    bool is_persistent; /* the state of the former generation of the configuration replaces that */
    bool is_unique;     /* the same address in several groups is probed once for all of them */
    bool is_datagram;   /* over UDP; then the connection is no sign of health */
    uint16_t port;      /* 0 = the peer's own */
    int64_t keepalive_requests; /* probes on one connection; 0 = no limit */
    uint64_t keepalive_time_ms; /* a probing connection's life; 0 = a fresh one each time */
    struct str type;            /* "tcp", "http", "fastcgi" …, for status pages */
    const struct upstream_connection_tls *tls; /* how connections speak TLS; NULL = they do not */
    /* Speaks on probe->conn; true = healthy. MAY WAIT until the deadline. NULL: that it connects is
     * enough. */
    bool (*speak)(struct health_probe *probe);
    const void *speak_settings;           /* of speak: what is sent, what is expected */
    const struct health_sharing *sharing; /* NULL: this node makes all probes */
    struct log_sink *const
        *error_log; /* of the block that wants the check; NULL: that of the set */
    struct log log; /* of its lines; in a running worker */
};

/* ---- when the configuration is read ---- */

/* Adds a check to the group: a peer is served while none of them says that it is unhealthy. False
 * after conf_error: there are PEER_CHECKS_MAX already. */
bool health_add(struct conf *conf, const struct conf_node *node, struct upstream_group *group,
                struct health_settings *settings);

/* The defaults of `health_check`, and its words in any protocol: interval=, jitter=, fails=,
 * passes=, port=, mandatory, persistent. False: the word is not one of them (*is_known says so), or
 * its value is wrong. */
void health_settings_init(struct health_settings *settings);
bool health_word_read(struct health_settings *settings, struct str word, bool *is_known);
/* Do the words go together? False after conf_error. */
bool health_words_check(struct conf *conf, const struct conf_node *node,
                        const struct health_settings *settings);

/* A `match` block: first member of a protocol's own. It may be named before it is read: then node
 * is NULL until then. */
struct health_match {
    struct str name;
    const struct conf_node *node;    /* the block, or NULL */
    const struct conf_node *used_by; /* the first line that names it, or NULL */
};

/* The blocks of one protocol. */
struct health_match_kind {
    const char *state; /* what they are kept under while the configuration is read */
    size_t size;       /* of the protocol's own struct */
    /* One line of a block. False after conf_error. */
    bool (*read_line)(struct conf *conf, const struct conf_node *line, struct health_match *match);
};

/* The match of this name, which may come later in the file. */
struct health_match *health_match_named(struct conf *conf, const struct health_match_kind *kind,
                                        const struct conf_node *node, struct str name);
/* Reads a block; for the apply of its row. False after conf_error. */
bool health_match_apply(struct conf *conf, const struct health_match_kind *kind,
                        struct conf_node *node);
/* When all is read: an error for each that was named and never came. */
bool health_match_check_all(struct conf *conf, const struct health_match_kind *kind);

/* ---- for speak ---- */

/* The peer is not healthy, since … ; always false. */
bool health_fail(struct health_probe *probe, const char *reason, int error);

/* Sends bytes. False: probe->reason and error tell. */
bool health_send(struct health_probe *probe, struct str bytes);

/* Waits for more input, which is in conn_input then, up to max bytes of it; *is_end when the peer
 * has sent its last byte instead. MAY WAIT. False: no more in time, or broken; reason tells. */
bool health_receive(struct health_probe *probe, size_t max, bool *is_end);

/* ---- in a worker ---- */

/*
 * In each worker: a fiber that starts probes when they are due, each a fiber of its own. One worker
 * makes each probe: the worker that first moves peer_check.next_ms forward. One that dies in the
 * middle is followed by another when that time has come. False: no memory, no stack.
 */
bool health_worker_start(struct upstream_set *set);

/* Ends them: probes under way are broken off and count for nothing. Everything is given back by
 * fibers that run in the next turn of the loop. */
void health_worker_quit(struct upstream_set *set);

/* From the time that a probe is due until another node, or worker, takes it for lost. */
uint64_t health_lost_after_ms(const struct health_settings *settings);

/*
 * Another node has probed the peer: that is its state now, and it is probed here only after
 * wait_ms, if no more comes. Where this node makes the probes, the result is an old one, and does
 * not count.
 */
void health_learn(const struct health_subject *subject, bool is_healthy, uint64_t wait_ms);

/* Walks groups with checks, for status pages. */
void health_each_peer(const struct upstream_set *set,
                      void (*visit)(const struct upstream_group *group, const struct peer *peer,
                                    void *arg),
                      void *arg);

#endif
