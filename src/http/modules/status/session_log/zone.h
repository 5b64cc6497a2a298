/* Zones of session_log: sessions that are open, each with the line that its end writes. */
#ifndef HTTP_MODULES_STATUS_SESSION_LOG_ZONE_H
#define HTTP_MODULES_STATUS_SESSION_LOG_ZONE_H

#include "base/shm_table.h"
#include "event/loop.h"
#include "shared/log/file.h"
#include "shared/log/format.h"

#define SESSION_ID_SIZE 16 /* bytes */

/* What a session_log_zone says. */
struct session_zone {
    struct session_zone *next; /* of this reading */
    struct str name;
    uint64_t size;                   /* bytes */
    uint64_t timeout_ms;             /* after the last request the session is over */
    struct template *id, *md5;       /* NULL: not given */
    const struct log_format *format; /* NULL: the zone was named, not declared yet */
    struct log_lines *lines;
    struct shm_table *table;
    struct timer timer; /* of this worker: the session that ends first */
};

/* A line in the making: bytes at the places of `marks` are replaced by the sum when it is written.
 */
struct session_line {
    struct buf text;  /* with its newline */
    struct buf marks; /* uint32_t: offsets in text, rising */
};

/* Opens the memory. False after conf_error. */
bool session_zone_finish(struct conf *conf, struct session_zone *zone);

/*
 * Adds a request to a session. False: there is none of this id, and `line` is NULL; the caller
 * makes the line, and calls again. The line of a session that is there already is not used. Where
 * the zone is full, sessions that were idle for longest end.
 */
bool session_zone_count(struct session_zone *zone, const unsigned char id[SESSION_ID_SIZE],
                        uint64_t bytes, const struct session_line *line);

/* In a worker, before it serves: sees to sessions that are open. */
void session_zone_watch(struct session_zone *zone);
/* The worker ends; is_last: the service with it, so all sessions are over. */
void session_zone_end(struct session_zone *zone, bool is_last);

#endif
