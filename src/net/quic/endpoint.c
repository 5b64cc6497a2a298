/* The server's side of a socket: datagrams to their connections, or to the worker that has them;
 * new connections. */
#include "net/quic/private.h"

#include <openssl/rand.h>

#include "base/checksum.h"
#include "net/shards/listener.h"

#define HANDSHAKES_MOST                                                                            \
    1000u /* handshakes of a worker above which clients have to prove their address by a Retry */
#define HANDSHAKES_OF_ADDRESS 32u  /* handshakes of one address above which it has to */
#define HANDSHAKES_OF_PROVED 1000u /* and that is the end even for an address that was proved */
#define CLIENT_CID_LEAST 8u        /* bytes of the id that a client chooses (RFC 9000, 7.2) */
#define ANSWERS_A_SECOND 1000u     /* of each kind, where there is no connection */
#define RESET_MOST 42u             /* bytes */

static void count_limited(const struct datagram_port *port, uint64_t count)
{
    struct listener *listener = datagram_port_listener(port);

    if (listener->quic->limited != NULL) {
        listener->quic->limited(listener, count);
    }
}

/* ---- answers without a connection ---- */

enum answer { ANSWER_NEGOTIATION, ANSWER_RESET, ANSWER_CLOSE, ANSWERS };

/* Answers that cost us something, and that anybody can ask for with any address. Each kind has its
 * own budget: a flood of one does not silence the others. */
static bool may_answer(struct datagram_port *port, enum answer kind)
{
    static uint64_t second;
    static unsigned counts[ANSWERS];

    if ((uint64_t) clock_now.seconds != second) {
        second = (uint64_t) clock_now.seconds;
        memset(counts, 0, sizeof(counts));
    }
    if (counts[kind]++ < ANSWERS_A_SECOND) {
        return true;
    }
    if (counts[kind] == ANSWERS_A_SECOND + 1) {
        log_warn(datagram_port_listener(port)->log, 0,
                 "more than %u QUIC packets a second ask for an answer without a connection",
                 ANSWERS_A_SECOND);
    }
    quic_worker.counts.unanswered++;
    count_limited(port, 1);
    return false;
}

static void negotiate(struct datagram_port *port, const struct datagram_packet *packet,
                      const struct quic_header *header)
{
    unsigned char bytes[5 + 2 * 256 + 12];
    struct quic_out out = {bytes, bytes + sizeof(bytes), false};
    uint32_t random = 0;

    if (packet->bytes.len < QUIC_DATAGRAM_LEAST || !may_answer(port, ANSWER_NEGOTIATION)) {
        return;
    }
    RAND_bytes((unsigned char *) &random, sizeof(random));
    quic_negotiation_put(&out, header->scid, header->dcid, random);
    quic_worker.counts.negotiations++;
    quic_udp_answer(port, packet, bytes, (size_t) (out.at - bytes));
}

/* Smaller than what came, so that two of us do not answer each other for ever (RFC 9000, 10.3.3).
 */
static void reset(struct datagram_port *port, const struct datagram_packet *packet,
                  const struct quic_secrets *secrets, struct str cid)
{
    unsigned char bytes[RESET_MOST];
    size_t size = packet->bytes.len - 1 < RESET_MOST ? packet->bytes.len - 1 : RESET_MOST;

    if (packet->bytes.len <= QUIC_RESET_LEAST || !may_answer(port, ANSWER_RESET) ||
        RAND_bytes(bytes, (int) size) != 1) {
        return;
    }
    bytes[0] = (unsigned char) (0x40 | (bytes[0] & 0x3f));
    quic_reset_token(secrets, cid, bytes + size - QUIC_RESET_TOKEN_SIZE);
    quic_worker.counts.resets++;
    quic_udp_answer(port, packet, bytes, size);
}

static void send_retry(struct datagram_port *port, const struct datagram_packet *packet,
                       const struct quic_header *header, const struct quic_secrets *secrets)
{
    unsigned char bytes[512], token[QUIC_TOKEN_MOST];
    struct quic_out out = {bytes, bytes + sizeof(bytes), false};
    struct quic_token what = {.is_retry = true,
                              .made_s = (uint64_t) clock_now.seconds,
                              .original_dcid = quic_cid_of(header->dcid)};
    uint8_t random[8];

    RAND_bytes(random, sizeof(random));
    const struct quic_cid_names names = {.worker = (uint16_t) datagram_worker(),
                                         .slot = (uint16_t) datagram_port_slot(port)};
    quic_cid_encode(secrets, names, random, &what.retry_scid);
    size_t size = quic_token_put(secrets, &what, &packet->peer, token);
    const struct quic_cid dcid = quic_cid_of(header->scid);
    quic_retry_put(&out, header->version, &dcid, &what.retry_scid,
                   (struct str){(const char *) token, size});
    const struct str retry = {(const char *) bytes, (size_t) (out.at - bytes)};
    if (size != 0 && quic_out_has(&out, QUIC_TAG_SIZE) &&
        quic_retry_tag(header->version, header->dcid, retry, out.at)) {
        quic_worker.counts.retries++;
        quic_udp_answer(port, packet, bytes, retry.len + QUIC_TAG_SIZE);
    }
}

/* CONNECTION_CLOSE in an Initial, by the keys that the client's id makes. */
static void close_initial(struct datagram_port *port, const struct datagram_packet *packet,
                          const struct quic_header *header, uint64_t code)
{
    unsigned char bytes[256], mask[QUIC_MASK_SIZE], *length_at, *number_at;
    struct quic_out out = {bytes, bytes + sizeof(bytes) - QUIC_TAG_SIZE, false};
    const struct quic_cid dcid = quic_cid_of(header->scid), scid = quic_cid_of(header->dcid);
    const struct quic_long head = {.type = QUIC_PACKET_INITIAL,
                                   .version = header->version,
                                   .dcid = &dcid,
                                   .scid = &scid,
                                   .number_size = 1};
    const struct quic_frame frame = {.type = QUIC_FRAME_CONNECTION_CLOSE, .close = {.code = code}};
    struct quic_keys keys;

    if (!may_answer(port, ANSWER_CLOSE) ||
        !quic_keys_make_initial(&keys, header->version, header->dcid, true, true)) {
        return;
    }
    quic_long_put(&out, &head, &length_at, &number_at);
    unsigned char *payload = out.at;
    quic_frame_put(&out, &frame);
    size_t size = (size_t) (out.at - payload);
    quic_length_set(length_at, 1 + size + QUIC_TAG_SIZE);
    if (quic_seal(&keys, 0, bytes, payload, size) && quic_masks(&keys, number_at + 4, 1, mask)) {
        quic_mask_apply(bytes, number_at, 1, mask);
        quic_udp_answer(port, packet, bytes, (size_t) (out.at - bytes) + QUIC_TAG_SIZE);
    }
    quic_keys_free(&keys);
}

/* ---- new connections ---- */

/* What a client's Initial says of its address. */
struct proof {
    struct quic_token token;
    bool is_validated;
};

/* Handshakes under way by address: few share a place. */
static uint16_t handshakes_of[4096];

static uint16_t *same_address(const struct addr *peer)
{
    struct str bytes = {(const char *) &peer->v4.sin_addr, sizeof(peer->v4.sin_addr)};

    if (peer->any.sa_family == AF_INET6) {
        bytes = (struct str){(const char *) &peer->v6.sin6_addr, 8}; /* a network of one site */
    }
    return &handshakes_of[keyed_hash(bytes) % 4096];
}

/* So many handshakes are in progress that a client has to prove its address first. */
static bool is_busy(const struct listener *listener, const struct addr *peer)
{
    static time_t logged_at;
    uint64_t most = conn_pool.limit / 4;

    if (quic_worker.handshakes < (most < HANDSHAKES_MOST ? most : HANDSHAKES_MOST) &&
        *same_address(peer) < HANDSHAKES_OF_ADDRESS) {
        return false;
    }
    if (logged_at != clock_now.seconds) {
        logged_at = clock_now.seconds;
        log_warn(listener->log, 0,
                 "%lu QUIC handshakes are under way: new clients have to prove their addresses",
                 (unsigned long) quic_worker.handshakes);
    }
    quic_worker.counts.busy++;
    return true;
}

/* There is no place, and nothing idle that gives way. */
static void refuse(struct datagram_port *port, const struct datagram_packet *packet,
                   const struct quic_header *header)
{
    static time_t logged;

    if (logged != clock_now.seconds) {
        logged = clock_now.seconds;
        log_alert(datagram_port_listener(port)->log, 0, "%u worker_connections are not enough",
                  conn_pool.limit);
    }
    quic_worker.counts.refused++;
    conn_pool.refused++;
    count_limited(port, 1);
    close_initial(port, packet, header, QUIC_CONNECTION_REFUSED);
}

/* So many handshakes of one address are under way, though it was proved. */
static void refuse_address(struct datagram_port *port, const struct datagram_packet *packet,
                           const struct quic_header *header)
{
    static time_t logged;
    char text[ADDR_TEXT_MAX + 1];

    if (logged != clock_now.seconds) {
        logged = clock_now.seconds;
        text[addr_format(&packet->peer, false, text)] = '\0';
        log_warn(datagram_port_listener(port)->log, 0,
                 "%u QUIC handshakes of %s are under way: more are refused", HANDSHAKES_OF_PROVED,
                 text);
    }
    quic_worker.counts.refused++;
    count_limited(port, 1);
    close_initial(port, packet, header, QUIC_CONNECTION_REFUSED);
}

/* False: answered, or dropped. */
static bool look_at_token(struct datagram_port *port, const struct datagram_packet *packet,
                          const struct quic_header *header, struct proof *proof)
{
    const struct quic_service *service = datagram_port_listener(port)->quic;
    bool is_good =
        header->token.len != 0 && quic_token_read(service->secrets, header->token, &packet->peer,
                                                  (uint64_t) clock_now.seconds, &proof->token);

    if (is_good && proof->token.is_retry && !quic_cid_is(&proof->token.retry_scid, header->dcid)) {
        is_good = false;
    }
    proof->is_validated = is_good;
    if (is_good) {
        return true;
    }
    if (header->token.len != 0 && header->token.data[0] == 1 && proof->token.is_retry) {
        /* One of ours that has expired, or of another address. */
        close_initial(port, packet, header, QUIC_INVALID_TOKEN);
        return false;
    }
    proof->token.is_retry = false;
    if (service->settings.retries || is_busy(datagram_port_listener(port), &packet->peer)) {
        send_retry(port, packet, header, service->secrets);
        return false;
    }
    return true;
}

static void set_ids(struct quic_connection *c, const struct quic_header *header,
                    const struct proof *proof)
{
    c->peer_cids[0] = (struct quic_peer_cid){.cid = quic_cid_of(header->scid), .is_used = true};
    c->was_retried = proof->token.is_retry;
    c->original_dcid = c->was_retried ? proof->token.original_dcid : quic_cid_of(header->dcid);
    c->retry_scid = proof->token.retry_scid;
    c->original.connection = c;
    c->original.cid = quic_cid_of(header->dcid);
    quic_cid_register(&c->original);
    if (c->was_retried) {
        datagram_note(c->original.entry.hash);
    }
    quic_cid_make(c, &c->own_cids[0]);
}

static bool set_keys(struct quic_connection *c, struct str dcid)
{
    struct quic_level *level = c->levels[QUIC_SPACE_INITIAL];

    return quic_keys_make_initial(&level->read, c->version, dcid, false, false) &&
           quic_keys_make_initial(&level->write, c->version, dcid, true, true);
}

static struct quic_connection *connection_begin(struct datagram_port *port,
                                                const struct datagram_packet *packet,
                                                const struct quic_header *header,
                                                const struct proof *proof)
{
    struct listener *listener = datagram_port_listener(port);
    const struct quic_service *service = listener->quic;
    struct quic_connection *c =
        quic_connection_new(&service->settings, service->secrets, true, header->version);

    c->service = service;
    quic_path_init(&c->paths[0], &packet->peer, &packet->local);
    c->paths[0].port = port;
    c->paths[0].is_there = true;
    c->paths[0].is_validated = proof->is_validated;
    c->same_address = same_address(&packet->peer);
    ++*c->same_address;
    set_ids(c, header, proof);
    if (!set_keys(c, header->dcid) || !quic_set_own_parameters(c) ||
        quic_conn_new(c, &packet->peer, listener, listener->log) == NULL) {
        quic_worker.counts.refused++;
        quic_connection_free(c);
        return NULL;
    }
    if (service->began != NULL && !service->began(listener, c)) {
        quic_worker.counts.refused++;
        quic_connection_free(c);
        return NULL;
    }
    c->recovery.is_peer_validated = true; /* a client is not bound to three times */
    if (!tls_messages_accept(c->conn, service->context, &service->selector, &quic_tls_owner, c)) {
        quic_end(c, QUIC_END_EVICTED);
        return NULL;
    }
    return c;
}

static void initial_received(struct datagram_port *port, const struct datagram_packet *packet,
                             const struct quic_header *header)
{
    struct proof proof = {.is_validated = false};
    struct quic_connection *c;

    if (packet->bytes.len < QUIC_DATAGRAM_LEAST || header->dcid.len < CLIENT_CID_LEAST ||
        datagram_has_stopped()) {
        quic_worker.counts.dropped++;
        return;
    }
    if (!look_at_token(port, packet, header, &proof)) {
        return;
    }
    if (*same_address(&packet->peer) >= HANDSHAKES_OF_PROVED) {
        refuse_address(port, packet, header);
        return;
    }
    if (conn_pool.used >= conn_pool.limit && !acceptors_make_room()) {
        refuse(port, packet, header);
        return;
    }
    c = connection_begin(port, packet, header, &proof);
    if (c == NULL) {
        return;
    }
    quic_worker.counts.accepted++;
    quic_datagram_received(c, packet, port);
    if (!c->has_heard) {
        /* Not an Initial after all. */
        quic_worker.counts.accepted--;
        quic_worker.counts.dropped++;
        quic_end(c, QUIC_END_EVICTED);
    }
}

/* ---- every datagram ---- */

/* The first packets after a Retry, whose id names the worker that sent it: a connection may have
 * begun there, or none has. */
static bool answers_retry(const struct datagram_packet *packet, const struct quic_secrets *secrets,
                          const struct quic_header *header)
{
    struct quic_token token = {.is_retry = false};

    return header->type == QUIC_PACKET_INITIAL && header->token.len != 0 &&
           quic_token_read(secrets, header->token, &packet->peer, (uint64_t) clock_now.seconds,
                           &token) &&
           token.is_retry && quic_cid_is(&token.retry_scid, header->dcid);
}

/* The worker that gave the id has the connection, if that is another one. A worker that a newer one
 * has replaced begins none: it gets packets that answer its Retry only if it has begun the
 * connection before. */
static bool pass_on(const struct datagram_packet *packet, const struct quic_secrets *secrets,
                    const struct quic_header *header)
{
    if (packet->was_passed || header->dcid.len != secrets->cid_size) {
        return false;
    }
    const struct quic_cid_names names = quic_cid_decode(secrets, header->dcid);
    if (names.worker == datagram_worker() ||
        (shard_reader(names.slot) != names.worker && answers_retry(packet, secrets, header) &&
         datagram_worker_noted(keyed_hash(header->dcid)) != names.worker) ||
        !datagram_pass_on(packet, names.worker)) {
        return false;
    }
    quic_worker.counts.passed_on++;
    return true;
}

static void without_connection(struct datagram_port *port, const struct datagram_packet *packet,
                               const struct quic_header *header)
{
    const struct quic_secrets *secrets = datagram_port_listener(port)->quic->secrets;

    if (header->type == QUIC_PACKET_UNKNOWN) {
        negotiate(port, packet, header);
    } else if (pass_on(packet, secrets, header)) {
        return;
    } else if (header->type == QUIC_PACKET_INITIAL) {
        initial_received(port, packet, header);
    } else if (header->type == QUIC_PACKET_1RTT) {
        reset(port, packet, secrets, header->dcid);
    } else {
        quic_worker.counts.dropped++;
    }
}

static void packet_received(struct datagram_port *port, const struct datagram_packet *packet)
{
    struct quic_header header;

    quic_worker_begin();
    if (!quic_header_read(packet->bytes, datagram_port_listener(port)->quic->secrets->cid_size,
                          &header)) {
        quic_worker.counts.dropped++;
        return;
    }
    struct quic_connection *c = quic_find(header.dcid);
    if (c == NULL) {
        without_connection(port, packet, &header);
    } else if (c->is_server) {
        quic_datagram_received(c, packet, port);
    }
}

static void port_ended(struct datagram_port *port)
{
    if (!quic_worker.is_ready) {
        return;
    }
    list_each(link, &quic_worker.connections) {
        struct quic_connection *c = container_of(link, struct quic_connection, all);

        if (c->paths[0].port != port) {
            if (c->paths[1].is_there && c->paths[1].port == port) {
                quic_path_drop(c, &c->paths[1]);
            }
            continue;
        }
        quic_refuse(c, QUIC_NO_ERROR, 0, "the server ends");
        quic_flush(c);
        quic_udp_flush();
        quic_call_owner(c);
        c->state = QUIC_ENDED;
        c->paths[0].port = c->paths[1].port = NULL;
        quic_wake(c);
    }
}

/* Each handshake at one moment takes two packets of the buffer: the clients of the others try again
 * after a second. */
static void packets_lost(struct datagram_port *port, uint32_t count)
{
    static time_t logged;

    count_limited(port, count);
    if (logged != clock_now.seconds) {
        logged = clock_now.seconds;
        log_warn(
            datagram_port_listener(port)->log, 0,
            "%u datagrams for %.*s were dropped: the receive buffer of its socket was full, see "
            "\"rcvbuf\" of \"listen\"",
            count, STR_ARG(datagram_port_listener(port)->text));
    }
}

const struct datagram_taker quic_taker = {
    .packet = packet_received,
    .ended = port_ended,
    .lost = packets_lost,
};

/* ---- settings ---- */

/* Of this process and those that it forks: workers of all generations have the same. */
static unsigned char random_key[QUIC_RANDOM_KEY_SIZE];
static bool has_random_key;

const unsigned char *quic_random_key(void)
{
    if (!has_random_key && RAND_bytes(random_key, sizeof(random_key)) != 1) {
        return NULL;
    }
    has_random_key = true;
    return random_key;
}

void quic_random_key_inherit(const unsigned char *key)
{
    memcpy(random_key, key, sizeof(random_key));
    has_random_key = true;
}

bool quic_service_init(struct quic_service *service, struct arena *arena)
{
    struct quic_secrets *secrets = arena_new(arena, struct quic_secrets);
    struct str key = service->settings.host_key;

    if (key.len == 0) {
        key = (struct str){(const char *) quic_random_key(), QUIC_RANDOM_KEY_SIZE};
    }
    service->secrets = secrets;
    return key.data != NULL && quic_secrets_make(secrets, key, service->settings.server_id);
}

void quic_serve(struct listener *listener, const struct quic_service *service)
{
    listener->taker = &quic_taker;
    listener->quic = service;
    listener->options.is_datagram = true;
    listener->options.has_ids = true;
    listener->options.ids =
        (struct id_steering){.key = {service->secrets->cid[0], service->secrets->cid[1]},
                             .size = service->secrets->cid_size};
}
