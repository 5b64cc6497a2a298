/* Resumption over a pair of sockets: sessions and tickets of several workers. */
#include "net/tls/tls_ends.h"

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
    *vec_add(&settings.commands, &arena, struct str) = STR("NumTickets");
    *vec_add(&settings.commands, &arena, struct str) = STR("3");
    assert_int_equal(tickets_of(context_of(&settings)), 3);
    SSL_CTX_sess_set_new_cb(client_ctx, NULL);
    zone_free(settings.ticket_zone);
}

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        TLS_TEST(one_ticket_unless_told_otherwise),
        TLS_TEST(sessions_are_shared_by_workers),
        TLS_TEST(sessions_grow_old),
        TLS_TEST(full_zone_forgets_the_oldest),
        TLS_TEST(tickets_are_shared_by_workers),
        TLS_TEST(ticket_keys_change),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
