/* Sessions of `sticky learn`: the peer of each client's key, in a shared zone. */
#include "shared/upstream/sticky_sessions.h"

#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define NONE UINT32_MAX     /* no session: the end of a list */
#define SESSIONS_LEAST 16   /* a zone with space for fewer is refused */
#define SESSIONS_PER_HEAD 2 /* of the hash table, when it is full */

/* One session. Sessions are linked by indexes, so that nothing depends on the address of the
   mapping. */
struct session {
    struct session_id key;
    struct session_id peer;
    uint64_t ends_ms;      /* monotonic */
    uint32_t next;         /* with the same hash head */
    uint32_t newer, older; /* by last use */
    uint32_t given_ms; /* monotonic, modulo 2^32: when it was last sent to other nodes; 0: they do
                          not know it */
};

/* The whole table, in one piece of the zone. */
struct sessions {
    struct shm_lock lock;
    uint32_t capacity;       /* number of nodes */
    uint32_t used;           /* nodes that were ever used; ended ones are reused */
    uint32_t heads_mask;     /* number of hash heads minus one */
    uint32_t newest, oldest; /* by last use */
    uint32_t *heads;         /* by the first bytes of the key */
    struct session *nodes;
};

static void clear(struct sessions *sessions)
{
    memset(sessions->heads, 0xff, ((size_t) sessions->heads_mask + 1) * sizeof(uint32_t));
    sessions->used = 0;
    sessions->newest = sessions->oldest = NONE;
}

/* If a worker died while it held the lock, the lists may be broken: the table is cleared. */
static void sessions_lock(struct sessions *sessions)
{
    if (shm_lock_take(&sessions->lock)) {
        clear(sessions);
    }
}

/* ---- creation ---- */

/* Allocates the largest possible piece of the zone. */
static void *take_all(struct zone *zone, size_t *size)
{
    size_t page = (size_t) sysconf(_SC_PAGESIZE);

    for (*size = slab_available(zone->slab); *size >= page; *size -= page) {
        void *memory = slab_alloc(zone->slab, *size);

        if (memory != NULL) {
            return memory;
        }
    }
    return NULL;
}

struct sessions *sessions_of(struct zone *zone)
{
    struct sessions *sessions = zone->root;
    size_t size, capacity, heads = 1;

    if (sessions != NULL) {
        return sessions;
    }
    sessions = take_all(zone, &size);
    if (sessions == NULL) {
        return NULL;
    }
    size -= sizeof(*sessions);
    capacity = size / (sizeof(struct session) + sizeof(uint32_t));
    while (heads * 2 * SESSIONS_PER_HEAD <= capacity) {
        heads *= 2;
    }
    capacity = (size - heads * sizeof(uint32_t)) / sizeof(struct session);
    if (capacity < SESSIONS_LEAST) {
        slab_free(zone->slab, sessions);
        return NULL;
    }
    shm_lock_init(&sessions->lock);
    sessions->capacity = capacity < NONE ? (uint32_t) capacity : NONE - 1;
    sessions->heads_mask = (uint32_t) heads - 1;
    sessions->nodes = (struct session *) (sessions + 1);
    sessions->heads = (uint32_t *) (sessions->nodes + sessions->capacity);
    clear(sessions);
    zone->root = sessions;
    return sessions;
}

/* ---- lists; called with the lock held ---- */

static uint32_t *head_of(const struct sessions *sessions, const struct session_id *key)
{
    uint32_t hash;

    memcpy(&hash, key->md5, sizeof(hash));
    return &sessions->heads[hash & sessions->heads_mask];
}

static uint32_t session_of_key(const struct sessions *sessions, const struct session_id *key)
{
    uint32_t at = *head_of(sessions, key);

    while (at != NONE && memcmp(&sessions->nodes[at].key, key, sizeof(*key)) != 0) {
        at = sessions->nodes[at].next;
    }
    return at;
}

static void unlink_use(struct sessions *sessions, uint32_t at)
{
    struct session *session = &sessions->nodes[at];

    *(session->newer == NONE ? &sessions->newest : &sessions->nodes[session->newer].older) =
        session->older;
    *(session->older == NONE ? &sessions->oldest : &sessions->nodes[session->older].newer) =
        session->newer;
}

static void link_use(struct sessions *sessions, uint32_t at)
{
    struct session *session = &sessions->nodes[at];

    session->newer = NONE;
    session->older = sessions->newest;
    *(sessions->newest == NONE ? &sessions->oldest : &sessions->nodes[sessions->newest].newer) = at;
    sessions->newest = at;
}

static void unlink_key(struct sessions *sessions, uint32_t at)
{
    uint32_t *link = head_of(sessions, &sessions->nodes[at].key);

    while (*link != at) {
        link = &sessions->nodes[*link].next;
    }
    *link = sessions->nodes[at].next;
}

/* Marks the session as used now. */
static void session_renew(struct sessions *sessions, uint32_t at, uint64_t timeout_ms)
{
    sessions->nodes[at].ends_ms = clock_now.now_ms + timeout_ms;
    unlink_use(sessions, at);
    link_use(sessions, at);
}

/* A session for the key: an unused node, or that of the least recently used session. */
static uint32_t session_begin(struct sessions *sessions, const struct session_id *key,
                              struct sessions_change *change)
{
    uint32_t *head;
    uint32_t at;

    if (sessions->used < sessions->capacity) {
        at = sessions->used++;
    } else {
        at = sessions->oldest;
        change->is_displaced =
            sessions->nodes[at].given_ms != 0 && sessions->nodes[at].ends_ms > clock_now.now_ms;
        change->displaced = sessions->nodes[at].key;
        unlink_key(sessions, at);
        unlink_use(sessions, at);
    }
    sessions->nodes[at].key = *key;
    sessions->nodes[at].given_ms = 0;
    head = head_of(sessions, key);
    sessions->nodes[at].next = *head;
    *head = at;
    link_use(sessions, at);
    return at;
}

/* ---- use ---- */

/* With the lock held: the session of a key if it has not ended, or NONE. */
static uint32_t find_living(struct sessions *sessions, const struct session_id *key,
                            struct session_id *peer)
{
    uint32_t at = session_of_key(sessions, key);

    if (at == NONE || sessions->nodes[at].ends_ms <= clock_now.now_ms) {
        return NONE;
    }
    *peer = sessions->nodes[at].peer;
    return at;
}

bool sessions_look(struct sessions *sessions, const struct session_id *key, struct session_id *peer)
{
    bool is_found;

    sessions_lock(sessions);
    is_found = find_living(sessions, key, peer) != NONE;
    shm_lock_release(&sessions->lock);
    return is_found;
}

bool sessions_find(struct sessions *sessions, const struct session_id *key, uint64_t timeout_ms,
                   struct session_id *peer)
{
    uint32_t at;

    sessions_lock(sessions);
    at = find_living(sessions, key, peer);
    if (at != NONE) {
        session_renew(sessions, at, timeout_ms);
    }
    shm_lock_release(&sessions->lock);
    return at != NONE;
}

/* With the lock held: begins a session, or sets its peer. */
static uint32_t session_put(struct sessions *sessions, const struct session_id *key,
                            const struct session_id *peer, uint64_t timeout_ms,
                            struct sessions_change *change)
{
    uint32_t at = session_of_key(sessions, key);

    if (at == NONE) {
        at = session_begin(sessions, key, change);
    }
    sessions->nodes[at].peer = *peer;
    session_renew(sessions, at, timeout_ms);
    return at;
}

void sessions_put(struct sessions *sessions, const struct session_id *key,
                  const struct session_id *peer, uint64_t timeout_ms)
{
    struct sessions_change change;

    sessions_lock(sessions);
    session_put(sessions, key, peer, timeout_ms, &change);
    shm_lock_release(&sessions->lock);
}

uint32_t sessions_count(struct sessions *sessions)
{
    uint32_t count;

    sessions_lock(sessions);
    count = sessions->used;
    shm_lock_release(&sessions->lock);
    return count;
}

/* ---- sessions that are shared with other nodes ---- */

/* Never 0. */
static uint32_t given_now(void)
{
    return (uint32_t) clock_now.now_ms == 0 ? 1 : (uint32_t) clock_now.now_ms;
}

struct sessions_change sessions_put_shared(struct sessions *sessions, const struct session_id *key,
                                           const struct session_id *peer, uint64_t timeout_ms)
{
    struct sessions_change change = {0};
    struct session_id former;

    sessions_lock(sessions);
    change.is_new =
        find_living(sessions, key, &former) == NONE || memcmp(&former, peer, sizeof(former)) != 0;
    uint32_t at = session_put(sessions, key, peer, timeout_ms, &change);
    uint32_t *given_ms = &sessions->nodes[at].given_ms;
    change.is_due = change.is_new || *given_ms == 0 ||
                    given_now() - *given_ms >= timeout_ms / SESSIONS_GIVEN_OFTEN;
    if (change.is_due) {
        *given_ms = given_now();
    }
    shm_lock_release(&sessions->lock);
    return change;
}

bool sessions_give(struct sessions *sessions, const struct session_id *key, struct session_id *peer,
                   uint64_t *left_ms)
{
    uint32_t at;

    sessions_lock(sessions);
    at = find_living(sessions, key, peer);
    *left_ms = at == NONE ? 0 : sessions->nodes[at].ends_ms - clock_now.now_ms;
    shm_lock_release(&sessions->lock);
    return at != NONE;
}

struct sessions_change sessions_take(struct sessions *sessions, const struct session_id *key,
                                     const struct session_id *peer, uint64_t left_ms)
{
    struct sessions_change change = {0};

    sessions_lock(sessions);
    uint32_t at = session_put(sessions, key, peer, left_ms, &change);
    sessions->nodes[at].given_ms = given_now();
    shm_lock_release(&sessions->lock);
    return change;
}

void sessions_drop(struct sessions *sessions, const struct session_id *key)
{
    uint32_t at;

    sessions_lock(sessions);
    at = session_of_key(sessions, key);
    if (at != NONE) {
        sessions->nodes[at].ends_ms = 0;
        sessions->nodes[at].given_ms = 0;
    }
    shm_lock_release(&sessions->lock);
}

bool sessions_list(struct sessions *sessions, uint32_t *cursor, struct session_id *keys,
                   size_t most, size_t *count)
{
    bool has_more;

    sessions_lock(sessions);
    for (size_t i = 0; i < most && *cursor < sessions->used; i++, (*cursor)++) {
        const struct session *session = &sessions->nodes[*cursor];

        if (session->given_ms != 0 && session->ends_ms > clock_now.now_ms) {
            keys[(*count)++] = session->key;
        }
    }
    has_more = *cursor < sessions->used;
    shm_lock_release(&sessions->lock);
    return has_more;
}
