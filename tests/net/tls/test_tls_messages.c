/* Handshakes without records: both sides, by level; tickets, names, alerts, what is refused. */
#include "net/tls/tls_ends.h"

#include "base/unit.h"
#include "net/tls/messages.h"

#define H3 STR_INIT("\x02h3")

/* One side. What it says waits in `out` until it is carried over. */
struct side {
    struct conn *conn;
    struct side *peer;
    enum tls_progress progress;
    char out[TLS_LEVELS][32768];
    size_t out_size[TLS_LEVELS];
    unsigned char secrets[TLS_LEVELS][2][EVP_MAX_MD_SIZE];
    size_t secret_size[TLS_LEVELS][2];
    unsigned suite;
    char heard[64];
    size_t heard_size;
    struct str own;
    int resumes;
    bool refuses_parameters;
};

static bool on_secret(void *arg, enum tls_level level, bool is_for_sending, unsigned suite,
                      struct str secret)
{
    struct side *side = arg;

    memcpy(side->secrets[level][is_for_sending], secret.data, secret.len);
    side->secret_size[level][is_for_sending] = secret.len;
    side->suite = suite;
    return true;
}

static void on_send(void *arg, enum tls_level level, struct str bytes)
{
    struct side *side = arg;

    assert_true(sizeof(side->out[level]) - side->out_size[level] >= bytes.len);
    memcpy(side->out[level] + side->out_size[level], bytes.data, bytes.len);
    side->out_size[level] += bytes.len;
}

static bool on_parameters(void *arg, struct str bytes)
{
    struct side *side = arg;

    assert_true(bytes.len < sizeof(side->heard));
    memcpy(side->heard, bytes.data, bytes.len);
    side->heard_size = bytes.len;
    return !side->refuses_parameters;
}

static struct str on_own_parameters(void *arg)
{
    return ((struct side *) arg)->own;
}

static void on_resume(void *arg)
{
    ((struct side *) arg)->resumes++;
}

static const struct tls_messages_owner owner = {on_secret, on_send, on_parameters,
                                                on_own_parameters, on_resume};
static const struct conn_owner conn_owner;
static struct side server, client;
static struct tls_context *client_context;
static struct tls_client_options options;
static struct str offer = H3;

static struct tls_context *select_h3(struct conn *conn, struct str name, struct str *protocols,
                                     void *arg)
{
    struct tls_context *context = select_none(conn, name, protocols, arg);

    *protocols = offer;
    return context;
}

static void open_sides(struct tls_context **contexts)
{
    static struct tls_selector selector;

    selector = (struct tls_selector){.select = select_h3, .arg = contexts};
    memset(&server, 0, sizeof(server));
    memset(&client, 0, sizeof(client));
    server.peer = &client;
    client.peer = &server;
    server.own = STR("of the server");
    client.own = STR("of the client");
    server.progress = client.progress = TLS_MORE;
    server.conn = conn_new(-1, NULL, &conn_owner, log_main);
    client.conn = conn_new(-1, NULL, &conn_owner, log_main);
    assert_true(tls_messages_accept(server.conn, contexts[0], &selector, &owner, &server));
    assert_true(tls_messages_connect(client.conn, client_context, &options, &owner, &client));
}

static void close_sides(void)
{
    conn_close(server.conn);
    conn_close(client.conn);
    ERR_clear_error();
}

/* Carries over what one side has said, in pieces of so many bytes. Gives whether there was
 * something. */
static bool carry(struct side *from, size_t piece)
{
    bool has_some = false;

    for (enum tls_level level = TLS_LEVEL_INITIAL; level < TLS_LEVELS; level++) {
        struct str left = {from->out[level], from->out_size[level]};

        from->out_size[level] = 0;
        while (left.len != 0 && from->peer->progress != TLS_FAILED) {
            struct str part = str_head(left, piece);

            has_some = true;
            from->peer->progress = tls_messages_input(from->peer->conn, level, part)
                                       ? tls_messages_step(from->peer->conn)
                                       : TLS_FAILED;
            left = str_skip(left, part.len);
        }
    }
    return has_some;
}

static void converse(size_t piece)
{
    client.progress = tls_messages_step(client.conn);
    while (carry(&client, piece) | carry(&server, piece)) {
    }
}

static void assert_established(void)
{
    assert_int_equal(client.progress, TLS_DONE);
    assert_int_equal(server.progress, TLS_DONE);
    for (enum tls_level level = TLS_LEVEL_HANDSHAKE; level < TLS_LEVELS; level++) {
        for (int way = 0; way < 2; way++) {
            assert_true(client.secret_size[level][way] >= 32);
            assert_int_equal(client.secret_size[level][way], server.secret_size[level][!way]);
            assert_memory_equal(client.secrets[level][way], server.secrets[level][!way],
                                client.secret_size[level][way]);
        }
    }
    assert_int_equal(client.suite, server.suite);
    assert_str(((struct str){server.heard, server.heard_size}), STR("of the client"));
    assert_str(((struct str){client.heard, client.heard_size}), STR("of the server"));
    assert_str(tls_alpn(server.conn), STR("h3"));
    assert_str(tls_alpn(client.conn), STR("h3"));
}

static void handshakes(void **state)
{
    const struct tls_settings settings = usual();
    struct tls_context *context = context_of(&settings), *contexts[] = {context, context};
    static const size_t pieces[] = {65536, 1000, 17, 1};

    for (size_t i = 0; i < 4; i++) {
        open_sides(contexts);
        converse(pieces[i]);
        assert_established();
        assert_false(tls_messages_is_resumed(server.conn) && i == 0);
        close_sides();
    }
    tls_context_free(context);
}

static void a_ticket_is_used(void **state)
{
    const struct tls_settings settings = usual();
    struct tls_context *context = context_of(&settings), *contexts[] = {context, context};

    options.reuses_session = true;
    options.identity = 12345;
    for (int i = 0; i < 3; i++) {
        open_sides(contexts);
        converse(65536);
        assert_established();
        assert_int_equal(tls_messages_is_resumed(server.conn), i != 0);
        close_sides();
    }
    options.reuses_session = false;
    options.identity = 0;
    tls_context_free(context);
}

static void another_group_is_asked_for(void **state)
{
    struct tls_settings settings = usual();

    settings.curves = STR("P-384");
    struct tls_context *context = context_of(&settings), *contexts[] = {context, context};
    open_sides(contexts);
    converse(100);
    assert_established();
    close_sides();
    tls_context_free(context);
}

static void a_server_is_chosen_by_name(void **state)
{
    const struct tls_settings settings = usual();
    struct tls_settings old = usual();

    old.protocols = TLS_1_2 | TLS_1_3;
    struct tls_context *context = context_of(&settings), *other = context_of(&old);
    struct tls_context *contexts[] = {context, other};

    options.sends_name = true;
    options.name = STR("other");
    open_sides(contexts);
    converse(65536);
    assert_established();
    assert_ptr_equal(SSL_get_SSL_CTX(tls_ssl(server.conn)), other->ctx);
    assert_text(tls_server_name(server.conn), "other");
    close_sides();

    options.name = STR("nobody");
    open_sides(contexts);
    converse(65536);
    assert_int_equal(server.progress, TLS_FAILED);
    assert_int_equal(tls_messages_alert(server.conn), 112);
    close_sides();
    options.sends_name = false;
    tls_context_free(context);
    tls_context_free(other);
}

static void protocols_have_to_fit(void **state)
{
    const struct tls_settings settings = usual();
    struct tls_context *context = context_of(&settings), *contexts[] = {context, context};

    offer = STR("\x05other");
    open_sides(contexts);
    converse(65536);
    assert_int_equal(server.progress, TLS_FAILED);
    assert_int_equal(tls_messages_alert(server.conn), TLS_ALERT_NO_APPLICATION_PROTOCOL);
    close_sides();

    offer = STR_NONE;
    open_sides(contexts);
    converse(65536);
    assert_int_equal(server.progress, TLS_FAILED);
    assert_int_equal(tls_messages_alert(server.conn), TLS_ALERT_NO_APPLICATION_PROTOCOL);
    close_sides();
    offer = (struct str) H3;
    tls_context_free(context);
}

static void messages_out_of_place(void **state)
{
    const struct tls_settings settings = usual();
    struct tls_context *context = context_of(&settings), *contexts[] = {context, context};

    open_sides(contexts);
    assert_false(tls_messages_input(server.conn, TLS_LEVEL_APPLICATION, STR("\x14\0\0\0")));
    assert_int_equal(tls_messages_alert(server.conn), TLS_ALERT_UNEXPECTED_MESSAGE);
    assert_int_equal(tls_messages_step(server.conn), TLS_FAILED);
    close_sides();

    open_sides(contexts);
    converse(65536);
    assert_established();
    assert_false(tls_messages_input(server.conn, TLS_LEVEL_APPLICATION, STR("\x18\0\0\1\0")));
    close_sides();

    open_sides(contexts);
    assert_true(tls_messages_input(server.conn, TLS_LEVEL_INITIAL, STR("\x02\0\0\1\0")));
    assert_int_equal(tls_messages_step(server.conn), TLS_FAILED);
    assert_int_equal(tls_messages_alert(server.conn), TLS_ALERT_UNEXPECTED_MESSAGE);
    close_sides();
    tls_context_free(context);
}

/* KeyUpdate after the handshake, from the server. */
static void a_client_refuses_key_updates(void **state)
{
    const struct tls_settings settings = usual();
    struct tls_context *context = context_of(&settings), *contexts[] = {context, context};

    open_sides(contexts);
    converse(65536);
    assert_established();
    assert_false(tls_messages_input(client.conn, TLS_LEVEL_APPLICATION, STR("\x18\0\0\1\0")) &&
                 tls_messages_step(client.conn) != TLS_FAILED);
    close_sides();
    tls_context_free(context);
}

static void parameters_are_needed(void **state)
{
    const struct tls_settings settings = usual();
    struct tls_context *context = context_of(&settings), *contexts[] = {context, context};

    open_sides(contexts);
    server.refuses_parameters = true;
    converse(65536);
    assert_int_equal(server.progress, TLS_FAILED);
    close_sides();
    tls_context_free(context);
}

static int setup_client(void **state)
{
    const struct tls_settings of_client = {.is_client = true,
                                           .protocols = TLS_1_2 | TLS_1_3,
                                           .ciphers = STR("DEFAULT"),
                                           .curves = STR("auto"),
                                           .tickets = true};

    setup(state);
    options.alpn = (struct str) H3;
    client_context = context_of(&of_client);
    return 0;
}

static int teardown_client(void **state)
{
    tls_context_free(client_context);
    return teardown(state);
}

#define MESSAGES_TEST(name) cmocka_unit_test_setup_teardown(name, setup_client, teardown_client)

int main(void)
{
    const struct CMUnitTest tests[] = {
        MESSAGES_TEST(handshakes),
        MESSAGES_TEST(a_ticket_is_used),
        MESSAGES_TEST(another_group_is_asked_for),
        MESSAGES_TEST(a_server_is_chosen_by_name),
        MESSAGES_TEST(protocols_have_to_fit),
        MESSAGES_TEST(messages_out_of_place),
        MESSAGES_TEST(a_client_refuses_key_updates),
        MESSAGES_TEST(parameters_are_needed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
