/* Zones of session_log: open sessions, each with the line that will be written at its end. */
#ifndef HTTP_MODULES_STATUS_SESSION_LOG_ZONE_H
#define HTTP_MODULES_STATUS_SESSION_LOG_ZONE_H

#include "base/shm_table.h"
#include "event/loop.h"
#include "shared/log/file.h"
#include "shared/log/format.h"

#define SESSION_ID_SIZE 16 /* bytes */

/* A session_log_zone. */
struct session_zone {
    struct session_zone *next; /* of this configuration */
    struct str name;
    uint64_t size;                   /* bytes */
    uint64_t timeout_ms;             /* idle time after which a session ends */
    struct template *id, *md5;       /* NULL: not set */
    const struct log_format *format; /* NULL: the zone was referenced, but not declared yet */
    struct log_lines *lines;
    struct shm_table *table;
    struct timer timer; /* per worker: for the next session that times out */
};

/* A line with marks: the bytes at the offsets in `marks` are replaced by the total when it is
 * written. */
struct session_line {
    struct buf text;  /* with its newline */
    struct buf marks; /* uint32_t: offsets in text, ascending */
};

/* Initializes the memory. False after conf_error. */
bool session_zone_finish(struct conf *conf, struct session_zone *zone);

/* Counts a request for a session. False: the session does not exist, and `line` is NULL; the caller
 * makes the line, and calls again. The line is ignored if the session exists. If the zone is full,
 * the sessions that were idle for longest end. */
bool session_zone_count(struct session_zone *zone, const unsigned char id[SESSION_ID_SIZE],
                        uint64_t bytes, const struct session_line *line);

/* Called in a worker before it serves: starts the timer for open sessions. */
void session_zone_watch(struct session_zone *zone);
/* Called when the worker ends; is_last: the service ends as well, so all sessions are ended. */
void session_zone_end(struct session_zone *zone, bool is_last);

#endif
