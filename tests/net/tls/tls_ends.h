/* Both ends of TLS under test: contexts, a certificate, a client of OpenSSL's own. The clock is
 * ours. */
#ifndef TESTS_NET_TLS_ENDS_H
#define TESTS_NET_TLS_ENDS_H

#include "net/pair.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ocsp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

#include "base/shm.h"
#include "net/tls/tls.h"
#include "net/tls/private.h"

#define ZONE_SIZE (64 * 1024)

/* The clock of tickets and sessions, ours and the library's. */
static time_t now_s;

time_t time(time_t *out)
{
    if (out != NULL) {
        *out = now_s;
    }
    return now_s;
}

/* ---- a certificate, and contexts ---- */

static char certificate_data[8192];
static char key_data[8192];

static inline void put_data(char *out, size_t size, BIO *bio)
{
    char *text;
    long length = BIO_get_mem_data(bio, &text);

    assert_true(length > 0 && (size_t) length + 6 < size);
    memcpy(out, "data:", 5);
    memcpy(out + 5, text, (size_t) length);
    out[5 + length] = '\0';
    BIO_free(bio);
}

static inline void make_certificate(void)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *x509 = X509_new();
    X509_NAME *name = X509_get_subject_name(x509);

    X509_set_version(x509, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x509), 7);
    ASN1_TIME_set(X509_getm_notBefore(x509), now_s - 1000);
    ASN1_TIME_set(X509_getm_notAfter(x509), now_s + 100000000);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *) "test", -1, -1, 0);
    X509_set_issuer_name(x509, name);
    X509_set_pubkey(x509, key);
    assert_true(X509_sign(x509, key, EVP_sha256()) > 0);
    BIO *bio = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(bio, x509);
    put_data(certificate_data, sizeof(certificate_data), bio);
    bio = BIO_new(BIO_s_mem());
    PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL);
    put_data(key_data, sizeof(key_data), bio);
    X509_free(x509);
    EVP_PKEY_free(key);
}

static struct arena arena;

static inline struct tls_settings usual(void)
{
    struct tls_settings settings = {
        .protocols = TLS_1_2 | TLS_1_3,
        .ciphers = STR("HIGH:!aNULL:!MD5"),
        .curves = STR("auto"),
        .tickets = true,
        .has_session_cache = true,
        .session_timeout_s = 300,
        .buffer_size = 16384,
    };
    struct tls_certificate *pair = vec_add(&settings.certificates, &arena, struct tls_certificate);

    pair->certificate = str_of(certificate_data);
    pair->key = str_of(key_data);
    return settings;
}

static inline struct tls_context *context_of(const struct tls_settings *settings)
{
    struct str error;
    struct tls_context *context = tls_context_new(settings, &arena, log_main, &error);

    if (context == NULL) {
        fail_msg("%.*s", STR_ARG(error));
    }
    return context;
}

static inline struct zone *zone_new(size_t size)
{
    struct zone *zone = arena_new(&arena, struct zone);

    zone->name = STR("zone");
    zone->size = size;
    zone->memory = shm_map(size);
    zone->slab = slab_init(zone->memory, size);
    assert_non_null(zone->slab);
    return zone;
}

static inline void zone_free(struct zone *zone)
{
    shm_unmap(zone->memory, zone->size);
}

/* ---- both ends ---- */

/* A connection that speaks TLS, and its client. */
struct ends {
    struct pair pair;
    SSL *client;
    enum tls_progress progress;
};

static SSL_CTX *client_ctx;

static inline struct tls_context *select_none(struct conn *conn, struct str name,
                                              struct str *protocols, void *arg)
{
    struct tls_context **contexts = arg;

    *protocols = STR("\x02h2\x08http/1.1");
    return str_is(name, "other") ? contexts[1] : str_is(name, "nobody") ? NULL : contexts[0];
}

static inline void ends_open(struct ends *ends, struct tls_context *context,
                             const struct tls_selector *selector)
{
    pair_open(&ends->pair);
    ends->progress = TLS_MORE;
    assert_true(tls_accept(ends->pair.conn, context, selector));
    assert_int_equal(fcntl(ends->pair.peer, F_SETFL, O_NONBLOCK), 0);
    ends->client = SSL_new(client_ctx);
    SSL_set_fd(ends->client, ends->pair.peer);
    SSL_set_connect_state(ends->client);
}

static inline void ends_close(struct ends *ends)
{
    pair_close(&ends->pair);
    SSL_free(ends->client);
    ERR_clear_error();
}

/* Until both sides are done, or one has failed. 1 = the client is done. */
static inline int shake_hands(struct ends *ends)
{
    int result = -1;

    for (int i = 0; i < 200; i++) {
        if (result != 1) {
            result = SSL_do_handshake(ends->client);
        }
        if (ends->progress == TLS_MORE) {
            ends->pair.conn->is_readable = 1;
            ends->progress = tls_handshake(ends->pair.conn);
        }
        if ((result == 1 && ends->progress == TLS_DONE) || ends->progress == TLS_FAILED ||
            ends->progress == TLS_PLAIN) {
            break;
        }
    }
    tls_flush(ends->pair.conn);
    ERR_clear_error();
    return result;
}

/* The client reads so many bytes while the loop turns. */
static inline void client_reads(struct ends *ends, char *at, size_t size)
{
    size_t got = 0;

    while (got < size) {
        int n = SSL_read(ends->client, at + got, (int) (size - got));
        if (n > 0) {
            got += (size_t) n;
            continue;
        }
        assert_int_equal(SSL_get_error(ends->client, n), SSL_ERROR_WANT_READ);
        loop_turn(10);
    }
}

static inline void hello_both_ways(struct ends *ends)
{
    char bytes[8];

    assert_true(conn_watch(ends->pair.conn));
    assert_int_equal(SSL_write(ends->client, "question", 8), 8);
    ends->pair.conn->is_readable = 1;
    turn_until(conn_input_len(ends->pair.conn) == 8 || conn_fill(ends->pair.conn, 1024, 65536));
    assert_input(ends->pair.conn, "question");
    conn_write(ends->pair.conn, STR("answer"));
    assert_true(conn_flush(ends->pair.conn));
    client_reads(ends, bytes, 6);
    assert_memory_equal(bytes, "answer", 6);
}

static inline int setup(void **state)
{
    now_s = 1800000000;
    tls_library_init();
    arena_init(&arena);
    make_certificate();
    client_ctx = SSL_CTX_new(TLS_client_method());
    return loop_setup(state);
}

static inline int teardown(void **state)
{
    SSL_CTX_free(client_ctx);
    arena_free(&arena);
    return loop_teardown(state);
}

#define TLS_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
