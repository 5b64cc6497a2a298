/*
 * Fuzzes a server's connection with the frames of packets that were authentic: a client may say
 * anything. The input is a row of packets, each its space in one byte, its size in two, its
 * payload. The owner echoes.
 */
#include <stdlib.h>
#include <string.h>

#include "net/quic/private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct arena arena;
static struct tls_context *context;
static struct quic_service service;
static struct listener *listener;
static unsigned closed, opened;

static void demand(bool is_so)
{
    if (!is_so) {
        abort();
    }
}

static void on_opened(struct quic_stream *stream)
{
    demand(stream->magic == QUIC_STREAM_MAGIC);
    opened++;
}

static void on_readable(struct quic_stream *stream)
{
    struct str input;

    while ((input = quic_stream_input(stream)).len != 0) {
        if (!quic_stream_is_unidirectional(stream)) {
            quic_stream_write(stream, input);
            quic_stream_want_writable(stream, 1000);
        }
        quic_stream_consume(stream, input.len);
    }
    if (stream->is_input_finished) {
        if (!quic_stream_is_unidirectional(stream)) {
            quic_stream_finish(stream);
        }
        quic_stream_release(stream, 1);
    }
}

static void on_writable(struct quic_stream *stream)
{
    demand(stream->magic == QUIC_STREAM_MAGIC);
}

static void on_closed(struct quic_connection *c, const struct quic_close *how)
{
    closed++;
}

static const struct quic_owner owner = {.stream_opened = on_opened,
                                        .readable = on_readable,
                                        .writable = on_writable,
                                        .closed = on_closed};

static bool on_accepted(struct listener *of, struct quic_connection *c)
{
    return false;
}

static struct tls_context *on_select(struct conn *conn, struct str name, struct str *protocols,
                                     void *arg)
{
    return NULL;
}

static void begin(void)
{
    const struct tls_settings settings = {.protocols = TLS_1_3,
                                          .ciphers = STR("DEFAULT"),
                                          .curves = STR("auto"),
                                          .rejects_handshake = true};
    const struct loop_options options = {.log = log_main};
    struct str error;

    arena_init(&arena);
    clock_update();
    conn_pool_init(100);
    demand(loop_init(&options));
    log_main->level = LOG_EMERG;
    context = tls_context_new(&settings, &arena, log_main, &error);
    demand(context != NULL);
    service.settings.host_key = STR("the same in every run");
    service.settings.max_streams_bidi = 16;
    service.selector.select = on_select;
    service.accepted = on_accepted;
    demand(quic_service_init(&service, &arena));
    quic_worker_begin();
}

static void make_keys(struct quic_level *level)
{
    const struct str secret = STR("0123456789abcdef0123456789abcdef");

    demand(quic_keys_make(&level->read, tls_suite_of(0x1301), QUIC_VERSION_1, secret, false));
    demand(quic_keys_make(&level->write, tls_suite_of(0x1301), QUIC_VERSION_1, secret, true));
}

static struct quic_connection *connect_one(void)
{
    struct addr addr;
    struct quic_connection *c =
        quic_connection_new(&service.settings, service.secrets, true, QUIC_VERSION_1);

    addr_parse_ip(STR("127.0.0.1"), &addr);
    c->service = &service;
    quic_path_init(&c->paths[0], &addr, &addr);
    c->paths[0].is_there = c->paths[0].is_validated = true;
    c->peer_cids[0] = (struct quic_peer_cid){.cid = quic_cid_of(STR("client")), .is_used = true};
    quic_cid_make(c, &c->own_cids[0]);
    for (unsigned i = 0; i < QUIC_SPACES; i++) {
        make_keys(c->levels[i]);
    }
    demand(quic_set_own_parameters(c));
    demand(quic_conn_new(c, &addr, listener, log_main) != NULL);
    demand(tls_messages_accept(c->conn, context, &service.selector, &quic_tls_owner, c));
    c->peer = (struct quic_parameters){.max_data = 100000,
                                       .max_stream_data_local = 5000,
                                       .max_stream_data_remote = 5000,
                                       .max_stream_data_uni = 5000,
                                       .max_streams_bidi = 3,
                                       .max_streams_uni = 3,
                                       .ack_delay_exponent = 3,
                                       .max_ack_delay_ms = 25,
                                       .active_connection_id_limit = 4};
    quic_parameters_known(c);
    quic_adopt(c, &owner, NULL);
    return c;
}

static void give(struct quic_connection *c, enum quic_space space, struct str payload,
                 uint64_t number)
{
    static const enum quic_packet_type types[] = {QUIC_PACKET_INITIAL, QUIC_PACKET_HANDSHAKE,
                                                  QUIC_PACKET_1RTT};
    struct quic_packet_in packet = {.space = space,
                                    .type = types[space],
                                    .number = number,
                                    .payload = payload,
                                    .path = &c->paths[0],
                                    .is_probing = true};

    if (quic_frames_received(c, &packet) && packet.is_eliciting) {
        quic_received_add(&c->levels[space]->received, number);
        c->levels[space]->has_received = c->levels[space]->is_ack_due = true;
        c->levels[space]->largest = number;
    }
    quic_wake(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str rest = {(const char *) data, size};

    if (context == NULL) {
        begin();
    }
    closed = opened = 0;
    struct quic_connection *c = connect_one();
    for (uint64_t number = 0; rest.len >= 3 && closed == 0; number++) {
        const uint8_t *at = (const uint8_t *) rest.data;
        size_t n = (size_t) (at[1] << 8 | at[2]);
        enum quic_space space = at[0] % QUIC_SPACES;

        rest = str_skip(rest, 3);
        n = n < rest.len ? n : rest.len;
        char *copy = malloc(n == 0 ? 1 : n); /* so that a byte read too far is seen */
        demand(copy != NULL);
        memcpy(copy, rest.data, n);
        rest = str_skip(rest, n);
        give(c, space, (struct str){copy, n}, number);
        free(copy);
        loop_turn(0);
    }
    if (closed == 0) {
        quic_close(c, 0, STR_NONE);
        loop_turn(0);
    }
    demand(closed == 1);
    quic_worker_end();
    quic_worker_begin();
    demand(conn_pool.used == 0);
    return 0;
}
