/* The attempts at backends of a request or session: for the variables $upstream_… of any
 * protocol. */
#ifndef SHARED_UPSTREAM_ATTEMPTS_H
#define SHARED_UPSTREAM_ATTEMPTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

/* One attempt. Times in milliseconds; UINT64_MAX = did not happen: "-". */
struct attempt {
    struct str peer;        /* name of the peer, or of the group when no peer was available */
    struct str group;       /* of the group; made at run time: the target as written */
    bool is_at_run_time;    /* the group was made at run time: a client may have chosen the peer */
    bool is_after_redirect; /* after an internal redirect: " : " is written before it */
    bool is_further;        /* of a further slice: variables have the first one's */
    unsigned status;        /* of the response; 0 = none: "-" */
    unsigned series;        /* 1 + the series of metrics that it is counted in; 0 = none */
    uint64_t began_ms;      /* start of the attempt, monotonic */
    uint64_t send_ms, sent_ms,
        first_byte_ms; /* since then: the request began to be sent, was sent; the response began */
    uint64_t connect_ms, header_ms, response_ms,
        queue_ms; /* since the attempt began: connected, head received, finished; time in the queue
                     before it */
    uint64_t bytes_sent, bytes_received,
        response_length; /* bytes on the connection; the length of the body only */
};

/* A value of an attempt for logs. */
enum attempt_part {
    PART_PEER,
    PART_STATUS,
    PART_CONNECT_TIME,
    PART_HEADER_TIME,
    PART_FIRST_BYTE_TIME,
    PART_RESPONSE_TIME, /* of a session: its duration */
    PART_QUEUE_TIME,
    PART_BYTES_SENT,
    PART_BYTES_RECEIVED,
    PART_RESPONSE_LENGTH,
    /* Tengine's */
    PART_SEND_START,
    PART_SEND_FINISH,
    PART_SEND_TIME,
    PART_RECEIVE_START,
    PART_RECEIVE_FINISH,
    PART_RECEIVE_TIME,
};

/* An attempt that begins now. */
struct attempt attempt_of(struct str peer);

/* Adds an attempt that begins now, with no other values. The name is copied, since logs are written
 * when the peer may be gone. */
struct attempt *attempts_add(struct vec *attempts, struct arena *arena, struct str peer);

/* The list in the format of a variable, in the arena: "10.0.0.1:80, 10.0.0.2:80 : unix:/run/s".
 * False: there was no attempt. */
bool attempts_text(const struct vec *attempts, enum attempt_part part, struct arena *arena,
                   struct str *out);

#endif
