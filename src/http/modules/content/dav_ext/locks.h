/* Write locks (RFC 4918, 6 and 7) in shared memory: by the paths of files, for all workers, over
 * reloads. */
#ifndef HTTP_MODULES_CONTENT_DAV_EXT_LOCKS_H
#define HTTP_MODULES_CONTENT_DAV_EXT_LOCKS_H

#include "base/arena.h"
#include "base/shm_table.h"

#define LOCK_TOKEN_SIZE 16
#define LOCKS_OF_ONE_MAX 64 /* that cover one resource: shared ones */
#define LOCK_TEXT_MAX 912   /* bytes of path, URI and owner of one lock */

struct lock_token {
    unsigned char bytes[LOCK_TOKEN_SIZE];
};

/* "urn:uuid:…" and back; the first in the arena. */
struct str lock_token_text(struct arena *arena, const struct lock_token *token);
bool lock_token_parse(struct str text, struct lock_token *out);

/* A lock, as it is asked for, or shown. */
struct lock {
    struct lock_token token;
    struct str path;     /* of the file or directory, without a slash at its end */
    struct str uri;      /* under which it was locked, decoded */
    struct str owner;    /* as the client gave it: a text */
    uint64_t timeout_ms; /* from now on */
    bool is_deep;        /* what is inside is locked as well */
    bool is_shared;
};

/* A record of the table. */
struct lock_record {
    struct shm_record record;
    struct lock_token token;
    uint64_t expires_ms; /* monotonic */
    uint16_t path_length, uri_length, owner_length;
    bool is_deep, is_shared;
    char text[LOCK_TEXT_MAX]; /* path, URI, owner */
};

enum lock_result {
    LOCK_DONE,
    LOCK_CONFLICT, /* another lock forbids it */
    LOCK_FULL,     /* no room in the zone, too many cover the resource, or the texts are too long */
    LOCK_UNKNOWN   /* there is no such lock on that resource */
};

/* Makes a lock, with a new token. now_ms is the monotonic time, here and below. */
enum lock_result lock_add(struct shm_table *table, struct lock *lock, uint64_t now_ms);
/* The lock of this token, which has to cover the path, lasts from now on; *lock gets what it is. */
enum lock_result lock_refresh(struct shm_table *table, struct arena *arena, struct lock *lock,
                              uint64_t now_ms);
/* Gives it up. */
enum lock_result lock_remove(struct shm_table *table, const struct lock_token *token,
                             struct str path, uint64_t now_ms);
/* What was there is gone, with all inside. */
void lock_forget(struct shm_table *table, struct str path);
/* Does a lock of this token cover the path? */
bool lock_holds(struct shm_table *table, const struct lock_token *token, struct str path,
                uint64_t now_ms);

/* What is going to be changed. */
struct lock_target {
    struct str path;
    bool is_tree;   /* with all that is inside */
    bool is_member; /* it comes or goes: a change of the directory above */
};

/* May it be changed by who knows these tokens (struct lock_token)? Of locks that are shared one is
 * enough. */
bool lock_allows(struct shm_table *table, const struct lock_target *target,
                 const struct vec *tokens, uint64_t now_ms);

/* What a list is to show. */
struct lock_view {
    struct arena *arena; /* of the copies */
    struct str path;
    uint64_t now_ms;
};

/*
 * The locks that cover a directory or file, or lie on what is right inside, as copies: struct lock.
 * The table is locked for a bounded time, whatever its size. `share` is called between, and MAY
 * WAIT; false ends it. NULL: nothing is called.
 */
void lock_list(struct shm_table *table, const struct lock_view *view, bool (*share)(void),
               struct vec *out);
/* Does the lock cover the path? */
bool lock_covers(const struct lock *lock, struct str path);

#endif
