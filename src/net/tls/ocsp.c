/* OCSP for clients' certificates: the request is sent after the handshake, before the first HTTP
 * request is read. */
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ocsp.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "base/shm.h"
#include "fiber/fiber.h"
#include "net/conn/private.h"
#include "net/tls/private.h"

#define OCSP_ALL 1
/* An answer is cached for at most this long, or shorter if it says so. */
#define KEEP_AT_MOST_S 3600
#define CACHE_ROWS_PER_SIZE 128 /* bytes of the zone for each row */

/* ---- cached answers ---- */

/* An answer; a row of the cache. */
struct kept_answer {
    unsigned char key[32]; /* digest of the certificate and its issuer */
    uint64_t until;        /* seconds of the wall clock; 0 = free */
    int32_t status;        /* V_OCSP_CERTSTATUS_GOOD or _REVOKED */
};

/* The root of the zone: rows found by the key, four positions for each. */
struct ocsp_cache {
    struct shm_lock lock;
    uint32_t row_count;
    struct kept_answer rows[];
};

#define OCSP_BUCKET_SIZE 4

static struct ocsp_cache *cache_of(struct zone *zone)
{
    if (zone == NULL) {
        return NULL;
    }
    if (zone->root == NULL) {
        uint32_t count = (uint32_t) (zone->size / CACHE_ROWS_PER_SIZE) & ~(OCSP_BUCKET_SIZE - 1u);
        struct ocsp_cache *cache =
            slab_alloc(zone->slab, sizeof(*cache) + count * sizeof(cache->rows[0]));
        if (cache == NULL) {
            return NULL;
        }
        shm_lock_init(&cache->lock);
        cache->row_count = count;
        zone->root = cache;
    }
    return zone->root;
}

static bool make_key(const X509 *certificate, const X509 *issuer, unsigned char *key)
{
    unsigned char hashes[2 * EVP_MAX_MD_SIZE];
    unsigned first, second, len;

    return X509_digest(certificate, EVP_sha256(), hashes, &first) == 1 &&
           X509_digest(issuer, EVP_sha256(), hashes + first, &second) == 1 &&
           EVP_Digest(hashes, first + second, key, &len, EVP_sha256(), NULL) == 1;
}

static struct kept_answer *bucket_of(struct ocsp_cache *cache, const unsigned char *key)
{
    uint32_t hash;

    memcpy(&hash, key, sizeof(hash));
    return &cache->rows[hash % (cache->row_count / OCSP_BUCKET_SIZE) * OCSP_BUCKET_SIZE];
}

static void cache_lock(struct ocsp_cache *cache)
{
    if (shm_lock_take(&cache->lock)) {
        memset(cache->rows, 0, cache->row_count * sizeof(cache->rows[0]));
    }
}

static bool find_cached(struct ocsp_cache *cache, const unsigned char *key, int *status)
{
    uint64_t now = (uint64_t) time(NULL);
    bool is_found = false;

    cache_lock(cache);
    struct kept_answer *bucket = bucket_of(cache, key);
    for (int i = 0; i < OCSP_BUCKET_SIZE && !is_found; i++) {
        if (bucket[i].until > now && memcmp(bucket[i].key, key, sizeof(bucket[i].key)) == 0) {
            *status = bucket[i].status;
            is_found = true;
        }
    }
    shm_lock_release(&cache->lock);
    return is_found;
}

static void cache_put(struct ocsp_cache *cache, const unsigned char *key,
                      const struct ocsp_response *response)
{
    uint64_t until = (uint64_t) time(NULL) + KEEP_AT_MOST_S;

    cache_lock(cache);
    struct kept_answer *bucket = bucket_of(cache, key);
    struct kept_answer *oldest = &bucket[0];
    for (int i = 0; i < OCSP_BUCKET_SIZE; i++) {
        if (memcmp(bucket[i].key, key, sizeof(bucket[i].key)) == 0) {
            oldest = &bucket[i];
            break;
        }
        if (bucket[i].until < oldest->until) {
            oldest = &bucket[i];
        }
    }
    memcpy(oldest->key, key, sizeof(oldest->key));
    oldest->until = response->valid_until < until ? response->valid_until : until;
    oldest->status = response->status;
    shm_lock_release(&cache->lock);
}

/* ---- requests ---- */

/* A request in progress. On the heap; owned by its fiber. */
struct tls_ocsp {
    struct tls *tls;        /* NULL: the connection was closed */
    struct fiber *fiber;    /* while it waits */
    STACK_OF(X509) * chain; /* client first; owned */
    X509_STORE *store;      /* counted */
    struct tls_context *context;
    struct log log;
    long error;         /* X509_V_… */
    const char *reason; /* NULL: no error */
    bool is_done;
};

static void ocsp_fail(struct tls_ocsp *ocsp, const char *reason)
{
    ocsp->error = X509_V_ERR_APPLICATION_VERIFICATION;
    ocsp->reason = reason;
}

/* Finds the responder for a certificate. */
static bool find_target(const struct tls_ocsp *ocsp, struct arena *arena, X509 *certificate,
                        struct ocsp_target *out)
{
    bool is_good = false;

    if (ocsp->context->ocsp_target != NULL) {
        *out = *ocsp->context->ocsp_target;
        return true;
    }
    STACK_OF(OPENSSL_STRING) *list = X509_get1_ocsp(certificate);
    if (sk_OPENSSL_STRING_num(list) <= 0) {
        log_error(&ocsp->log, 0, "OCSP responder not specified in the certificate");
    } else {
        struct str url = arena_dup(arena, str_of(sk_OPENSSL_STRING_value(list, 0)));
        is_good = ocsp_target_parse(arena, url, out);
        if (!is_good) {
            log_error(&ocsp->log, 0, "invalid OCSP responder \"%.*s\" in the certificate",
                      STR_ARG(url));
        }
    }
    X509_email_free(list);
    return is_good;
}

/* The status of the certificate at this position of the chain; false: unknown. MAY WAIT. */
static bool status_of(struct tls_ocsp *ocsp, struct arena *arena, int position, int *status)
{
    X509 *certificate = sk_X509_value(ocsp->chain, position);
    X509 *issuer = sk_X509_value(ocsp->chain, position + 1);
    struct ocsp_cache *cache = cache_of(ocsp->context->settings.ocsp_zone);
    struct ocsp_target target;
    struct ocsp_response response;
    unsigned char key[EVP_MAX_MD_SIZE];

    if (cache != NULL && make_key(certificate, issuer, key) && find_cached(cache, key, status)) {
        return true;
    }
    if (!find_target(ocsp, arena, certificate, &target)) {
        return false;
    }
    const struct ocsp_question question = {
        .certificate = certificate,
        .issuer = issuer,
        .store = ocsp->store,
        .verifies = true,
        .target = &target,
        .settings = &ocsp->context->settings,
        .log = &ocsp->log,
    };
    if (!ocsp_ask(&question, arena, &response)) {
        return false;
    }
    *status = response.status;
    if (cache != NULL && make_key(certificate, issuer, key) &&
        response.status != V_OCSP_CERTSTATUS_UNKNOWN) {
        cache_put(cache, key, &response);
    }
    return true;
}

/* Checks all certificates of the chain except the root, which no authority can confirm. */
static void ask_about_chain(struct tls_ocsp *ocsp)
{
    int count = sk_X509_num(ocsp->chain) - 1;
    struct arena arena;

    if (ocsp->context->settings.ocsp != OCSP_ALL && count > 1) {
        count = 1;
    }
    arena_init(&arena);
    for (int i = 0; i < count && ocsp->reason == NULL; i++) {
        int status = V_OCSP_CERTSTATUS_UNKNOWN;

        if (!status_of(ocsp, &arena, i, &status) || status == V_OCSP_CERTSTATUS_UNKNOWN) {
            ocsp_fail(ocsp, "certificate status request failed");
        } else if (status == V_OCSP_CERTSTATUS_REVOKED) {
            ocsp->error = X509_V_ERR_CERT_REVOKED;
            ocsp->reason = X509_verify_cert_error_string(X509_V_ERR_CERT_REVOKED);
        }
    }
    arena_free(&arena);
}

static void ocsp_free(struct tls_ocsp *ocsp)
{
    sk_X509_pop_free(ocsp->chain, X509_free);
    X509_STORE_free(ocsp->store);
    free(ocsp);
}

static void ocsp_run(void *arg)
{
    struct tls_ocsp *ocsp = arg;

    ocsp->fiber = fiber_self();
    ask_about_chain(ocsp);
    ocsp->fiber = NULL;
    ocsp->is_done = true;
    if (ocsp->tls == NULL) {
        ocsp_free(ocsp);
    } else {
        tls_wake_owner(ocsp->tls);
    }
}

void tls_ocsp_forget(struct tls *tls)
{
    struct tls_ocsp *ocsp = tls->ocsp;

    tls->ocsp = NULL;
    ocsp->tls = NULL;
    if (ocsp->is_done) {
        ocsp_free(ocsp);
    } else if (ocsp->fiber != NULL) {
        fiber_cancel(ocsp->fiber);
    }
}

/* The client's chain up to its root. A resumed session does not contain it, so it is built
 * again. */
static STACK_OF(X509) * chain_of(struct tls *tls, X509 *peer)
{
    STACK_OF(X509) *chain = SSL_get0_verified_chain(tls->ssl);

    if (chain != NULL) {
        return X509_chain_up_ref(chain);
    }
    X509_STORE_CTX *search = X509_STORE_CTX_new();
    if (search != NULL &&
        X509_STORE_CTX_init(search, SSL_CTX_get_cert_store(SSL_get_SSL_CTX(tls->ssl)), peer,
                            SSL_get_peer_cert_chain(tls->ssl)) == 1 &&
        X509_verify_cert(search) == 1) {
        chain = X509_STORE_CTX_get1_chain(search);
    }
    X509_STORE_CTX_free(search);
    ERR_clear_error();
    return chain;
}

static enum tls_progress ocsp_begin(struct tls *tls)
{
    X509 *peer = SSL_get1_peer_certificate(tls->ssl);

    tls->ocsp_is_checked = true;
    if (peer == NULL || SSL_get_verify_result(tls->ssl) != X509_V_OK) {
        X509_free(peer);
        return TLS_DONE; /* refused anyway, or no certificate to check */
    }
    STACK_OF(X509) *chain = chain_of(tls, peer);
    X509_free(peer);
    if (chain == NULL) {
        tls->ocsp_error = X509_V_ERR_APPLICATION_VERIFICATION;
        tls->ocsp_reason = "certificate status request failed";
        return TLS_DONE;
    }
    struct tls_ocsp *ocsp = calloc(1, sizeof(*ocsp));
    if (ocsp == NULL) {
        fatal_no_memory(sizeof(*ocsp));
    }
    ocsp->tls = tls;
    ocsp->chain = chain;
    ocsp->context = tls->context;
    ocsp->store = SSL_CTX_get_cert_store(SSL_get_SSL_CTX(tls->ssl));
    X509_STORE_up_ref(ocsp->store);
    ocsp->log =
        /* The connection's log may be freed before the answer comes. */
        tls_log(&tls->context->settings);
    ocsp->log.connection = conn_number(tls->conn);
    ocsp->log.action = "requesting certificate status";
    tls->ocsp = ocsp;
    if (fiber_start(ocsp_run, ocsp, NULL) == FIBER_NO_STACK) {
        ocsp_fail(ocsp, "certificate status request failed");
        ocsp->is_done = true;
    }
    return TLS_MORE;
}

enum tls_progress tls_ocsp_check(struct tls *tls)
{
    if (!tls->ocsp_is_checked && ocsp_begin(tls) == TLS_DONE) {
        return TLS_DONE;
    }
    if (tls->ocsp == NULL) {
        return TLS_DONE;
    }
    if (!tls->ocsp->is_done) {
        /* The client's next bytes have to wait. */
        tls->conn->is_readable = 0;
        tls_flush(tls->conn);
        return TLS_MORE;
    }
    tls->ocsp_error = tls->ocsp->error;
    tls->ocsp_reason = tls->ocsp->reason;
    ocsp_free(tls->ocsp);
    tls->ocsp = NULL;
    tls->conn->is_readable = 1;
    return TLS_DONE;
}

bool tls_ocsp_init(struct tls_context *context, struct arena *arena, struct str *error)
{
    struct str url = context->settings.ocsp_responder;

    cache_of(context->settings.ocsp_zone); /* its root is created before workers start */
    if (context->settings.ocsp == 0 || url.len == 0) {
        return true;
    }
    struct ocsp_target *target = arena_new(arena, struct ocsp_target);
    if (!ocsp_target_parse(arena, url, target)) {
        *error =
            arena_printf(arena,
                         "invalid URL prefix in OCSP responder \"%.*s\" in \"ssl_ocsp_responder\"",
                         STR_ARG(url));
        return false;
    }
    if (context->settings.resolver == NULL &&
        !addr_parse(arena, target->host, target->port, false, &target->addresses)) {
        *error = arena_printf(arena, "%s in OCSP responder \"%.*s\" in \"ssl_ocsp_responder\"",
                              target->addresses.error, STR_ARG(url));
        return false;
    }
    context->ocsp_target = target;
    return true;
}
