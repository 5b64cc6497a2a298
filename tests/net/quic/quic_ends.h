/* A server that echoes and a client, over the loopback, in one process. */
#ifndef TESTS_NET_QUIC_ENDS_H
#define TESTS_NET_QUIC_ENDS_H

#include "net/tls/tls_ends.h"

#include "base/unit.h"
#include "net/datagram/flow.h"
#include "net/quic/private.h"
#include "net/quic/quic.h"
#include "net/service.h"

#define H3_ALPN STR_INIT("\x02h3")

/* One stream's bytes as an end sees them. */
struct end_stream {
    struct quic_stream *stream;
    size_t got;
    uint64_t sum; /* of the bytes */
    bool is_finished, was_reset, was_stopped;
    uint64_t code;
};

struct end {
    struct quic_connection *connection;
    struct end_stream streams[100];
    unsigned opened, established, closed, writable, available;
    struct quic_close how;
    char reason[64];
    bool echoes;      /* what comes goes back */
    bool holds;       /* nothing is consumed */
    bool is_released; /* streams are, when they end */
};

static struct end server_end, client_end;
static struct listener quic_listener;
static struct quic_service quic_service;
static struct quic_settings client_settings;
static struct tls_context *server_context, *quic_client_context;
static struct tls_client_options quic_options;

static struct end_stream *end_stream_of(struct end *end, struct quic_stream *stream)
{
    unsigned place = (unsigned) (stream->id / 4) % 100;

    if (end->streams[place].stream != stream) {
        end->streams[place] = (struct end_stream){.stream = stream};
    }
    return &end->streams[place];
}

static void end_established(struct quic_connection *c)
{
    ((struct end *) quic_user(c))->established++;
}

static void end_opened(struct quic_stream *stream)
{
    struct end *end = quic_user(stream->connection);

    end->opened++;
    end_stream_of(end, stream)->stream = NULL; /* memory of one before may have come again */
    end_stream_of(end, stream);
}

static void end_readable(struct quic_stream *stream)
{
    struct end *end = quic_user(stream->connection);
    struct end_stream *seen = end_stream_of(end, stream);
    struct str input;

    while (!end->holds && (input = quic_stream_input(stream)).len != 0) {
        seen->got += input.len;
        for (size_t i = 0; i < input.len; i++) {
            seen->sum += (unsigned char) input.data[i];
        }
        if (end->echoes) {
            quic_stream_write(stream, input);
        }
        quic_stream_consume(stream, input.len);
    }
    quic_stream_input(stream);
    seen->was_reset = stream->is_input_reset;
    seen->code = stream->input_code;
    if (stream->is_input_finished && !seen->is_finished) {
        seen->is_finished = true;
        if (end->echoes) {
            quic_stream_finish(stream);
        }
        if (end->is_released) {
            quic_stream_release(stream, 7);
        }
    }
}

static void end_writable(struct quic_stream *stream)
{
    struct end *end = quic_user(stream->connection);

    end->writable++;
    end_stream_of(end, stream)->was_stopped = stream->is_output_stopped;
}

static void end_available(struct quic_connection *c)
{
    ((struct end *) quic_user(c))->available++;
}

static void end_closed(struct quic_connection *c, const struct quic_close *how)
{
    struct end *end = quic_user(c);

    end->closed++;
    end->how = *how;
    snprintf(end->reason, sizeof(end->reason), "%.*s", STR_ARG(how->reason));
    end->connection = NULL;
}

static const struct quic_owner end_owner = {.established = end_established,
                                            .stream_opened = end_opened,
                                            .readable = end_readable,
                                            .writable = end_writable,
                                            .streams_available = end_available,
                                            .closed = end_closed};

static bool server_accepted(struct listener *listener, struct quic_connection *c)
{
    server_end.connection = c;
    quic_adopt(c, &end_owner, &server_end);
    return true;
}

static struct tls_context *select_h3(struct conn *conn, struct str name, struct str *protocols,
                                     void *arg)
{
    *protocols = (struct str) H3_ALPN;
    return server_context;
}

static void server_prepare_slots(unsigned slots)
{
    memset(&server_end, 0, sizeof(server_end));
    server_end.echoes = server_end.is_released = true;
    listener_init(&quic_listener, "127.0.0.1", free_port());
    quic_listener.accepted = NULL;
    quic_service.context = server_context;
    quic_service.selector = (struct tls_selector){.select = select_h3};
    quic_service.accepted = server_accepted;
    quic_service.settings.uses_gso = true;
    assert_true(quic_service_init(&quic_service, &arena));
    quic_serve(&quic_listener, &quic_service);
    assert_true(shards_open(&quic_listener, slots, true, false, &memory_log));
    datagram_mailboxes_open(&quic_listener, 1, 1);
}

static inline void server_prepare(void)
{
    server_prepare_slots(1);
}

static inline void server_open(void)
{
    server_prepare();
    assert_true(datagrams_start(&quic_listener, 1, 0));
}

static void connect_client_to(const struct addr *server, uint32_t version)
{
    const struct quic_connecting connecting = {
        .fd = -1,
        .settings = &client_settings,
        .context = quic_client_context,
        .options = &quic_options,
        .peer = *server,
        .version = version,
        .log = &memory_log,
    };

    memset(&client_end, 0, sizeof(client_end));
    client_end.connection = quic_connect(&connecting, &end_owner, &client_end);
    assert_non_null(client_end.connection);
}

static void connect_client(void)
{
    connect_client_to(&quic_listener.addr, 0);
}

static inline void ends_connect(void)
{
    server_open();
    connect_client();
    turn_until(client_end.established != 0 && server_end.established != 0);
}

static void ends_shut_client(void)
{
    if (client_end.connection != NULL) {
        quic_close(client_end.connection, 0, STR_NONE);
        turn_until(client_end.closed != 0);
    }
}

static void ends_shut(void)
{
    ends_shut_client();
    datagrams_destroy();
    quic_worker_end();
    shards_close_all(false);
}

static int quic_setup(void **state)
{
    setup(state);
    struct tls_settings settings = usual();
    const struct tls_settings of_client = {.is_client = true,
                                           .protocols = TLS_1_3,
                                           .ciphers = STR("DEFAULT"),
                                           .curves = STR("auto"),
                                           .tickets = true};
    assert_true(shard_slots_init());
    logged[0] = '\0';
    memset(&quic_service, 0, sizeof(quic_service));
    memset(&client_settings, 0, sizeof(client_settings));
    client_settings.uses_gso = true;
    quic_options = (struct tls_client_options){.alpn = H3_ALPN};
    server_context = context_of(&settings);
    quic_client_context = context_of(&of_client);
    return 0;
}

static int quic_teardown(void **state)
{
    ends_shut();
    tls_context_free(server_context);
    tls_context_free(quic_client_context);
    return teardown(state);
}

#define QUIC_TEST(name) cmocka_unit_test_setup_teardown(name, quic_setup, quic_teardown)

#endif
