/* TLS over a pair of sockets: handshakes, bytes both ways, what is broken. */
#include "net/tls/tls_ends.h"

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
    const struct tls_selector selector = {.knows_plain = true};
    struct ends ends;

    ends_open(&ends, context, &selector);
    assert_int_equal(send(ends.pair.peer, "GET / HTTP/1.0\r\n", 16, 0), 16);
    await_readable(ends.pair.conn->source.fd);
    assert_int_equal(tls_handshake(ends.pair.conn), TLS_PLAIN);
    assert_false(conn_is_tls(ends.pair.conn));
    assert_input(ends.pair.conn, "GET / HTTP/1.0\r\n");
    ends_close(&ends);

    ends_open(&ends, context, NULL); /* nobody would answer them */
    assert_int_equal(send(ends.pair.peer, "GET / HTTP/1.0\r\n", 16, 0), 16);
    await_readable(ends.pair.conn->source.fd);
    assert_int_equal(tls_handshake(ends.pair.conn), TLS_FAILED);
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
    conn_write_file(ends.pair.conn, fd, (struct file_range){0, SIZE}, NULL, NULL);
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
        TLS_TEST(errors_name_file_and_reason),
        TLS_TEST(responder_urls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
