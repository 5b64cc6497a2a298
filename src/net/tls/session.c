/* Sessions resumed by identifier, in a zone that all workers share. */
#include <openssl/ssl.h>
#include <time.h>

#include "base/clock.h"
#include "base/shm.h"
#include "net/tls/private.h"
#include "net/tls/sessions.h"

#define ID_MAX 32
/* bytes of a stored session; larger ones (client certificates) are not kept */
#define SESSION_MAX 4096
#define BYTES_PER_BUCKET 512
#define EXPIRED_AT_ONCE 2  /* expired sessions that a new one removes */
#define EVICT_MOST 16      /* sessions that are evicted for a new one when the zone is full */
#define BUCKETS_AT_ONCE 64 /* listed under one lock */

/* A session in the zone: in a bucket and in the order of creation. */
struct stored {
    struct stored *next;  /* in the same bucket */
    struct stored *newer; /* in the order of creation */
    struct stored *older;
    uint64_t expires; /* seconds of the wall clock */
    uint16_t size;    /* of the session after the identifier */
    uint8_t id_len;
    unsigned char bytes[]; /* identifier, then DER */
};

/* The root of the zone. */
struct session_store {
    struct shm_lock lock;
    uint32_t bucket_count;
    struct stored *newest;
    struct stored *oldest;
    struct stored *buckets[];
};

static struct session_store *store_of(struct zone *zone)
{
    if (zone->root == NULL) {
        uint32_t count = (uint32_t) (zone->size / BYTES_PER_BUCKET) + 1;
        struct session_store *store =
            slab_alloc(zone->slab, sizeof(*store) + count * sizeof(store->buckets[0]));
        if (store == NULL) {
            return NULL;
        }
        shm_lock_init(&store->lock);
        store->bucket_count = count;
        zone->root = store;
    }
    return zone->root;
}

/* The bucket of an identifier. Identifiers are random, so a part of their bytes would do as a
 * hash. */
static struct stored **session_bucket_of(struct session_store *store, const unsigned char *id,
                                         size_t len)
{
    return &store->buckets[str_hash((struct str){(const char *) id, len}) % store->bucket_count];
}

static void reset(struct zone *zone)
{
    struct session_store *store = zone->root;

    /* A process died while it had the lock: the contents cannot be trusted, and sessions can be
     * made again. Their memory stays allocated until the zone is freed. */
    memset(store->buckets, 0, store->bucket_count * sizeof(store->buckets[0]));
    store->newest = store->oldest = NULL;
}

static void store_lock(struct zone *zone)
{
    struct session_store *store = zone->root;

    if (shm_lock_take(&store->lock)) {
        reset(zone);
    }
}

static void session_drop(struct zone *zone, struct stored *session)
{
    struct session_store *store = zone->root;
    struct stored **at = session_bucket_of(store, session->bytes, session->id_len);

    while (*at != NULL && *at != session) {
        at = &(*at)->next;
    }
    if (*at != NULL) {
        *at = session->next;
    }
    if (session->newer != NULL) {
        session->newer->older = session->older;
    } else {
        store->newest = session->older;
    }
    if (session->older != NULL) {
        session->older->newer = session->newer;
    } else {
        store->oldest = session->newer;
    }
    slab_free(zone->slab, session);
}

static struct stored *stored_find(struct session_store *store, const unsigned char *id, size_t len)
{
    struct stored *session = *session_bucket_of(store, id, len);

    while (session != NULL && (session->id_len != len || memcmp(session->bytes, id, len) != 0)) {
        session = session->next;
    }
    return session;
}

struct new_session {
    const unsigned char *id;
    unsigned id_len;
    const unsigned char *der;                  /* the session as OpenSSL encodes it */
    size_t size;                               /* bytes of that */
    uint64_t expires;                          /* seconds of the epoch */
    const struct tls_session_sharing *sharing; /* or NULL */
};

static void session_changed(const struct tls_session_sharing *sharing, const unsigned char *id,
                            size_t id_len)
{
    if (sharing != NULL) {
        sharing->changed(sharing->arg, (struct str){(const char *) id, id_len});
    }
}

/* False: no memory. */
static bool session_insert(struct zone *zone, const struct new_session *new)
{
    struct session_store *store = zone->root;
    uint64_t now = (uint64_t) time(NULL);
    struct stored *session = stored_find(store, new->id, new->id_len);

    if (session != NULL) {
        session_drop(zone, session);
    }
    for (int i = 0; i < EXPIRED_AT_ONCE && store->oldest != NULL && store->oldest->expires <= now;
         i++) {
        session_drop(zone, store->oldest);
    }
    session = slab_alloc(zone->slab, sizeof(*session) + new->id_len + new->size);
    for (int i = 0; i < EVICT_MOST && session == NULL && store->oldest != NULL; i++) {
        session_changed(new->sharing, store->oldest->bytes, store->oldest->id_len);
        session_drop(zone, store->oldest);
        session = slab_alloc(zone->slab, sizeof(*session) + new->id_len + new->size);
    }
    if (session == NULL) {
        log_alert(log_main, 0,
                  "could not allocate new session in SSL session shared cache \"%.*s\"",
                  STR_ARG(zone->name));
        return false;
    }
    session->expires = new->expires;
    session->size = (uint16_t) new->size;
    session->id_len = (uint8_t) new->id_len;
    memcpy(session->bytes, new->id, new->id_len);
    memcpy(session->bytes + new->id_len, new->der, new->size);
    struct stored **bucket = session_bucket_of(store, new->id, new->id_len);
    session->next = *bucket;
    *bucket = session;
    session->older = store->newest;
    session->newer = NULL;
    if (store->newest != NULL) {
        store->newest->newer = session;
    } else {
        store->oldest = session;
    }
    store->newest = session;
    return true;
}

static void keep_session(const struct tls_context *context, SSL_SESSION *session)
{
    struct zone *zone = context->settings.session_zone;
    static unsigned char der[SESSION_MAX];
    unsigned char *at = der;
    unsigned id_len;
    const unsigned char *id = SSL_SESSION_get_id(session, &id_len);
    int size = i2d_SSL_SESSION(session, NULL);

    if (size <= 0 || size > (int) sizeof(der) - 64 || id_len == 0 || id_len > ID_MAX) {
        return;
    }
    i2d_SSL_SESSION(session, &at);
    store_lock(zone);
    session_insert(zone, &(struct new_session){
                             .id = id,
                             .id_len = id_len,
                             .der = der,
                             .size = (size_t) size,
                             .expires = (uint64_t) time(NULL) + context->settings.session_timeout_s,
                             .sharing = context->settings.session_sharing,
                         });
    shm_lock_release(&((struct session_store *) zone->root)->lock);
    session_changed(context->settings.session_sharing, id, id_len);
}

static SSL_SESSION *resumable_session(const struct tls_context *context, const unsigned char *id,
                                      int len)
{
    struct zone *zone = context->settings.session_zone;
    static unsigned char der[SESSION_MAX];
    const unsigned char *at = der;
    size_t size = 0;

    if (len <= 0 || len > ID_MAX) {
        return NULL;
    }
    store_lock(zone);
    struct stored *session = stored_find(zone->root, id, (size_t) len);
    if (session != NULL && session->expires <= (uint64_t) time(NULL)) {
        session_drop(zone, session);
    } else if (session != NULL && session->size <= sizeof(der)) {
        size = session->size;
        memcpy(der, session->bytes + session->id_len, size);
    }
    shm_lock_release(&((struct session_store *) zone->root)->lock);
    return size == 0 ? NULL : d2i_SSL_SESSION(NULL, &at, (long) size);
}

/* ---- sessions of other nodes ---- */

bool tls_sessions_prepare(struct zone *zone)
{
    return store_of(zone) != NULL;
}

bool tls_sessions_get(struct zone *zone, struct str id, struct arena *arena, struct str *session,
                      uint64_t *left_s)
{
    uint64_t now = (uint64_t) time(NULL);

    store_lock(zone);
    const struct stored *stored = stored_find(zone->root, (const unsigned char *) id.data, id.len);
    bool is_there = stored != NULL && stored->expires > now;
    if (is_there) {
        *left_s = stored->expires - now;
        *session = arena_dup(arena, (struct str){(const char *) stored->bytes + stored->id_len,
                                                 stored->size});
    }
    shm_lock_release(&((struct session_store *) zone->root)->lock);
    return is_there;
}

bool tls_sessions_put(struct zone *zone, const struct tls_session_given *given,
                      const struct tls_session_sharing *sharing)
{
    if (given->session.len == 0 || given->session.len > SESSION_MAX || given->id.len == 0 ||
        given->id.len > ID_MAX) {
        return false;
    }
    store_lock(zone);
    bool has_room = session_insert(zone, &(struct new_session){
                                             .id = (const unsigned char *) given->id.data,
                                             .id_len = (unsigned) given->id.len,
                                             .der = (const unsigned char *) given->session.data,
                                             .size = given->session.len,
                                             .expires = (uint64_t) time(NULL) + given->left_s,
                                             .sharing = sharing,
                                         });
    shm_lock_release(&((struct session_store *) zone->root)->lock);
    return has_room;
}

void tls_sessions_drop(struct zone *zone, struct str id)
{
    store_lock(zone);
    struct stored *stored = stored_find(zone->root, (const unsigned char *) id.data, id.len);
    if (stored != NULL) {
        session_drop(zone, stored);
    }
    shm_lock_release(&((struct session_store *) zone->root)->lock);
}

bool tls_sessions_list(struct zone *zone, uint32_t *cursor, struct arena *arena, struct vec *ids)
{
    store_lock(zone);
    const struct session_store *store = zone->root;
    uint32_t end = *cursor + BUCKETS_AT_ONCE;

    for (; *cursor < store->bucket_count && *cursor < end; (*cursor)++) {
        for (const struct stored *stored = store->buckets[*cursor]; stored != NULL;
             stored = stored->next) {
            *vec_add(ids, arena, struct str) =
                arena_dup(arena, (struct str){(const char *) stored->bytes, stored->id_len});
        }
    }
    bool has_more = *cursor < store->bucket_count;
    shm_lock_release(&((struct session_store *) zone->root)->lock);
    return has_more;
}

/* ---- OpenSSL's callbacks: scripts come before the zone ---- */

static int on_new_session(SSL *ssl, SSL_SESSION *session)
{
    const struct tls_context *context = tls_session_context(ssl);
    struct tls *tls = SSL_get_ex_data(ssl, tls_index);

    /* Tickets of TLS 1.3 are not sessions that are found by an identifier (RFC 8446, 2.2). */
    if (tls != NULL && tls->hooks != NULL && tls->hooks->store != NULL && tls->conn != NULL &&
        SSL_version(ssl) < TLS1_3_VERSION) {
        tls->hooks->store(tls->conn, ssl, session, tls->hooks->arg);
    }
    if (context->sessions != NULL) {
        keep_session(context, session);
    }
    return 0; /* no reference is kept */
}

static SSL_SESSION *on_get_session(SSL *ssl, const unsigned char *id, int len, int *copy)
{
    const struct tls_context *context = tls_session_context(ssl);
    struct tls *tls = SSL_get_ex_data(ssl, tls_index);
    SSL_SESSION *session = NULL;

    *copy = 0;
    if (tls != NULL && tls->hooks != NULL && tls->hooks->fetch != NULL && len > 0 &&
        tls_ask_begin(tls)) {
        session = tls->hooks->fetch(tls->conn, ssl, (struct str){(const char *) id, (size_t) len},
                                    tls->hooks->arg);
        if (!tls_ask_end(tls)) {
            SSL_SESSION_free(session);
            return NULL;
        }
    }
    return session != NULL || context->sessions == NULL ? session
                                                        : resumable_session(context, id, len);
}

void tls_session_drop(const struct tls_context *context, const SSL_SESSION *session)
{
    struct zone *zone = context->sessions == NULL ? NULL : context->settings.session_zone;
    unsigned id_len;
    const unsigned char *id = SSL_SESSION_get_id(session, &id_len);

    if (zone == NULL || id_len == 0 || id_len > ID_MAX) {
        return;
    }
    store_lock(zone);
    struct stored *stored = stored_find(zone->root, id, id_len);
    if (stored != NULL) {
        session_drop(zone, stored);
    }
    shm_lock_release(&((struct session_store *) zone->root)->lock);
    if (stored != NULL) {
        session_changed(context->settings.session_sharing, id, id_len);
    }
}

static void remove_session(SSL_CTX *ctx, SSL_SESSION *session)
{
    tls_session_drop(tls_context_of(ctx), session);
}

bool tls_sessions_init(struct tls_context *context, SSL_CTX *ctx)
{
    const struct tls_settings *settings = &context->settings;

    SSL_CTX_set_timeout(ctx, (long) settings->session_timeout_s);
    if (!settings->has_session_cache) {
        SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
        return true;
    }
    SSL_CTX_sess_set_new_cb(ctx, on_new_session);
    SSL_CTX_sess_set_get_cb(ctx, on_get_session);
    if (settings->session_zone == NULL && settings->builtin_sessions == 0) {
        /* "none": sessions are announced as resumable, but none is cached. */
        SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_SERVER | SSL_SESS_CACHE_NO_INTERNAL |
                                                SSL_SESS_CACHE_NO_AUTO_CLEAR);
        return true;
    }
    long mode = SSL_SESS_CACHE_SERVER;
    if (settings->builtin_sessions == 0) {
        mode |= SSL_SESS_CACHE_NO_INTERNAL;
    }
    SSL_CTX_set_session_cache_mode(ctx, mode);
    if (settings->builtin_sessions != 0) {
        SSL_CTX_sess_set_cache_size(ctx, (long) settings->builtin_sessions);
    }
    if (settings->session_zone != NULL) {
        context->sessions = store_of(settings->session_zone);
        if (context->sessions == NULL) {
            return true; /* a zone without memory counts as none */
        }
        SSL_CTX_sess_set_remove_cb(ctx, remove_session);
    }
    return true;
}
