/* Zones of session_log: see zone.h. */
#include "http/modules/status/session_log/zone.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/parse.h"
#include "server/generation.h"

#define RECORD_SIZE 512
#define NUMBER_SIZE 20   /* digits of a uint64_t */
#define LINES_AT_ONCE 64 /* sessions that are ended while the lock is held */

/* The first record of a session has its id as key. Its line continues in records without a key:
 * `spare` is the number of the next one. */
struct session_record {
    struct shm_record record;
    uint64_t last_ms; /* time of the last request */
    uint64_t bytes;   /* total of all bodies */
    uint32_t length;  /* length of the line; 0: a process died while writing it */
    uint32_t pad;
};

#define FIRST_SIZE (RECORD_SIZE - sizeof(struct session_record))
#define NEXT_SIZE (RECORD_SIZE - sizeof(struct shm_record))

static const char zone_user; /* its address identifies the owner of the zone */

bool session_zone_finish(struct conf *conf, struct session_zone *zone)
{
    struct zone *memory =
        generation_zone(conf->generation, NULL, zone->name, (size_t) zone->size, &zone_user);

    if (memory == NULL) {
        return false;
    }
    zone->table = shm_table_of(memory, RECORD_SIZE, 0);
    return zone->table != NULL ||
           conf_error(conf, NULL, "zone \"%.*s\" is too small", STR_ARG(zone->name));
}

/* ---- chains of records ---- */

static struct shm_record *next_of(const struct session_zone *zone, const struct shm_record *record)
{
    struct shm_record *next = record->spare < shm_table_count(zone->table)
                                  ? shm_table_at(zone->table, record->spare)
                                  : NULL;

    return next != NULL && next->kind == SHM_PLAIN ? next : NULL;
}

static void drop_session(struct session_zone *zone, struct session_record *session)
{
    struct shm_record *record = &session->record;

    while (record != NULL) {
        struct shm_record *next = next_of(zone, record);

        shm_table_drop(zone->table, record);
        record = next;
    }
}

/* Repairs the table after a process died while holding the lock: sessions with complete lines stay,
 * records that belong to no session are freed. */
static void repair(struct session_zone *zone)
{
    uint32_t count = shm_table_count(zone->table);
    bool *is_used = calloc(count, sizeof(*is_used));

    for (uint32_t i = 0; is_used != NULL && i < count; i++) {
        struct session_record *session = shm_table_at(zone->table, i);
        struct shm_record *record = &session->record;

        if (record->kind == SHM_KEYED && session->length == 0) {
            shm_table_drop(zone->table, session);
        } else if (record->kind == SHM_KEYED) {
            while ((record = next_of(zone, record)) != NULL && !is_used[record->number]) {
                is_used[record->number] = true;
            }
        }
    }
    for (uint32_t i = 0; is_used != NULL && i < count; i++) {
        struct shm_record *record = shm_table_at(zone->table, i);

        if (record->kind == SHM_PLAIN && !is_used[i]) {
            shm_table_drop(zone->table, record);
        }
    }
    free(is_used);
}

static void zone_lock(struct session_zone *zone)
{
    if (shm_table_lock(zone->table)) {
        repair(zone);
    }
}

/* ---- lines ---- */

static void put_bytes(struct buf *out, struct str part, uint64_t bytes)
{
    char number[NUMBER_SIZE];
    struct str digits = {number, (size_t) (format_uint(number, bytes) - number)};

    while (part.len != 0) {
        const char *mark = str_find_char(part, '\0');
        size_t length = mark == NULL ? part.len : (size_t) (mark - part.data);

        buf_append(out, str_head(part, length));
        part = str_skip(part, length);
        if (mark != NULL) {
            buf_append(out, digits);
            part = str_skip(part, 1);
        }
    }
}

/* Writes the line of a session that has ended, and removes it. */
static void end_session(struct session_zone *zone, struct session_record *session)
{
    struct buf *out = &zone->lines->pending;
    size_t start = out->len;
    size_t left = session->length;
    size_t part = left < FIRST_SIZE ? left : FIRST_SIZE;

    put_bytes(out, (struct str){(const char *) (session + 1), part}, session->bytes);
    left -= part;
    for (const struct shm_record *record = next_of(zone, &session->record);
         record != NULL && left != 0; record = next_of(zone, record)) {
        part = left < NEXT_SIZE ? left : NEXT_SIZE;
        put_bytes(out, (struct str){(const char *) (record + 1), part}, session->bytes);
        left -= part;
    }
    drop_session(zone, session);
    if (out->len != start && out->data[out->len - 1] != '\n') {
        buf_append_char(out, '\n');
    }
}

/* Ends sessions that have timed out, or all. Returns the time of the next timeout; NO_DEADLINE:
 * there is none. */
static uint64_t end_some(struct session_zone *zone, bool are_all_over)
{
    size_t start = zone->lines->pending.len;
    uint64_t next_ms = NO_DEADLINE;
    struct session_record *session;

    zone_lock(zone);
    for (unsigned i = 0; (session = shm_table_oldest(zone->table)) != NULL; i++) {
        next_ms = session->last_ms + zone->timeout_ms;
        if (i == LINES_AT_ONCE || (!are_all_over && next_ms > clock_now.now_ms)) {
            break;
        }
        end_session(zone, session);
        next_ms = NO_DEADLINE;
    }
    shm_table_unlock(zone->table);
    if (zone->lines->pending.len != start) {
        log_lines_added(zone->lines, start);
    }
    return next_ms;
}

static void session_timer_fired(struct timer *timer)
{
    struct session_zone *zone = container_of(timer, struct session_zone, timer);
    uint64_t next_ms = end_some(zone, false);

    if (next_ms != NO_DEADLINE) {
        timer_set(timer, next_ms);
    }
}

void session_zone_watch(struct session_zone *zone)
{
    timer_init(&zone->timer, session_timer_fired);
    session_timer_fired(&zone->timer);
}

void session_zone_end(struct session_zone *zone, bool is_last)
{
    while (is_last && end_some(zone, true) != NO_DEADLINE) {
    }
    if (zone->timer.fire != NULL) {
        timer_remove(&zone->timer);
    }
}

/* ---- counting ---- */

/* Takes a record for a part of a line, or for a session (key): if the zone is full, the sessions
 * that were idle for longest end. NULL: no session is left. */
static void *take_record(struct session_zone *zone, const struct shm_key *key)
{
    struct session_record *oldest;
    void *record;

    while ((record = key != NULL ? shm_table_add(zone->table, key) : shm_table_take(zone->table)) ==
               NULL &&
           (oldest = shm_table_oldest(zone->table)) != NULL) {
        counters_mine->limited++;
        end_session(zone, oldest);
    }
    return record;
}

static void drop_rest(struct session_zone *zone, uint32_t first)
{
    while (first != SHM_NO_RECORD) {
        struct shm_record *record = shm_table_at(zone->table, first);

        first = record->spare;
        shm_table_drop(zone->table, record);
    }
}

/* Stores the remainder of a line in records without a key. False: not enough space; *first becomes
 * the number of the first one. */
static bool keep_rest(struct session_zone *zone, struct str rest, uint32_t *first)
{
    struct shm_record *last = NULL;

    *first = SHM_NO_RECORD;
    while (rest.len != 0) {
        struct shm_record *record = take_record(zone, NULL);

        if (record == NULL) {
            drop_rest(zone, *first);
            return false;
        }
        str_put((char *) (record + 1), str_head(rest, NEXT_SIZE));
        record->spare = SHM_NO_RECORD;
        *(last == NULL ? first : &last->spare) = record->number;
        last = record;
        rest = str_skip(rest, rest.len < NEXT_SIZE ? rest.len : NEXT_SIZE);
    }
    return true;
}

static struct session_record *open_session(struct session_zone *zone, const struct shm_key *key,
                                           struct str line)
{
    struct str head = str_head(line, FIRST_SIZE);
    struct session_record *session;
    uint32_t rest;

    if (!keep_rest(zone, str_skip(line, head.len), &rest)) {
        return NULL;
    }
    session = take_record(zone, key);
    if (session == NULL) {
        drop_rest(zone, rest);
        return NULL;
    }
    str_put((char *) (session + 1), head);
    session->record.spare = rest;
    session->bytes = 0;
    session->length = (uint32_t) line.len;
    return session;
}

bool session_zone_count(struct session_zone *zone, const unsigned char id[SESSION_ID_SIZE],
                        uint64_t bytes, const struct session_line *line)
{
    struct shm_key key =
        shm_table_key(zone->table, (struct str){(const char *) id, SESSION_ID_SIZE});
    size_t start = zone->lines->pending.len;

    zone_lock(zone);
    struct session_record *session = shm_table_find(zone->table, &key);
    if (session != NULL && session->last_ms + zone->timeout_ms <= clock_now.now_ms) {
        end_session(zone, session); /* it has timed out, but no timer has fired yet */
        session = NULL;
    }
    if (session == NULL && line != NULL) {
        session = open_session(zone, &key, buf_str(&line->text));
    }
    if (session != NULL) {
        shm_table_touch(zone->table, session);
        session->bytes += bytes;
        session->last_ms = clock_now.now_ms;
    }
    shm_table_unlock(zone->table);
    if (zone->lines->pending.len != start) {
        log_lines_added(zone->lines, start);
    }
    if (session != NULL && zone->timer.deadline_ms == NO_DEADLINE) {
        timer_set(&zone->timer, clock_now.now_ms + zone->timeout_ms);
    }
    return session != NULL;
}
