/* Write locks (RFC 4918, 6 and 7) in shared memory: keyed by file path, shared by all workers, kept
 * over reloads. */
#ifndef HTTP_MODULES_CONTENT_DAV_EXT_LOCKS_H
#define HTTP_MODULES_CONTENT_DAV_EXT_LOCKS_H

#include "base/arena.h"
#include "base/shm_table.h"

#define LOCK_TOKEN_SIZE 16
#define LOCKS_OF_ONE_MAX 64 /* shared locks that may cover one resource */
#define LOCK_TEXT_MAX 912   /* bytes of path, URI and owner of one lock */

struct lock_token {
    unsigned char bytes[LOCK_TOKEN_SIZE];
};

/* Converts to "urn:uuid:…" and back; the string is in the arena. */
struct str lock_token_text(struct arena *arena, const struct lock_token *token);
bool lock_token_parse(struct str text, struct lock_token *out);

/* A lock, as requested or as listed. */
struct lock {
    struct lock_token token;
    struct str path;     /* of the file or directory, without a slash at its end */
    struct str uri;      /* decoded URI under which it was locked */
    struct str owner;    /* <owner> of the client, as text */
    uint64_t timeout_ms; /* remaining time */
    bool is_deep;        /* covers everything below the path as well */
    bool is_shared;
};

/* A record of the table. */
struct lock_record {
    struct shm_record record;
    struct lock_token token;
    uint64_t expires_ms; /* monotonic time */
    uint16_t path_length, uri_length, owner_length;
    bool is_deep, is_shared;
    char text[LOCK_TEXT_MAX]; /* path, URI and owner */
};

enum lock_result {
    LOCK_DONE,
    LOCK_CONFLICT, /* conflicts with another lock */
    LOCK_FULL,   /* the zone is full, too many locks cover the resource, or path, URI and owner are
                    too long */
    LOCK_UNKNOWN /* the resource has no such lock */
};

/* Makes a lock with a new token. now_ms is the monotonic time, here and below. */
enum lock_result lock_add(struct shm_table *table, struct lock *lock, uint64_t now_ms);
/* Renews the lock with this token, which must cover the path; *lock gets its contents. */
enum lock_result lock_refresh(struct shm_table *table, struct arena *arena, struct lock *lock,
                              uint64_t now_ms);
/* Removes a lock. */
enum lock_result lock_remove(struct shm_table *table, const struct lock_token *token,
                             struct str path, uint64_t now_ms);
/* Removes all locks at and below the path, because the resource is gone. */
void lock_forget(struct shm_table *table, struct str path);
/* Does the lock with this token exist, and does it cover the path? */
bool lock_holds(struct shm_table *table, const struct lock_token *token, struct str path,
                uint64_t now_ms);

/* A resource that is about to be changed. */
struct lock_target {
    struct str path;
    bool is_tree;   /* with everything below it */
    bool is_member; /* it is created or removed, which changes its parent directory as well */
};

/* May a client with these tokens (struct lock_token) change the target? Of shared locks, the token
 * of one is enough. */
bool lock_allows(struct shm_table *table, const struct lock_target *target,
                 const struct vec *tokens, uint64_t now_ms);

/* What lock_list lists. */
struct lock_view {
    struct arena *arena; /* for the copies */
    struct str path;
    uint64_t now_ms;
};

/* Copies of the locks (struct lock) that cover a directory or file, or are on its direct members.
 * The table is locked only for a bounded time at once, whatever its size. `share` is called in
 * between, and MAY WAIT; false ends the search. It may be NULL. */
void lock_list(struct shm_table *table, const struct lock_view *view, bool (*share)(void),
               struct vec *out);
/* Does the lock cover the path? */
bool lock_covers(const struct lock *lock, struct str path);

#endif
