/*
 * One fetch of a missing response for all nodes: `sync` of *_cache_lock. Each node has a cache of
 * its own, so the node that fetches puts what it got into the store for a moment, and the others,
 * which wait, store it as if they had fetched it. docs/scaling-out.md has keys, values and bounds.
 * A response is a text of the caller's.
 *
 * Nothing is waited for at the end of a fetch: what is given, and that it is not for others, is
 * sent by fibers of their own.
 */
#ifndef CACHE_SHARED_FETCH_H
#define CACHE_SHARED_FETCH_H

#include "cache/cache.h"
#include "net/tls/seal.h"
#include "store/store.h"

/* Where the fetches of a location are shared. */
struct fetch_share;

/*
 * From the words of the line, the first of which is `on`: `sync`, `sync=STORE`,
 * `sync_max_size=SIZE`. *share is NULL where there are none of them. False after conf_error.
 */
bool fetch_share_read(struct conf *conf, struct conf_node *node, struct fetch_share **share);
/* Is there a line with `sync` in this reading? */
bool fetch_share_is_used(struct conf *conf);

/* How a request stands with the other nodes. All zero: it does not ask them. */
struct shared_fetch {
    struct fetch_share *share;
    const struct cache *cache;
    struct str key;   /* in the store; in the arena of the access, like the next */
    struct str bound; /* what a text is bound to, so that nobody can give one for another key */
    bool is_variant;  /* of the key and field values, not of the key alone */
    bool is_mine;     /* this node fetches for all: others wait until it gives the response, or lets
                         them go */
    uint64_t began_ms;                /* when it was asked for */
    uint64_t begun_ms;                /* of one that is_mine: when it began, by the store's clock */
    char token[17];                   /* of this fetch */
    unsigned char seal[TLS_SEAL_KEY]; /* of the cache; a share may be of several */
};

/* About the key of the access, or about its variant (CACHE_KEY_SIZE bytes) where that is not NULL.
 */
void shared_fetch_open(struct shared_fetch *fetch, struct fetch_share *share,
                       const struct cache_access *access, const uint8_t *variant);

enum shared_fetch_state {
    SHARED_FETCH_MINE,   /* this node is to fetch it: is_mine */
    SHARED_FETCH_BUSY,   /* another node is fetching it */
    SHARED_FETCH_THERE,  /* another node has fetched it */
    SHARED_FETCH_VARIES, /* the same: the text is by which fields responses differ, which are asked
                            for as variants */
    SHARED_FETCH_ALONE,  /* another node has fetched it, and it is not for others */
    SHARED_FETCH_GONE,   /* the store does not say */
};

/* A response that another node has fetched. */
struct shared_found {
    struct str text;         /* in the arena that was given */
    uint64_t since_begun_ms; /* the fetch began so long before clock_now, or later */
    uint64_t since_given_ms; /* the text was given so long ago */
    char token[17];          /* of its fetch */
};

/*
 * Asks the store, and takes the fetch over if nobody has it. found->token: of a response that was
 * found before and is of no use, or empty: such a one is fetched again. lease_ms: then another node
 * may fetch it as well. MAY WAIT, for the store's timeout, also when the client has gone.
 */
enum shared_fetch_state shared_fetch_claim(struct shared_fetch *fetch, struct arena *arena,
                                           uint64_t lease_ms, struct shared_found *found);

/* May a text of so many bytes be given? Also no while too much of other texts is on its way
 * (counted). */
bool shared_fetch_has_room(const struct shared_fetch *fetch, uint64_t size);
/*
 * Of a fetch that is_mine: other nodes may have the text, for ttl_ms (not 0). Takes over the memory
 * at text.data (malloc). vary: by which fields responses differ, the variant of this one being
 * access->meta.variant; empty: they do not.
 */
void shared_fetch_give(struct shared_fetch *fetch, const struct cache_access *access,
                       struct str text, struct str vary, uint64_t ttl_ms);
/* Of a fetch that may be is_mine: what comes of it is not for other nodes, which are to fetch for
 * themselves. */
void shared_fetch_let_go(struct shared_fetch *fetch);
/* What was found is nothing that a node wrote: logged, once a minute, and counted. */
void shared_fetch_unreadable(const struct shared_fetch *fetch);

#endif
