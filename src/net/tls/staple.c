/* OCSP stapling (RFC 6066, 8): the authority's answer about our certificate, sent with the
 * certificate. */
#include <openssl/err.h>
#include <openssl/ocsp.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <time.h>

#include "base/fatal.h"
#include "base/list.h"
#include "fiber/fiber.h"
#include "net/tls/private.h"

#define ASK_AGAIN_S 300    /* after a failure, and at least between two requests */
#define ASK_AT_MOST_S 3600 /* an answer is requested again after this time at the latest */

/* The staple of one certificate. On the heap. */
struct tls_staple {
    char *der; /* sent to clients; heap; NULL = none yet */
    size_t size;
    uint64_t valid_until; /* seconds of the wall clock */
    uint64_t ask_at;      /* seconds: time of the next request */
    X509 *certificate;    /* counted */
    X509 *issuer;         /* counted */
    X509_STORE *store;    /* counted */
    struct ocsp_target target;
    struct tls_settings settings;
    struct arena arena;
    bool is_from_file;
    bool is_asking;        /* a fiber requests an answer */
    bool is_orphaned;      /* its owner is gone: the fiber frees it */
    struct fiber *fiber;   /* that fiber, while it waits */
    struct list at_asking; /* in `asking` meanwhile */
};

static struct list asking = {&asking,
                             &asking}; /* staples of this worker with a request in progress */

static void destroy(struct tls_staple *staple)
{
    free(staple->der);
    X509_free(staple->certificate);
    X509_free(staple->issuer);
    X509_STORE_free(staple->store);
    arena_free(&staple->arena);
    free(staple);
}

void tls_staple_free(struct tls_staple *staple)
{
    if (staple->is_asking) {
        staple->is_orphaned = true;
    } else {
        destroy(staple);
    }
}

static void staple_keep(struct tls_staple *staple, struct str der)
{
    char *copy = malloc(der.len);

    if (copy == NULL) {
        fatal_no_memory(der.len);
    }
    memcpy(copy, der.data, der.len);
    free(staple->der);
    staple->der = copy;
    staple->size = der.len;
}

/* ---- requests ---- */

static void staple_take(struct tls_staple *staple, const struct ocsp_response *response)
{
    uint64_t now = (uint64_t) time(NULL);
    uint64_t ask_at = now + ASK_AT_MOST_S;
    const struct log log = tls_log(&staple->settings);

    if (response->status != V_OCSP_CERTSTATUS_GOOD) {
        log_error(&log, 0, "certificate status \"%s\" in the OCSP response",
                  OCSP_cert_status_str(response->status));
        return;
    }
    staple_keep(staple, response->der);
    staple->valid_until = response->valid_until;
    if (response->valid_until < ask_at + ASK_AGAIN_S) {
        ask_at = response->valid_until > ASK_AGAIN_S ? response->valid_until - ASK_AGAIN_S : 0;
    }
    staple->ask_at = ask_at < now + ASK_AGAIN_S ? now + ASK_AGAIN_S : ask_at;
}

static void ask_responder(void *arg)
{
    struct tls_staple *staple = arg;
    struct log log = tls_log(&staple->settings);
    struct arena arena;
    struct ocsp_response response;
    const struct ocsp_question question = {
        .certificate = staple->certificate,
        .issuer = staple->issuer,
        .store = staple->store,
        .verifies = staple->settings.stapling_verify,
        .target = &staple->target,
        .settings = &staple->settings,
        .log = &log,
    };

    log.action = "requesting certificate status";
    arena_init(&arena);
    if (ocsp_ask(&question, &arena, &response)) {
        staple_take(staple, &response);
    }
    arena_free(&arena);
    staple->is_asking = false;
    list_remove(&staple->at_asking);
    if (staple->is_orphaned) {
        destroy(staple);
    }
}

static void refresh(struct tls_staple *staple)
{
    uint64_t now = (uint64_t) time(NULL);

    if (staple->is_from_file || staple->is_asking || now < staple->ask_at) {
        return;
    }
    staple->is_asking = true;
    staple->ask_at = now + ASK_AGAIN_S;
    list_push_back(&asking, &staple->at_asking);
    if (fiber_start(ask_responder, staple, &staple->fiber) == FIBER_NO_STACK) {
        staple->is_asking = false;
        list_remove(&staple->at_asking);
    }
}

void tls_worker_quit(void)
{
    list_each(item, &asking) {
        fiber_cancel(container_of(item, struct tls_staple, at_asking)->fiber);
    }
}

/* ---- in the handshake ---- */

static struct tls_staple *staple_find(const struct tls_context *context, const X509 *certificate)
{
    vec_each(const struct tls_identity, identity, &context->identities) {
        if (identity->leaf == certificate) {
            return identity->staple;
        }
    }
    return NULL;
}

static int on_status_request(SSL *ssl, void *arg)
{
    struct tls_staple *staple = staple_find(tls_chosen_context(ssl), SSL_get_certificate(ssl));

    if (staple == NULL) {
        return SSL_TLSEXT_ERR_NOACK;
    }
    int result = SSL_TLSEXT_ERR_NOACK;
    if (staple->der != NULL && staple->valid_until >= (uint64_t) time(NULL)) {
        unsigned char *copy = OPENSSL_memdup(staple->der, staple->size);
        if (copy != NULL) {
            SSL_set_tlsext_status_ocsp_resp(ssl, copy, (long) staple->size);
            result = SSL_TLSEXT_ERR_OK;
        }
    }
    refresh(staple);
    return result;
}

/* ---- when the configuration is read ---- */

static struct tls_staple *staple_new(struct tls_context *context, SSL_CTX *ctx,
                                     struct tls_identity *identity)
{
    struct tls_staple *staple = calloc(1, sizeof(*staple));

    if (staple == NULL) {
        fatal_no_memory(sizeof(*staple));
    }
    arena_init(&staple->arena);
    staple->settings = context->settings;
    staple->certificate = identity->leaf;
    X509_up_ref(identity->leaf);
    staple->store = SSL_CTX_get_cert_store(ctx);
    X509_STORE_up_ref(staple->store);
    identity->staple = staple;
    return staple;
}

static bool load_file(struct tls_staple *staple, struct arena *arena, struct str name,
                      struct str *error)
{
    BIO *bio = BIO_new_file(arena_cstr(arena, name), "rb");

    if (bio == NULL) {
        *error = tls_reason(arena, "BIO_new_file(\"%.*s\") failed", STR_ARG(name));
        return false;
    }
    OCSP_RESPONSE *response = d2i_OCSP_RESPONSE_bio(bio, NULL);
    BIO_free(bio);
    if (response == NULL) {
        *error = tls_reason(arena, "d2i_OCSP_RESPONSE_bio(\"%.*s\") failed", STR_ARG(name));
        return false;
    }
    unsigned char *der = NULL;
    int size = i2d_OCSP_RESPONSE(response, &der);
    OCSP_RESPONSE_free(response);
    if (size <= 0) {
        *error = tls_reason(arena, "i2d_OCSP_RESPONSE(\"%.*s\") failed", STR_ARG(name));
        return false;
    }
    staple_keep(staple, (struct str){(char *) der, (size_t) size});
    OPENSSL_free(der);
    staple->is_from_file = true;
    staple->valid_until = UINT64_MAX;
    return true;
}

/* Finds the issuer in the chain, or among the trusted certificates. */
static X509 *find_issuer(const struct tls_identity *identity, X509_STORE *store)
{
    X509 *issuer = NULL;

    if (identity->issuer != NULL) {
        X509_up_ref(identity->issuer);
        return identity->issuer;
    }
    X509_STORE_CTX *search = X509_STORE_CTX_new();
    if (search != NULL && X509_STORE_CTX_init(search, store, NULL, NULL) == 1 &&
        X509_STORE_CTX_get1_issuer(&issuer, search, identity->leaf) != 1) {
        issuer = NULL;
    }
    X509_STORE_CTX_free(search);
    ERR_clear_error();
    return issuer;
}

/* Finds the responder: as configured, or as in the certificate. False: logged; there is no
 * stapling. */
static bool find_target(struct tls_staple *staple, const struct tls_identity *identity,
                        const struct log *log)
{
    struct str url = staple->settings.stapling_responder;

    if (url.len == 0) {
        STACK_OF(OPENSSL_STRING) *list = X509_get1_ocsp(identity->leaf);
        if (sk_OPENSSL_STRING_num(list) > 0) {
            url = arena_dup(&staple->arena, str_of(sk_OPENSSL_STRING_value(list, 0)));
        }
        X509_email_free(list);
    }
    if (url.len == 0) {
        log_warn(log, 0,
                 "\"ssl_stapling\" ignored, no OCSP responder URL in the certificate \"%.*s\"",
                 STR_ARG(identity->name));
        return false;
    }
    if (!ocsp_target_parse(&staple->arena, url, &staple->target)) {
        log_warn(log, 0,
                 "\"ssl_stapling\" ignored, invalid URL prefix in OCSP responder \"%.*s\" in the "
                 "certificate \"%.*s\"",
                 STR_ARG(url), STR_ARG(identity->name));
        return false;
    }
    if (staple->settings.resolver == NULL &&
        !addr_parse(&staple->arena, staple->target.host, staple->target.port, false,
                    &staple->target.addresses)) {
        log_warn(log, 0,
                 "\"ssl_stapling\" ignored, %s in OCSP responder \"%.*s\" in the certificate "
                 "\"%.*s\"",
                 staple->target.addresses.error, STR_ARG(url), STR_ARG(identity->name));
        return false;
    }
    return true;
}

static bool init_one(struct tls_context *context, const struct tls_making *making,
                     struct tls_identity *identity, const struct log *log)
{
    struct tls_staple *staple = staple_new(context, making->ctx, identity);

    if (context->settings.stapling_file.len != 0) {
        return load_file(staple, making->arena, context->settings.stapling_file, making->error);
    }
    staple->issuer = find_issuer(identity, staple->store);
    if (staple->issuer == NULL) {
        log_warn(log, 0,
                 "\"ssl_stapling\" ignored, issuer certificate not found for certificate \"%.*s\"",
                 STR_ARG(identity->name));
    }
    if (staple->issuer == NULL || !find_target(staple, identity, log)) {
        tls_staple_free(staple);
        identity->staple = NULL;
    }
    return true;
}

bool tls_staples_init(struct tls_context *context, const struct tls_making *making,
                      const struct log *log)
{
    if (!context->settings.stapling) {
        return true;
    }
    vec_each(struct tls_identity, identity, making->identities) {
        if (!init_one(context, making, identity, log)) {
            return false;
        }
    }
    SSL_CTX_set_tlsext_status_cb(making->ctx, on_status_request);
    return true;
}
