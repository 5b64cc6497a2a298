/* What was asked of which backend, one entry for each attempt: for the variables $upstream_… of any
 * protocol. */
#ifndef SHARED_UPSTREAM_ATTEMPTS_H
#define SHARED_UPSTREAM_ATTEMPTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

/* One try. Times in milliseconds; UINT64_MAX = did not happen: "-". */
struct attempt {
    struct str peer;  /* name of the peer, or of the group when none was live */
    struct str group; /* name of the group; of one made at run time, the target as it was written */
    bool is_at_run_time;    /* it is one of those: a client may have chosen the peer */
    bool is_after_redirect; /* first one after an internal redirect: " : " before it */
    unsigned status;        /* of the answer; 0 = none: "-" */
    unsigned series;        /* that it is counted in, of metrics, and 1; 0 = it is not */
    uint64_t began_ms;      /* the attempt, monotonic */
    uint64_t send_ms, sent_ms,
        first_byte_ms; /* since then: its request began to leave, had left; an answer came */
    uint64_t connect_ms, header_ms, response_ms,
        queue_ms; /* since the attempt began: connected, head read, all over; waited before it */
    uint64_t bytes_sent, bytes_received, response_length; /* on the connection; of the body alone */
};

/* What is logged of an attempt. */
enum attempt_part {
    PART_PEER,
    PART_STATUS,
    PART_CONNECT_TIME,
    PART_HEADER_TIME,
    PART_FIRST_BYTE_TIME,
    PART_RESPONSE_TIME, /* of a session: how long it was */
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

/* One more try, which begins now; nothing has happened in it. The name is copied: logs come after
 * the peer is gone. */
struct attempt *attempts_add(struct vec *attempts, struct arena *arena, struct str peer);

/* The list as a variable tells it, in the arena: "10.0.0.1:80, 10.0.0.2:80 : unix:/run/s". False:
 * there was no attempt. */
bool attempts_text(const struct vec *attempts, enum attempt_part part, struct arena *arena,
                   struct str *out);

#endif
