/* TLS over a pair of sockets: handshakes, bytes both ways, sessions and tickets of several workers, what is broken. */
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
#include "net/tls.h"
#include "net/tls_private.h"

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

static void put_data(char *out, size_t size, BIO *bio)
{
    char *text;
    long length = BIO_get_mem_data(bio, &text);

    assert_true(length > 0 && (size_t) length + 6 < size);
    memcpy(out, "data:", 5);
    memcpy(out + 5, text, (size_t) length);
    out[5 + length] = '\0';
    BIO_free(bio);
}

static void make_certificate(void)
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

static struct tls_settings usual(void)
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
    struct tls_certificate *pair = vec_push(&settings.certificates, &arena, sizeof(*pair));

    pair->certificate = str_of(certificate_data);
    pair->key = str_of(key_data);
    return settings;
}

static struct tls_context *context_of(const struct tls_settings *settings)
{
    struct str error;
    struct tls_context *context = tls_context_new(settings, &arena, log_main, &error);

    if (context == NULL) {
        fail_msg("%.*s", STR_ARG(error));
    }
    return context;
}

static struct zone *zone_new(size_t size)
{
    struct zone *zone = arena_new(&arena, struct zone);

    zone->name = STR("zone");
    zone->size = size;
    zone->memory = shm_map(size);
    zone->slab = slab_init(zone->memory, size);
    assert_non_null(zone->slab);
    return zone;
}

static void zone_free(struct zone *zone)
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

static struct tls_context *select_none(struct conn *conn, struct str name, struct str *protocols,
                                       void *arg)
{
    struct tls_context **contexts = arg;

    *protocols = STR("\x02h2\x08http/1.1");
    return str_is(name, "other") ? contexts[1] : str_is(name, "nobody") ? NULL : contexts[0];
}

static void ends_open(struct ends *ends, struct tls_context *context,
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

static void ends_close(struct ends *ends)
{
    pair_close(&ends->pair);
    SSL_free(ends->client);
    ERR_clear_error();
}

/* Until both sides are done, or one has failed. 1 = the client is done. */
static int shake_hands(struct ends *ends)
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
static void client_reads(struct ends *ends, char *at, size_t size)
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

static void hello_both_ways(struct ends *ends)
{
    char bytes[8];

    assert_true(conn_watch(ends->pair.conn));
    assert_int_equal(SSL_write(ends->client, "question", 8), 8);
    ends->pair.conn->is_readable = 1;
    turn_until(conn_input(ends->pair.conn).len == 8 || conn_fill(ends->pair.conn, 1024, 65536));
    assert_input(ends->pair.conn, "question");
    conn_write(ends->pair.conn, STR("answer"));
    assert_true(conn_flush(ends->pair.conn));
    client_reads(ends, bytes, 6);
    assert_memory_equal(bytes, "answer", 6);
}

static int setup(void **state)
{
    now_s = 1800000000;
    tls_library_init();
    arena_init(&arena);
    make_certificate();
    client_ctx = SSL_CTX_new(TLS_client_method());
    return loop_setup(state);
}

static int teardown(void **state)
{
    SSL_CTX_free(client_ctx);
    arena_free(&arena);
    return loop_teardown(state);
}

#define TLS_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* ---- tests ---- */

static void handshake_and_bytes(void **state)
{
    struct tls_settings settings = usual();
    struct tls_context *context = context_of(&settings);
    struct ends ends;
    struct str value;

    ends_open(&ends, context, NULL);
    assert_int_equal(shake_hands(&ends), 1);
    assert_true(conn_is_tls(ends.pair.conn));
    hello_both_ways(&ends);
    assert_true(tls_variable(ends.pair.conn, STR("protocol"), &arena, &value));
    assert_true(str_is(value, "TLSv1.3"));
    assert_false(tls_variable(ends.pair.conn, STR("nonsense"), &arena, &value));
    ends_close(&ends);
}

static void plain_bytes_are_given_back(void **state)
{
    struct tls_settings settings = usual();
    struct tls_context *context = context_of(&settings);
    struct ends ends;

    ends_open(&ends, context, NULL);
    assert_int_equal(send(ends.pair.peer, "GET / HTTP/1.0\r\n", 16, 0), 16);
    await_readable(ends.pair.conn->source.fd);
    assert_int_equal(tls_handshake(ends.pair.conn), TLS_PLAIN);
    assert_false(conn_is_tls(ends.pair.conn));
    assert_input(ends.pair.conn, "GET / HTTP/1.0\r\n");
    ends_close(&ends);
}

static void bytes_read_before_belong_to_the_handshake(void **state)
{
    struct tls_settings settings = usual();
    struct tls_context *context = context_of(&settings);
    struct ends ends = {.progress = TLS_MORE};

    pair_open(&ends.pair);
    fcntl(ends.pair.peer, F_SETFL, O_NONBLOCK);
    ends.client = SSL_new(client_ctx);
    SSL_set_fd(ends.client, ends.pair.peer);
    SSL_set_connect_state(ends.client);
    peer_sends(&ends.pair, "PROXY\r\n");
    assert_int_equal(SSL_do_handshake(ends.client), -1);
    await_readable(ends.pair.conn->source.fd);
    assert_true(conn_fill(ends.pair.conn, 4096, 4096));
    conn_consume(ends.pair.conn, 7);
    assert_true(tls_accept(ends.pair.conn, context, NULL));
    assert_int_equal(shake_hands(&ends), 1);
    hello_both_ways(&ends);
    ends_close(&ends);
}

static void names_choose_contexts(void **state)
{
    struct tls_settings settings = usual();
    struct tls_settings old = usual();
    old.protocols = TLS_1_2;
    struct tls_context *contexts[2] = {context_of(&settings), context_of(&old)};
    const struct tls_selector selector = {.select = select_none, .arg = contexts};
    static const unsigned char offer[] = "\x08http/1.1";
    struct ends ends;

    ends_open(&ends, contexts[0], &selector);
    SSL_set_tlsext_host_name(ends.client, "OTHER");
    SSL_set_alpn_protos(ends.client, offer, sizeof(offer) - 1);
    assert_int_equal(shake_hands(&ends), 1);
    assert_int_equal(SSL_version(ends.client), TLS1_2_VERSION);
    assert_true(str_is(tls_alpn(ends.pair.conn), "http/1.1"));
    assert_true(str_is(tls_server_name(ends.pair.conn), "OTHER"));
    ends_close(&ends);

    ends_open(&ends, contexts[0], &selector);
    SSL_set_tlsext_host_name(ends.client, "nobody");
    assert_int_not_equal(shake_hands(&ends), 1);
    assert_int_equal(ends.progress, TLS_FAILED);
    ends_close(&ends);
}

static void much_output_through_a_small_socket(void **state)
{
    struct tls_settings settings = usual();
    struct tls_context *context = context_of(&settings);
    enum { SIZE = 3 * 1024 * 1024 };
    unsigned char *bytes = malloc(SIZE);
    char *got = malloc(2 * SIZE);
    int small = 16384;
    int fd = memfd_create("file", MFD_CLOEXEC);
    struct ends ends;

    for (size_t i = 0; i < SIZE; i++) {
        bytes[i] = (unsigned char) (i * 31 + i / 509);
    }
    assert_int_equal(write(fd, bytes, SIZE), SIZE);
    ends_open(&ends, context, NULL);
    setsockopt(ends.pair.conn->source.fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    assert_int_equal(shake_hands(&ends), 1);
    assert_true(conn_watch(ends.pair.conn));
    conn_write_reference(ends.pair.conn, (struct str){(char *) bytes, SIZE}, NULL, NULL);
    conn_write_file(ends.pair.conn, fd, 0, SIZE, NULL, NULL);
    assert_true(conn_flush(ends.pair.conn));
    client_reads(&ends, got, 2 * SIZE);
    assert_memory_equal(got, bytes, SIZE);
    assert_memory_equal(got + SIZE, bytes, SIZE);
    turn_until(conn_unsent(ends.pair.conn) == 0);
    ends_close(&ends);
    close(fd);
    free(bytes);
    free(got);
}

static void records_have_the_size_that_is_wanted(void **state)
{
    struct tls_settings settings = usual();
    settings.buffer_size = 1400;
    struct tls_context *context = context_of(&settings);
    static char bytes[10000];
    struct ends ends;

    ends_open(&ends, context, NULL);
    assert_int_equal(shake_hands(&ends), 1);
    assert_true(conn_watch(ends.pair.conn));
    conn_write_reference(ends.pair.conn, (struct str){bytes, sizeof(bytes)}, NULL, NULL);
    assert_true(conn_flush(ends.pair.conn));
    int n;
    while ((n = SSL_read(ends.client, bytes, sizeof(bytes))) <= 0) {
        loop_turn(10);
    }
    assert_int_equal(n, 1400);
    ends_close(&ends);
}

static void broken_record_ends_it(void **state)
{
    struct tls_settings settings = usual();
    struct tls_context *context = context_of(&settings);
    struct ends ends;

    ends_open(&ends, context, NULL);
    assert_int_equal(shake_hands(&ends), 1);
    assert_int_equal(send(ends.pair.peer, "\x17\x03\x03\x00\x20garbage-garbage-garbage-garbage-",
                          37, 0),
                     37);
    await_readable(ends.pair.conn->source.fd);
    ends.pair.conn->is_readable = 1;
    loop_turn(0);
    while (conn_fill(ends.pair.conn, 1024, 65536)) {
    }
    assert_true(ends.pair.conn->is_broken);
    ends_close(&ends);
}

static void end_without_close_notify_is_an_end(void **state)
{
    struct tls_settings settings = usual();
    struct tls_context *context = context_of(&settings);
    struct ends ends;

    ends_open(&ends, context, NULL);
    assert_int_equal(shake_hands(&ends), 1);
    shutdown(ends.pair.peer, SHUT_WR);
    await_readable(ends.pair.conn->source.fd);
    loop_turn(0);
    ends.pair.conn->is_readable = 1;
    assert_false(conn_fill(ends.pair.conn, 1024, 65536));
    assert_true(ends.pair.conn->is_input_closed);
    assert_false(ends.pair.conn->is_broken);
    ends_close(&ends);
}

static void close_notify_is_said_once(void **state)
{
    struct tls_settings settings = usual();
    struct tls_context *context = context_of(&settings);
    struct ends ends;
    char byte;

    ends_open(&ends, context, NULL);
    assert_int_equal(shake_hands(&ends), 1);
    conn_shutdown_output(ends.pair.conn);
    conn_close(ends.pair.conn);
    ends.pair.conn = NULL;
    assert_int_equal(SSL_read(ends.client, &byte, 1), 0);
    assert_int_equal(SSL_get_error(ends.client, 0), SSL_ERROR_ZERO_RETURN);
    assert_int_equal(recv(ends.pair.peer, &byte, 1, 0), 0);
    ends_close(&ends);
}

static void last_answer_and_close_notify_leave_together(void **state)
{
    struct tls_settings settings = usual();
    struct tls_context *context = context_of(&settings);
    struct ends ends;
    char bytes[8];

    ends_open(&ends, context, NULL);
    assert_int_equal(shake_hands(&ends), 1);
    ends.pair.conn->is_last_output = 1;
    conn_write(ends.pair.conn, STR("answer"));
    assert_true(conn_flush(ends.pair.conn));
    client_reads(&ends, bytes, 6);
    assert_memory_equal(bytes, "answer", 6);
    assert_int_equal(SSL_read(ends.client, bytes, 1), 0);
    assert_int_equal(SSL_get_error(ends.client, 0), SSL_ERROR_ZERO_RETURN);
    ends_close(&ends);
}

static unsigned tickets_seen;

static int count_ticket(SSL *ssl, SSL_SESSION *session)
{
    tickets_seen++;
    return 0;
}

/* Tickets that a client of TLS 1.3 gets. */
static unsigned tickets_of(struct tls_context *context)
{
    struct ends ends;
    char bytes[8];

    tickets_seen = 0;
    ends_open(&ends, context, NULL);
    assert_int_equal(shake_hands(&ends), 1);
    conn_write(ends.pair.conn, STR("answer"));
    assert_true(conn_flush(ends.pair.conn));
    client_reads(&ends, bytes, 6);
    ends_close(&ends);
    return tickets_seen;
}

static void one_ticket_unless_told_otherwise(void **state)
{
    struct tls_settings settings = usual();

    SSL_CTX_set_session_cache_mode(client_ctx, SSL_SESS_CACHE_CLIENT);
    SSL_CTX_sess_set_new_cb(client_ctx, count_ticket);
    settings.ticket_zone = zone_new(ZONE_SIZE);
    assert_int_equal(tickets_of(context_of(&settings)), 1);
    *(struct str *) vec_push(&settings.commands, &arena, sizeof(struct str)) = STR("NumTickets");
    *(struct str *) vec_push(&settings.commands, &arena, sizeof(struct str)) = STR("3");
    assert_int_equal(tickets_of(context_of(&settings)), 3);
    SSL_CTX_sess_set_new_cb(client_ctx, NULL);
    zone_free(settings.ticket_zone);
}

/* ---- sessions ---- */

/* Connects to one context; gives the session. reused: whether the one that was given is taken. */
static SSL_SESSION *connect_once(struct tls_context *context, SSL_SESSION *session, int version,
                                 bool *reused)
{
    struct ends ends;
    char byte;

    ends_open(&ends, context, NULL);
    SSL_set_min_proto_version(ends.client, version);
    SSL_set_max_proto_version(ends.client, version);
    if (session != NULL) {
        SSL_set_session(ends.client, session);
    }
    assert_int_equal(shake_hands(&ends), 1);
    SSL_read(ends.client, &byte, 1); /* tickets of TLS 1.3 */
    *reused = SSL_session_reused(ends.client) == 1;
    SSL_SESSION *made = SSL_get1_session(ends.client);
    SSL_shutdown(ends.client);
    ends_close(&ends);
    return made;
}

/* Two contexts of the same settings are as two workers. */
static void expect_shared_sessions(const struct tls_settings *settings, int version)
{
    struct tls_context *first = context_of(settings);
    struct tls_context *second = context_of(settings);
    bool reused;
    SSL_SESSION *session = connect_once(first, NULL, version, &reused);

    assert_false(reused);
    SSL_SESSION_free(connect_once(second, session, version, &reused));
    assert_true(reused);
    SSL_SESSION_free(session);
}

static void sessions_are_shared_by_workers(void **state)
{
    struct tls_settings settings = usual();
    settings.tickets = false;
    settings.session_zone = zone_new(ZONE_SIZE);
    expect_shared_sessions(&settings, TLS1_2_VERSION);
    expect_shared_sessions(&settings, TLS1_3_VERSION);
    zone_free(settings.session_zone);
}

static void sessions_grow_old(void **state)
{
    struct tls_settings settings = usual();
    settings.tickets = false;
    settings.session_zone = zone_new(ZONE_SIZE);
    struct tls_context *context = context_of(&settings);
    bool reused;
    SSL_SESSION *session = connect_once(context, NULL, TLS1_2_VERSION, &reused);

    SSL_SESSION_set_timeout(session, 100000);
    now_s += 299;
    SSL_SESSION_free(connect_once(context, session, TLS1_2_VERSION, &reused));
    assert_true(reused);
    now_s += 2;
    SSL_SESSION_free(connect_once(context, session, TLS1_2_VERSION, &reused));
    assert_false(reused);
    SSL_SESSION_free(session);
    zone_free(settings.session_zone);
}

static void full_zone_forgets_the_oldest(void **state)
{
    struct tls_settings settings = usual();
    settings.tickets = false;
    settings.session_zone = zone_new(ZONE_SIZE);
    struct tls_context *context = context_of(&settings);
    bool reused;
    SSL_SESSION *oldest = connect_once(context, NULL, TLS1_2_VERSION, &reused);
    SSL_SESSION *newest = NULL;

    for (int i = 0; i < 400; i++) {
        SSL_SESSION_free(newest);
        newest = connect_once(context, NULL, TLS1_2_VERSION, &reused);
    }
    SSL_SESSION_free(connect_once(context, newest, TLS1_2_VERSION, &reused));
    assert_true(reused);
    SSL_SESSION_free(connect_once(context, oldest, TLS1_2_VERSION, &reused));
    assert_false(reused);
    SSL_SESSION_free(oldest);
    SSL_SESSION_free(newest);
    zone_free(settings.session_zone);
}

static void tickets_are_shared_by_workers(void **state)
{
    struct tls_settings settings = usual();
    settings.ticket_zone = zone_new(ZONE_SIZE);
    expect_shared_sessions(&settings, TLS1_2_VERSION);
    expect_shared_sessions(&settings, TLS1_3_VERSION);
    zone_free(settings.ticket_zone);
}

static void ticket_keys_change(void **state)
{
    struct tls_settings settings = usual();
    settings.ticket_zone = zone_new(ZONE_SIZE);
    struct tls_context *context = context_of(&settings);
    bool reused;
    SSL_SESSION *session = connect_once(context, NULL, TLS1_2_VERSION, &reused);

    SSL_SESSION_set_timeout(session, 100000);
    now_s += 200; /* another session makes the key go on */
    SSL_SESSION_free(connect_once(context, NULL, TLS1_2_VERSION, &reused));
    now_s += 150; /* the key is the one before now, its session too old */
    SSL_SESSION *fresh = connect_once(context, session, TLS1_2_VERSION, &reused);
    assert_false(reused);
    SSL_SESSION_free(connect_once(context, fresh, TLS1_2_VERSION, &reused));
    assert_true(reused);
    SSL_SESSION_free(session);
    SSL_SESSION_free(fresh);

    session = connect_once(context, NULL, TLS1_2_VERSION, &reused);
    SSL_SESSION_set_timeout(session, 100000);
    now_s += 290;
    SSL_SESSION_free(connect_once(context, session, TLS1_2_VERSION, &reused));
    assert_true(reused); /* its key has been replaced meanwhile */
    SSL_SESSION_free(session);
    zone_free(settings.ticket_zone);
}

static void errors_name_file_and_reason(void **state)
{
    struct tls_settings settings = usual();
    struct str error;

    vec_at(&settings.certificates, struct tls_certificate, 0)->key = STR("/nonexistent/k");
    assert_null(tls_context_new(&settings, &arena, log_main, &error));
    assert_true(str_starts(error, STR("cannot load certificate key \"/nonexistent/k\": "
                                      "BIO_new_file() failed (SSL: error:80000002:")));
    vec_at(&settings.certificates, struct tls_certificate, 0)->key = STR("data:secret");
    assert_null(tls_context_new(&settings, &arena, log_main, &error));
    assert_null(str_find(error, STR("secret")));
}

static void responder_urls(void **state)
{
    struct ocsp_target target;

    assert_true(ocsp_target_parse(&arena, STR("http://a.b"), &target));
    assert_true(str_is(target.host, "a.b") && target.port == 80 && target.path.len == 0);
    assert_true(ocsp_target_parse(&arena, STR("HTTP://a:81/x/y/"), &target));
    assert_true(str_is(target.host, "a") && target.port == 81 && str_is(target.path, "/x/y"));
    assert_false(ocsp_target_parse(&arena, STR("https://a"), &target));
    assert_false(ocsp_target_parse(&arena, STR("http://"), &target));
    assert_false(ocsp_target_parse(&arena, STR("http://a:b/"), &target));
    assert_false(ocsp_target_parse(&arena, STR("http://a/x\r\ny"), &target));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TLS_TEST(handshake_and_bytes),
        TLS_TEST(plain_bytes_are_given_back),
        TLS_TEST(bytes_read_before_belong_to_the_handshake),
        TLS_TEST(names_choose_contexts),
        TLS_TEST(much_output_through_a_small_socket),
        TLS_TEST(records_have_the_size_that_is_wanted),
        TLS_TEST(broken_record_ends_it),
        TLS_TEST(end_without_close_notify_is_an_end),
        TLS_TEST(close_notify_is_said_once),
        TLS_TEST(last_answer_and_close_notify_leave_together),
        TLS_TEST(one_ticket_unless_told_otherwise),
        TLS_TEST(sessions_are_shared_by_workers),
        TLS_TEST(sessions_grow_old),
        TLS_TEST(full_zone_forgets_the_oldest),
        TLS_TEST(tickets_are_shared_by_workers),
        TLS_TEST(ticket_keys_change),
        TLS_TEST(errors_name_file_and_reason),
        TLS_TEST(responder_urls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
