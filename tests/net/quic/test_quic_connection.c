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

static void write_and_finish(struct quic_stream *stream, struct str bytes)
{
    quic_stream_write(stream, bytes);
    quic_stream_finish(stream);
}

static void a_stream_is_reset(void **state)
{
    struct quic_stream *stream;

    ends_connect();
    stream = quic_stream_open(client_end.connection, false);
    quic_stream_write(stream, STR("half a"));
    turn_until(client_end.streams[0].got == 6);
    quic_stream_reset(stream, 0x10c);
    turn_until(server_end.streams[0].was_reset);
    assert_int_equal(server_end.streams[0].code, 0x10c);
    turn_until(client_end.streams[0].is_finished); /* the server finished its half */
    quic_stream_release(stream, 0);
    turn_until(list_is_empty(&client_end.connection->all_streams) &&
               list_is_empty(&server_end.connection->all_streams));
}

static void a_stream_is_stopped(void **state)
{
    struct quic_stream *stream;

    ends_connect();
    server_end.is_released = false;
    stream = quic_stream_open(client_end.connection, false);
    quic_stream_write(stream, STR("question"));
    turn_until(client_end.streams[0].got == 8);
    quic_stream_stop(stream, 0x77);
    turn_until(server_end.streams[0].was_stopped);
    assert_int_equal(server_end.streams[0].stream->output_code, 0x77);
    turn_until(stream->is_input_finished);
}

/* The server consumes nothing: no more than the window comes, and all of it once it does. */
static void a_window_is_full(void **state)
{
    static char bytes[300000];
    struct quic_stream *stream;

    ends_connect();
    server_end.holds = true;
    stream = quic_stream_open(client_end.connection, false);
    write_and_finish(stream, (struct str){bytes, sizeof(bytes)});
    turn_until(server_end.opened != 0 &&
               quic_state_of(server_end.streams[0].stream)->receive->window.received == 65536);
    assert_int_equal(quic_stream_unsent(stream), sizeof(bytes) - 65536);
    quic_stream_want_writable(stream, 1);
    server_end.holds = false;
    end_readable(server_end.streams[0].stream);
    turn_until(client_end.streams[0].is_finished);
    assert_int_equal(client_end.streams[0].got, sizeof(bytes));
    assert_int_equal(client_end.writable, 1);
}

static void streams_are_limited(void **state)
{
    struct quic_stream *streams[5];

    quic_service.settings.max_streams_bidi = 4;
    ends_connect();
    for (unsigned i = 0; i < 4; i++) {
        streams[i] = quic_stream_open(client_end.connection, false);
        assert_non_null(streams[i]);
    }
    assert_null(quic_stream_open(client_end.connection, false));
    for (unsigned i = 0; i < 4; i++) {
        write_and_finish(streams[i], STR("x"));
    }
    turn_until(client_end.available != 0);
    streams[4] = quic_stream_open(client_end.connection, false);
    assert_non_null(streams[4]);
    write_and_finish(streams[4], STR("y"));
    turn_until(client_end.streams[4].is_finished);
}

/* Beyond the limit that the server gave; our client would not do it. */
static void a_stream_too_many(void **state)
{
    quic_service.settings.max_streams_bidi = 1;
    ends_connect();
    client_end.connection->own_limit[0] = 2;
    quic_stream_write(quic_stream_open(client_end.connection, false), STR("x"));
    quic_stream_write(quic_stream_open(client_end.connection, false), STR("x"));
    turn_until(client_end.closed != 0 && server_end.closed != 0);
    assert_int_equal(client_end.how.code, QUIC_STREAM_LIMIT_ERROR);
    assert_false(client_end.how.is_application);
}

static void a_retry(void **state)
{
    struct quic_worker_counts counts;

    quic_service.settings.retries = true;
    ends_connect();
    quic_worker_counts(&counts);
    assert_in_range(counts.retries, 1, 2); /* a ClientHello may take two datagrams */
    assert_int_equal(counts.accepted, 1);
    assert_true(server_end.connection->paths[0].is_validated);
}

static void version_2(void **state)
{
    struct quic_facts facts;

    server_open();
    connect_client_to(&quic_listener.addr, QUIC_VERSION_2);
    turn_until(client_end.established != 0 && server_end.established != 0);
    quic_facts(server_end.connection, &facts);
    assert_int_equal(facts.version, QUIC_VERSION_2);
}

/* After a HelloRetryRequest the client says once more what it prefers, and what it had chosen at
 * first. */
static void version_preferred_twice(void **state)
{
    unsigned char bytes[512];
    struct quic_out out = {bytes, bytes + sizeof(bytes), false};
    struct quic_connection *c;

    server_open();
    connect_client_to(&quic_listener.addr, QUIC_VERSION_1);
    turn_until(server_end.connection != NULL);
    c = server_end.connection;
    assert_false(c->levels[QUIC_SPACE_INITIAL]->is_discarded);
    struct quic_parameters said = client_end.connection->own;
    said.versions = STR("\0\0\0\1\x6b\x33\x43\xcf\0\0\0\1");
    quic_parameters_put(&out, &said, 0);
    const struct str text = str_from((const char *) bytes, (const char *) out.at);
    assert_true(quic_tls_owner.parameters(c, text));
    assert_int_equal(c->version, QUIC_VERSION_2);
    assert_true(quic_tls_owner.parameters(c, text));
    assert_int_equal(c->version, QUIC_VERSION_2);
    assert_int_equal(c->first_version, QUIC_VERSION_1);
}

static void other_versions(void **state)
{
    unsigned char bytes[1200] = {0xc0, 0xba, 0xba, 0xba, 0xba, 4,   'd', 'c',
                                 'i',  'd',  4,    's',  'c',  'i', 'd'};
    unsigned char answer[2048];
    int fd;

    server_open();
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    connect(fd, &quic_listener.addr.any, quic_listener.addr.len);
    send(fd, bytes, 1199, 0); /* too small for an answer */
    send(fd, bytes, 1200, 0);
    ssize_t n = -1;
    turn_until((n = recv(fd, answer, sizeof(answer), MSG_DONTWAIT | MSG_PEEK)) > 0);
    assert_int_equal(n, 7 + 4 + 4 + 12);
    assert_memory_equal(answer + 1, "\0\0\0\0\4scid\4dcid", 14);
    assert_int_equal(quic_worker.counts.negotiations, 1);
    close(fd);
}

static void keys_are_updated(void **state)
{
    struct quic_facts facts;
    struct quic_stream *stream;

    ends_connect();
    for (unsigned i = 0; i < 4; i++) {
        stream = quic_stream_open(client_end.connection, false);
        write_and_finish(stream, STR("question"));
        turn_until(client_end.streams[i].is_finished);
        turn_until(client_end.connection->is_phase_acked &&
                   client_end.connection->uses_next_phase == client_end.connection->read_phase);
        quic_update_keys(client_end.connection);
    }
    quic_facts(server_end.connection, &facts);
    assert_int_equal(facts.counts.key_updates, 3);
}

static unsigned releases;

static void released(void *arg)
{
    releases++;
}

static void files_and_references(void **state)
{
    static char text[100000];
    struct quic_stream *stream;
    int fd = memfd_create("file", 0);

    releases = 0;
    memset(text, 'a', sizeof(text));
    assert_int_equal(write(fd, text, sizeof(text)), sizeof(text));
    ends_connect();
    stream = quic_stream_open(client_end.connection, false);
    quic_stream_write(stream, STR("head"));
    quic_stream_write_file(stream, fd, (struct file_range){100, 50000}, released, NULL);
    quic_stream_write_reference(stream, (struct str){text, 20000}, released, NULL);
    quic_stream_finish(stream);
    turn_until(client_end.streams[0].is_finished && releases == 2);
    assert_int_equal(client_end.streams[0].got, 70004);
    assert_int_equal(server_end.streams[0].sum, 'h' + 'e' + 'a' + 'd' + 70000ull * 'a');

    /* A file that is shorter than it was. */
    client_settings.file_error = 0x102;
    stream = quic_stream_open(client_end.connection, false);
    quic_stream_write_file(stream, fd, (struct file_range){0, 200000}, released, NULL);
    turn_until(server_end.streams[1].was_reset);
    assert_int_equal(server_end.streams[1].code, 0x102);
    assert_in_range(server_end.streams[1].got, 1, 100000);
    assert_int_equal(server_end.streams[1].sum, server_end.streams[1].got * 'a');
    close(fd);
}

/* Files of many streams are in the packets of one train, in small ranges as well. */
static void files_of_many_streams(void **state)
{
    enum { STREAMS = 12, SIZE = 30000, STEP = 97 };
    static unsigned char bytes[SIZE + STREAMS];
    uint64_t sums[STREAMS] = {0};
    int fd = memfd_create("file", 0);

    for (unsigned i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (unsigned char) (i * i >> 3);
    }
    assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
    ends_connect();
    for (unsigned i = 0; i < STREAMS; i++) {
        struct quic_stream *stream = quic_stream_open(client_end.connection, false);
        quic_stream_prioritize(stream, 3, true);
        for (unsigned at = 0; at < SIZE; at += i % 3 == 0 ? STEP : SIZE) {
            unsigned size = i % 3 != 0 ? SIZE : SIZE - at < STEP ? SIZE - at : STEP;
            quic_stream_write_file(stream, fd, (struct file_range){i + at, size}, released, NULL);
        }
        quic_stream_finish(stream);
        for (unsigned at = 0; at < SIZE; at++) {
            sums[i] += bytes[i + at];
        }
    }
    for (unsigned i = 0; i < STREAMS; i++) {
        turn_until(client_end.streams[i].is_finished);
        assert_int_equal(server_end.streams[i].got, SIZE);
        assert_int_equal(server_end.streams[i].sum, sums[i]);
    }
    close(fd);
}

/* One train has data of more files than are read together. */
static void many_short_files(void **state)
{
    enum { STREAMS = 90, SIZE = 30 };
    static const char bytes[SIZE] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    int fd = memfd_create("file", 0), shorter = memfd_create("file", 0);

    assert_int_equal(write(fd, bytes, SIZE), SIZE);
    ends_connect();
    turn_until(client_end.connection->is_confirmed);
    for (unsigned i = 0; i < STREAMS; i++) {
        struct quic_stream *stream = quic_stream_open(client_end.connection, false);
        assert_non_null(stream);
        quic_stream_write_file(stream, i == 10 || i == 80 ? shorter : fd,
                               (struct file_range){0, SIZE}, released, NULL);
        quic_stream_finish(stream);
    }
    for (unsigned i = 0; i < STREAMS; i++) {
        turn_until(i == 10 || i == 80 ? server_end.streams[i].was_reset
                                      : client_end.streams[i].is_finished);
        assert_int_equal(server_end.streams[i].got, i == 10 || i == 80 ? 0 : SIZE);
    }
    close(fd);
    close(shorter);
}

/* While the files of others are read with it in one call. */
static void one_file_of_many_became_shorter(void **state)
{
    enum { STREAMS = 6, SIZE = 20000, LEFT = 7000 };
    static unsigned char bytes[SIZE];
    int fds[STREAMS];

    memset(bytes, 'a', sizeof(bytes));
    ends_connect();
    client_settings.file_error = 0x102;
    for (unsigned i = 0; i < STREAMS; i++) {
        struct quic_stream *stream = quic_stream_open(client_end.connection, false);
        fds[i] = memfd_create("file", 0);
        assert_int_equal(write(fds[i], bytes, i == 2 ? LEFT : SIZE), i == 2 ? LEFT : SIZE);
        quic_stream_prioritize(stream, 3, true);
        quic_stream_write_file(stream, fds[i], (struct file_range){0, SIZE}, released, NULL);
        quic_stream_finish(stream);
    }
    for (unsigned i = 0; i < STREAMS; i++) {
        if (i == 2) {
            turn_until(server_end.streams[i].was_reset);
            assert_in_range(server_end.streams[i].got, 0, LEFT);
        } else {
            turn_until(client_end.streams[i].is_finished);
            assert_int_equal(server_end.streams[i].got, SIZE);
        }
        assert_int_equal(server_end.streams[i].sum, server_end.streams[i].got * 'a');
        close(fds[i]);
    }
}

static void a_peer_that_acknowledges_too_much(void **state)
{
    ends_connect();
    turn_until(client_end.connection->is_confirmed);
    quic_received_add(&client_end.connection->levels[QUIC_SPACE_APPLICATION]->received, 5000);
    client_end.connection->levels[QUIC_SPACE_APPLICATION]->has_received = true;
    quic_stream_write(quic_stream_open(client_end.connection, false), STR("x"));
    turn_until(server_end.closed != 0);
    assert_int_equal(server_end.how.code, QUIC_PROTOCOL_VIOLATION);
    assert_logged("acknowledged a packet that was never sent");
}

/* The server sends much: the client is asked for fewer ACKs, and sends them
 * (draft-ietf-quic-ack-frequency). */
static void fewer_acks(void **state)
{
    static char bytes[1 << 20];
    struct quic_counts *counts;
    struct quic_stream *stream;

    ends_connect();
    turn_until(client_end.connection->is_confirmed);
    assert_int_equal(server_end.connection->peer.min_ack_delay_us, 1000);
    assert_int_equal(server_end.connection->asked.number, QUIC_NUMBER_NONE);
    server_end.echoes = false;
    counts = &server_end.connection->counts;
    stream = quic_stream_open(client_end.connection, false);
    quic_stream_write(stream, STR("x"));
    turn_until(server_end.streams[0].got == 1);
    for (unsigned i = 0; i < 16; i++) {
        quic_stream_write(server_end.streams[0].stream, (struct str){bytes, sizeof(bytes)});
    }
    turn_until(client_end.streams[0].got >= 8 * sizeof(bytes));
    assert_in_range(client_end.connection->acks.threshold, 2, 31);
    assert_int_equal(client_end.connection->acks.reordering, 3);
    uint64_t sent = counts->packets_sent, received = counts->packets_received;
    turn_until(client_end.streams[0].got == 16 * sizeof(bytes));
    assert_true((counts->packets_received - received) * 4 < counts->packets_sent - sent);
}

/* With which numbers an ACK is due at once: section 6.2. */
static void acks_by_rule(void **state)
{
    static const struct {
        uint64_t reordering;
        uint64_t numbers[8];
        unsigned due; /* at which place of these; 8: at none */
    } rows[] = {
        {0, {0, 1, 3, 2, 5, 9, 8, 7}, 8}, {1, {0, 1, 3}, 2},
        {1, {0, 1, 2, 3, 5}, 4},          {3, {0, 1, 3, 4, 5}, 4},
        {3, {0, 1, 3, 4, 2, 5, 6, 7}, 8}, {3, {0, 4}, 1},
    };

    ends_connect();
    struct quic_connection *c = client_end.connection;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct quic_level level = {.largest = QUIC_NUMBER_NONE, .reported = QUIC_NUMBER_NONE};
        unsigned at = 0;

        c->acks.threshold = 8;
        c->acks.reordering = rows[i].reordering;
        quic_received_init(&level.received, 8);
        for (; at < 8; at++) {
            uint64_t number = rows[i].numbers[at], before = level.largest;
            quic_received_add(&level.received, number);
            level.largest = before == QUIC_NUMBER_NONE || number > before ? number : before;
            level.unacknowledged++;
            if (quic_ack_is_due(c, &level, number, before)) {
                break;
            }
        }
        assert_int_equal(at, rows[i].due);
        if (i == 3) { /* an ACK has shown that 2 is missing */
            level.reported = 5;
            quic_received_add(&level.received, level.largest = 6);
            assert_false(quic_ack_is_due(c, &level, 6, 5));
            quic_received_add(&level.received, level.largest = 10);
            assert_true(quic_ack_is_due(c, &level, 10, 6));
        }
        quic_received_free(&level.received);
    }
}

static void a_rule_that_may_not_be(void **state)
{
    ends_connect();
    turn_until(client_end.connection->is_confirmed);
    client_end.connection->asked =
        (struct quic_ack_rule){.number = 0, .threshold = 1, .delay_us = 999, .reordering = 1};
    client_end.connection->pending |= QUIC_PENDING_ACK_FREQUENCY;
    quic_wake(client_end.connection);
    turn_until(server_end.closed != 0);
    assert_int_equal(server_end.how.code, QUIC_PROTOCOL_VIOLATION);
}

/* One that comes late changes nothing. */
static void an_older_rule(void **state)
{
    struct quic_frame frame = {.type = QUIC_FRAME_ACK_FREQUENCY,
                               .ack_frequency = {5, 10, UINT64_C(1) << 60, 3}};

    ends_connect();
    quic_ack_frequency_received(server_end.connection, &frame);
    frame.ack_frequency.number = 4;
    frame.ack_frequency.threshold = 20;
    quic_ack_frequency_received(server_end.connection, &frame);
    assert_int_equal(server_end.connection->acks.threshold, 10);
    assert_int_equal(server_end.connection->acks.delay_us, 16384000);
}

/* Many that shake hands from one address: those beyond a number have to prove it. */
static void a_crowd(void **state)
{
    static struct end ends[40];
    const struct quic_connecting connecting = {
        .fd = -1,
        .settings = &client_settings,
        .context = quic_client_context,
        .options = &quic_options,
        .log = &memory_log,
    };
    struct quic_worker_counts counts;

    server_open();
    memset(ends, 0, sizeof(ends));
    for (unsigned i = 0; i < 40; i++) {
        struct quic_connecting one = connecting;
        one.peer = quic_listener.addr;
        ends[i].connection = quic_connect(&one, &end_owner, &ends[i]);
    }
    for (unsigned i = 0; i < 40; i++) {
        turn_until(ends[i].established != 0);
    }
    quic_worker_counts(&counts);
    assert_in_range(counts.busy, 8, 16);
    assert_in_range(counts.retries, 8, 16);
    assert_logged("32 QUIC handshakes are under way: new clients have to prove their addresses");
    turn_until(quic_worker.handshakes == 0);
    for (unsigned i = 0; i < 40; i++) {
        quic_close(ends[i].connection, 0, STR_NONE);
        turn_until(ends[i].closed != 0);
    }
}

/* What a server gives for the next connection (RFC 9000, 8.1.3) is used once, with the same server
 * and options. */
static void tokens_for_the_next_connection(void **state)
{
    quic_options.identity = 7;
    ends_connect();
    struct str token = STR_NONE;
    turn_until(token.len != 0 ||
               (token = quic_token_take(client_end.connection->token_key)).len != 0);
    quic_token_keep(client_end.connection->token_key, token);
    free((void *) (uintptr_t) token.data);
    ends_shut_client();
    connect_client();
    assert_int_not_equal(client_end.connection->token.len, 0);
    assert_int_equal(quic_token_take(client_end.connection->token_key).len, 0);
    turn_until(client_end.established != 0);
}

/* Nobody is at the address any more: the connection ends after it was said three times, not by its
 * idle timeout. */
static void nobody_is_there_any_more(void **state)
{
    ends_connect();
    for (unsigned i = 0; i < 2; i++) {
        quic_refused_by_socket(client_end.connection, ECONNREFUSED);
        assert_true(quic_is_open(client_end.connection));
    }
    quic_refused_by_socket(client_end.connection, ECONNREFUSED);
    assert_false(quic_is_open(client_end.connection));
    turn_until(client_end.closed != 0);
}

static void noise(void **state)
{
    unsigned char bytes[1500];
    uint32_t random = 1;
    int fd;

    ends_connect();
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    connect(fd, &quic_listener.addr.any, quic_listener.addr.len);
    for (unsigned i = 0; i < 300; i++) {
        for (size_t j = 0; j < sizeof(bytes); j++) {
            random = random * 1103515245 + 12345;
            bytes[j] = (unsigned char) (random >> 16);
        }
        if (i % 3 == 0) {
            memcpy(bytes, "\xc3\0\0\0\1\10\1\2\3\4\5\6\7\10\0\0\x44\x80", 18);
        }
        send(fd, bytes, 1200 + i, 0);
        loop_turn(0);
    }
    close(fd);
    write_and_finish(quic_stream_open(client_end.connection, false), STR("still there?"));
    turn_until(client_end.streams[0].is_finished);
    turn_until(quic_connections() == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        QUIC_TEST(a_handshake),
        QUIC_TEST(an_echo),
        QUIC_TEST(a_megabyte),
        QUIC_TEST(a_close),
        QUIC_TEST(a_stream_is_reset),
        QUIC_TEST(a_stream_is_stopped),
        QUIC_TEST(a_window_is_full),
        QUIC_TEST(streams_are_limited),
        QUIC_TEST(a_stream_too_many),
        QUIC_TEST(a_retry),
        QUIC_TEST(version_2),
        QUIC_TEST(version_preferred_twice),
        QUIC_TEST(other_versions),
        QUIC_TEST(keys_are_updated),
        QUIC_TEST(files_and_references),
        QUIC_TEST(files_of_many_streams),
        QUIC_TEST(many_short_files),
        QUIC_TEST(one_file_of_many_became_shorter),
        QUIC_TEST(a_peer_that_acknowledges_too_much),
        QUIC_TEST(fewer_acks),
        QUIC_TEST(acks_by_rule),
        QUIC_TEST(a_rule_that_may_not_be),
        QUIC_TEST(an_older_rule),
        QUIC_TEST(a_crowd),
        QUIC_TEST(noise),
        QUIC_TEST(tokens_for_the_next_connection),
        QUIC_TEST(nobody_is_there_any_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
