/*
 * One fetch of a missing response for all nodes: `sync` of *_cache_lock. Each node has a cache of
 * its own. The node that fetches puts the response into the store for a short time, and the other
 * nodes, which wait, store it as if they had fetched it. docs/scaling-out.md has keys, values and
 * limits. A response is an opaque string of the caller.
 *
 * The end of a fetch does not wait: uploads run on fibers of their own.
 */
#ifndef CACHE_SHARED_FETCH_H
#define CACHE_SHARED_FETCH_H

#include "cache/cache.h"
#include "net/tls/seal.h"
#include "store/store.h"

/* Where the fetches of a location are shared. */
struct fetch_share;

/*
 * Reads the parameters of the line, after the first one, which is `on`: `sync`, `sync=STORE`,
 * `sync_max_size=SIZE`. *share is NULL without any of them. False after conf_error.
 */
bool fetch_share_read(struct conf *conf, struct conf_node *node, struct fetch_share **share);
/* Has this reading a line with `sync`? */
bool fetch_share_is_used(struct conf *conf);

/* The state of a request towards other nodes. All zero: fetches are not shared. */
struct shared_fetch {
    struct fetch_share *share;
    const struct cache *cache;
    struct str key;   /* in the store; in the arena of the access, as is bound */
    struct str bound; /* authenticated with a response, so that it cannot be used for another key */
    bool is_variant;  /* for the key and field values, not for the key alone */
    /* This node fetches for all: others wait until it gives the response, or lets them go. */
    bool is_mine;
    uint64_t began_ms;                /* when the request to the store was sent */
    uint64_t begun_ms;                /* with is_mine: when the fetch began, by the store's clock */
    char token[17];                   /* identifies this fetch */
    unsigned char seal[TLS_SEAL_KEY]; /* key of the cache; a share may be used by several */
};

/* Initializes the fetch for the key of the access, or for its variant (CACHE_KEY_SIZE bytes) if
 * that is not NULL. */
void shared_fetch_open(struct shared_fetch *fetch, struct fetch_share *share,
                       const struct cache_access *access, const uint8_t *variant);

enum shared_fetch_state {
    SHARED_FETCH_MINE,   /* this node has to fetch it: is_mine */
    SHARED_FETCH_BUSY,   /* another node is fetching it */
    SHARED_FETCH_THERE,  /* another node has fetched it: found */
    SHARED_FETCH_VARIES, /* the same, and responses vary: found->text names the fields; request the
                            variant */
    SHARED_FETCH_ALONE,  /* another node has fetched it, and others may not use the response */
    SHARED_FETCH_GONE,   /* the store gave no answer */
};

/* A response that another node has fetched. */
struct shared_found {
    struct str text;         /* in the arena given */
    uint64_t since_begun_ms; /* the fetch began so long before clock_now, or later */
    uint64_t since_given_ms; /* the response was given so long ago */
    char token[17];          /* of the fetch */
};

/*
 * Asks the store, and starts the fetch if no node has it. found->token: of a response that was
 * found before and is not usable, or empty: such a response is fetched again. lease_ms: after it
 * another node may fetch as well. MAY WAIT, for the store's timeout, even after the client has
 * left.
 */
enum shared_fetch_state shared_fetch_claim(struct shared_fetch *fetch, struct arena *arena,
                                           uint64_t lease_ms, struct shared_found *found);

/* May a response of this size be uploaded? Not while too much is being uploaded (counted). */
bool shared_fetch_has_room(const struct shared_fetch *fetch, uint64_t size);
/*
 * For a fetch that is_mine: gives the response to other nodes, for ttl_ms (not 0). Owns the memory
 * at text.data (malloc) from now on. vary: the fields by which responses vary, with
 * access->meta.variant as the variant of this one; empty: they do not vary.
 */
void shared_fetch_give(struct shared_fetch *fetch, const struct cache_access *access,
                       struct str text, struct str vary, uint64_t ttl_ms);
/* For a fetch that may be is_mine: other nodes may not use its response and have to fetch on their
 * own. */
void shared_fetch_let_go(struct shared_fetch *fetch);
/* The value found was not written by a node: logs it, once a minute, and counts it. */
void shared_fetch_unreadable(const struct shared_fetch *fetch);

#endif
