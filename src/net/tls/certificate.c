/* Certificates whose names contain variables: loaded during the handshake, cached for a while. */
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "base/list.h"
#include "net/tls/private.h"

#define BUCKETS 256u

enum item_kind { ITEM_CHAIN, ITEM_KEY };

/* A loaded chain or key. On the heap. */
struct item {
    struct list node;  /* in `used`: last used first */
    struct item *next; /* of the bucket */
    enum item_kind kind;
    struct str name; /* points to text, after this struct */
    void *value;     /* STACK_OF(X509) or EVP_PKEY; owned */
    uint64_t used_ms;
    uint64_t checked_ms; /* when the file was last compared or loaded */
    struct stat stat;    /* of the file at that time; st_ino 0 = no file */
    char text[];
};

struct tls_certificate_cache {
    unsigned max;
    unsigned count;
    uint64_t inactive_ms; /* an item not used for so long is dropped */
    uint64_t valid_ms;    /* the file is compared again after so long */
    struct list used;
    struct item *buckets[BUCKETS];
};

static void value_free(enum item_kind kind, void *value)
{
    if (kind == ITEM_KEY) {
        EVP_PKEY_free(value);
    } else {
        sk_X509_pop_free(value, X509_free);
    }
}

static void item_free(struct tls_certificate_cache *cache, struct item *item)
{
    struct item **at = &cache->buckets[str_hash(item->name) % BUCKETS];

    while (*at != item) {
        at = &(*at)->next;
    }
    *at = item->next;
    list_remove(&item->node);
    cache->count--;
    value_free(item->kind, item->value);
    free(item);
}

static void cache_free(void *arg)
{
    struct tls_certificate_cache *cache = arg;

    while (!list_is_empty(&cache->used)) {
        item_free(cache, container_of(cache->used.next, struct item, node));
    }
}

struct tls_certificate_cache *tls_certificate_cache_new(struct arena *arena, unsigned max,
                                                        uint64_t inactive_s, uint64_t valid_s)
{
    struct tls_certificate_cache *cache = arena_new(arena, struct tls_certificate_cache);

    cache->max = max;
    cache->inactive_ms = inactive_s * 1000;
    cache->valid_ms = valid_s * 1000;
    list_init(&cache->used);
    arena_on_free(arena, cache_free, cache);
    return cache;
}

/* The stat of the file that a name denotes; all zero if it is not a file. */
static void look_at_file(struct arena *arena, struct str name, struct stat *st)
{
    memset(st, 0, sizeof(*st));
    if (!str_starts(name, STR("data:")) && stat(arena_cstr(arena, name), st) == -1) {
        memset(st, 0, sizeof(*st));
    }
}

static void drop_inactive(struct tls_certificate_cache *cache)
{
    while (!list_is_empty(&cache->used)) {
        struct item *oldest = container_of(cache->used.prev, struct item, node);

        if (clock_now.now_ms - oldest->used_ms < cache->inactive_ms) {
            return;
        }
        item_free(cache, oldest);
    }
}

static struct item *find_kept(const struct tls_certificate_cache *cache, enum item_kind kind,
                              struct str name)
{
    struct item *item = cache->buckets[str_hash(name) % BUCKETS];

    while (item != NULL && (item->kind != kind || !str_equal(item->name, name))) {
        item = item->next;
    }
    return item;
}

/* Finds a valid item; drops one whose file has changed. */
static struct item *item_find(struct tls_certificate_cache *cache, struct arena *arena,
                              enum item_kind kind, struct str name)
{
    struct item *item = find_kept(cache, kind, name);

    if (item == NULL) {
        return NULL;
    }
    if (clock_now.now_ms - item->checked_ms > cache->valid_ms) {
        struct stat st;

        look_at_file(arena, name, &st);
        if (st.st_ino != item->stat.st_ino || st.st_mtime != item->stat.st_mtime ||
            st.st_size != item->stat.st_size) {
            item_free(cache, item);
            return NULL;
        }
        item->checked_ms = clock_now.now_ms;
    }
    item->used_ms = clock_now.now_ms;
    list_remove(&item->node);
    list_push_front(&cache->used, &item->node);
    return item;
}

static void *item_share(enum item_kind kind, void *value)
{
    if (kind == ITEM_CHAIN) {
        return X509_chain_up_ref(value);
    }
    return EVP_PKEY_up_ref(value) == 1 ? value : NULL;
}

static void item_keep(struct tls_certificate_cache *cache, struct arena *arena, enum item_kind kind,
                      struct str name, void *value)
{
    if (cache->count >= cache->max) {
        item_free(cache, container_of(cache->used.prev, struct item, node));
    }
    struct item *item = calloc(1, sizeof(*item) + name.len);
    if (item == NULL) {
        fatal_no_memory(sizeof(*item) + name.len);
    }
    memcpy(item->text, name.data, name.len);
    item->kind = kind;
    item->name = (struct str){item->text, name.len};
    item->value = item_share(kind, value);
    item->used_ms = item->checked_ms = clock_now.now_ms;
    look_at_file(arena, name, &item->stat);
    struct item **bucket = &cache->buckets[str_hash(name) % BUCKETS];
    item->next = *bucket;
    *bucket = item;
    list_push_front(&cache->used, &item->node);
    cache->count++;
}

/* The certificate and key of one connection. */
struct certificate_options {
    struct str certificate, key;         /* file names, or data */
    const struct vec *passwords;         /* of the key; NULL = none */
    struct tls_certificate_cache *cache; /* or NULL */
    struct arena *arena;
};

/* Gives a chain or key, with a reference for the caller, from the cache or loaded. */
static void *item_get(const struct certificate_options *options, enum item_kind kind,
                      struct str *error)
{
    struct tls_certificate_cache *cache = options->cache;
    struct arena *arena = options->arena;
    struct str name = kind == ITEM_KEY ? options->key : options->certificate;

    if (cache != NULL) {
        struct item *item;

        drop_inactive(cache);
        item = item_find(cache, arena, kind, name);
        if (item != NULL) {
            return item_share(kind, item->value);
        }
    }
    void *value = kind == ITEM_KEY
                      ? (void *) tls_load_key(NULL, arena, name, options->passwords, error)
                      : (void *) tls_load_chain(NULL, arena, name, error);
    bool is_secret = kind == ITEM_KEY && tls_key_was_encrypted();
    if (value != NULL && cache != NULL && cache->max != 0 && !is_secret) {
        item_keep(cache, arena, kind, name, value);
    }
    return value;
}

static bool use(struct tls *tls, struct arena *arena, STACK_OF(X509) * chain, EVP_PKEY *key,
                struct str *error)
{
    X509 *leaf = sk_X509_shift(chain);
    bool is_good = false;

    if (SSL_use_certificate(tls->ssl, leaf) == 0) {
        *error = tls_reason(arena, "SSL_use_certificate() failed");
    } else if (SSL_set1_chain(tls->ssl, chain) == 0) {
        *error = tls_reason(arena, "SSL_set1_chain() failed");
    } else if (SSL_use_PrivateKey(tls->ssl, key) == 0 || !tls_key_fits(leaf, key)) {
        *error = tls_reason(arena, "SSL_use_PrivateKey() failed");
    } else {
        is_good = true;
    }
    X509_free(leaf);
    return is_good;
}

static bool load_and_use(struct conn *conn, const struct certificate_options *options,
                         struct str *error)
{
    STACK_OF(X509) *chain = item_get(options, ITEM_CHAIN, error);
    EVP_PKEY *pkey = chain == NULL ? NULL : item_get(options, ITEM_KEY, error);
    bool is_good = pkey != NULL && use(tls_of(conn), options->arena, chain, pkey, error);

    sk_X509_pop_free(chain, X509_free);
    EVP_PKEY_free(pkey);
    return is_good;
}

/* Drops the cached items of both; false: there were none. */
static bool forget(struct tls_certificate_cache *cache, struct str certificate, struct str key)
{
    struct item *chain = find_kept(cache, ITEM_CHAIN, certificate);
    struct item *pkey = find_kept(cache, ITEM_KEY, key);

    if (chain != NULL) {
        item_free(cache, chain);
    }
    if (pkey != NULL) {
        item_free(cache, pkey);
    }
    return chain != NULL || pkey != NULL;
}

bool tls_use_certificate(struct conn *conn, struct str certificate, struct str key,
                         const struct vec *passwords, struct tls_certificate_cache *cache)
{
    struct arena arena;
    struct str error = STR_NONE;

    arena_init(&arena);
    ERR_clear_error();
    if (passwords != NULL && passwords->count == 0) {
        passwords = NULL; /* there is no terminal to ask now */
    }
    const struct certificate_options options = {.certificate = certificate,
                                                .key = key,
                                                .passwords = passwords,
                                                .cache = cache,
                                                .arena = &arena};
    bool is_good = load_and_use(conn, &options, &error);
    if (!is_good && cache != NULL && forget(cache, certificate, key)) {
        /* One of the two was renewed after the other was cached. */
        ERR_clear_error();
        is_good = load_and_use(conn, &options, &error);
    }
    if (!is_good) {
        log_error(conn->log, 0, "%.*s", STR_ARG(error));
    }
    arena_free(&arena);
    return is_good;
}
