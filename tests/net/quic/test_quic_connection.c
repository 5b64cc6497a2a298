/* Connections between our server and our client over the loopback. */
#include "net/quic/quic_ends.h"

static void a_handshake(void **state)
{
    ends_connect();
    assert_str(quic_alpn(server_end.connection), STR("h3"));
    assert_true(quic_is_established(client_end.connection));
    turn_until(client_end.connection->is_confirmed);
}

static void an_echo(void **state)
{
    struct quic_stream *stream;

    ends_connect();
    stream = quic_stream_open(client_end.connection, false);
    assert_non_null(stream);
    quic_stream_write(stream, STR("question"));
    quic_stream_finish(stream);
    turn_until(client_end.streams[0].is_finished);
    assert_int_equal(client_end.streams[0].got, 8);
    assert_int_equal(server_end.opened, 1);
}

static void a_megabyte(void **state)
{
    static char bytes[1 << 20];
    uint64_t sum = 0;
    struct quic_stream *stream;

    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (char) (i * 7 + i / 251);
        sum += (unsigned char) bytes[i];
    }
    ends_connect();
    for (unsigned i = 0; i < 8; i++) {
        stream = quic_stream_open(client_end.connection, false);
        quic_stream_write(stream, (struct str){bytes, sizeof(bytes)});
        quic_stream_finish(stream);
    }
    for (unsigned i = 0; i < 8; i++) {
        turn_until(client_end.streams[i].is_finished);
        assert_int_equal(client_end.streams[i].got, sizeof(bytes));
        assert_int_equal(client_end.streams[i].sum, sum);
    }
}

static void a_close(void **state)
{
    ends_connect();
    quic_close(client_end.connection, 0x123, STR("enough"));
    turn_until(client_end.closed != 0 && server_end.closed != 0);
    assert_int_equal(server_end.how.end, QUIC_END_PEER);
    assert_true(server_end.how.is_application);
    assert_int_equal(server_end.how.code, 0x123);
    assert_string_equal(server_end.reason, "enough");
    assert_int_equal(client_end.how.end, QUIC_END_OWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        QUIC_TEST(a_handshake),
        QUIC_TEST(an_echo),
        QUIC_TEST(a_megabyte),
        QUIC_TEST(a_close),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
