/* What the files of QUIC's connections share; private to this folder. */
#ifndef NET_QUIC_PRIVATE_H
#define NET_QUIC_PRIVATE_H

#include <netinet/in.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "event/loop.h"
#include "net/datagram/packet.h"
#include "net/datagram/table.h"
#include "net/quic/flow.h"
#include "net/quic/frame.h"
#include "net/quic/keys.h"
#include "net/quic/packet.h"
#include "net/quic/parameters.h"
#include "net/quic/quic.h"
#include "net/quic/receive.h"
#include "net/quic/recovery.h"
#include "net/quic/schedule.h"
#include "net/quic/send.h"
#include "net/quic/token.h"
#include "net/tls/messages.h"

#define QUIC_OWN_CIDS 4u /* of a connection at a time, at most */
#define QUIC_PEER_CIDS 8u
#define QUIC_CRYPTO_MOST                                                                           \
    65536u /* bytes of handshake messages that wait for what is missing before them */
#define QUIC_RANGES_MOST 64u /* of received packet numbers */
#define QUIC_STREAM_WINDOW_MOST                                                                    \
    (4u * 1024 * 1024)           /* bytes: to which a window grows, if settings say nothing */
#define QUIC_DATAGRAM_MOST 1452u /* bytes of UDP payload that path MTU discovery tries */
#define QUIC_CONNECTION_MAGIC 0x9c1cc022u

/* ---- one encryption level, or rather packet number space ---- */

struct quic_level {
    struct quic_keys read, write;
    struct quic_received received;
    uint64_t largest;        /* received; QUIC_NUMBER_NONE */
    uint64_t largest_us;     /* when */
    uint64_t reported;       /* the largest of the last ACK that was sent; QUIC_NUMBER_NONE */
    uint64_t ack_due_us;     /* QUIC_NEVER: nothing to acknowledge by a time */
    uint64_t ecn[3];         /* ECT(0), ECT(1), CE received */
    uint32_t unacknowledged; /* packets received since the last ACK that ask for one */
    bool is_ack_due;         /* at the next chance */
    bool has_received;       /* something was received since the last ACK */
    bool is_discarded;
    bool has_sent; /* a packet */
    struct quic_send crypto_out;
    struct quic_receive crypto_in;
};

/* What is left of every level that was discarded. Never written to. */
extern struct quic_level quic_level_none;

/* ---- streams ---- */

struct quic_stream_state {
    struct quic_stream head; /* what the owner sees; first */
    struct hashed entry;     /* in the table of the connection, by id */
    struct list link;        /* of the connection: all streams */
    struct list
        control;       /* of those with something to say besides data; alone if there is nothing */
    struct list calls; /* of those whose owner is to be called; alone if not */
    struct quic_turn turn;
    struct quic_send *send; /* in the same block of memory; NULL: the stream has no such half */
    struct quic_receive *receive; /* the same */
    uint64_t writable_below;      /* 0: the owner does not wait */
    bool was_opened;              /* the owner knows of it */
    bool is_readable;             /* the owner is to be called for input */
    bool is_released;             /* the owner has released it */
    bool is_window_lost;          /* MAX_STREAM_DATA is to be sent again */
};

/* ---- ids ---- */

/* An id of ours. */
struct quic_own_cid {
    struct hashed entry; /* of the worker's table */
    struct quic_connection *connection;
    uint64_t number;
    struct quic_cid cid;
    bool is_used;    /* the place is taken */
    bool is_to_send; /* NEW_CONNECTION_ID */
};

/* One that the peer gave. */
struct quic_peer_cid {
    uint64_t number;
    struct quic_cid cid;
    uint8_t reset_token[QUIC_RESET_TOKEN_SIZE];
    bool has_token;
    bool is_used;   /* the place is taken */
    bool is_in_use; /* by a path */
};

/* ---- paths ---- */

/* An address of IPv4 or IPv6: struct addr has room for the path of a unix socket. */
struct quic_addr {
    socklen_t len;
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    };
};

/* Len 0 where it is longer than these. */
static inline struct quic_addr quic_addr_of(const struct addr *addr)
{
    struct quic_addr out = {.len = addr->len <= sizeof(out.v6) ? addr->len : 0};

    memcpy(&out.any, &addr->any, out.len);
    return out;
}

static inline struct addr quic_addr_get(const struct quic_addr *addr)
{
    struct addr out = {.len = addr->len};

    memcpy(&out.any, &addr->any, addr->len);
    return out;
}

struct quic_path {
    struct quic_addr peer, local;
    struct datagram_port *port; /* of a server; else NULL */
    int fd;                     /* of a client; else -1 */
    unsigned cid;               /* place of the peer's id that it uses */
    bool is_there;
    bool is_validated;
    bool is_challenge_due; /* PATH_CHALLENGE is to be sent */
    bool has_response;     /* PATH_RESPONSE is to be sent */
    uint8_t challenge[8], response[8];
    unsigned challenges;       /* sent, of this validation */
    uint64_t challenge_due_us; /* when the next is to be sent; QUIC_NEVER */
    uint64_t give_up_us;       /* when the validation has failed; QUIC_NEVER */
    uint64_t received, sent;   /* bytes, until it is validated */
    unsigned mtu;              /* bytes of UDP payload */
    unsigned mtu_probe;        /* that is under way; 0 = none */
    unsigned mtu_failed;       /* the smallest that did not arrive */
    unsigned mtu_tries;
};

enum quic_state {
    QUIC_HANDSHAKING,
    QUIC_ESTABLISHED, /* the handshake is complete */
    QUIC_CLOSING,     /* we said CONNECTION_CLOSE */
    QUIC_DRAINING,    /* the peer did, or a stateless reset came */
    QUIC_ENDED,       /* nothing is called or sent */
};

/* What is to be sent once, as bits. */
enum quic_pending {
    QUIC_PENDING_HANDSHAKE_DONE = 1,
    QUIC_PENDING_MAX_DATA = 2,
    QUIC_PENDING_MAX_STREAMS_BIDI = 4,
    QUIC_PENDING_MAX_STREAMS_UNI = 8,
    QUIC_PENDING_DATA_BLOCKED = 16,
    QUIC_PENDING_STREAMS_BLOCKED_BIDI = 32,
    QUIC_PENDING_STREAMS_BLOCKED_UNI = 64,
    QUIC_PENDING_NEW_TOKEN = 128,
    QUIC_PENDING_PING = 256,
    QUIC_PENDING_NEW_CIDS = 512,
    QUIC_PENDING_RETIRED = 1024,
    QUIC_PENDING_ACK_FREQUENCY = 2048,
};

/* How often one side acknowledges packets of 1-RTT (draft-ietf-quic-ack-frequency, 4). */
struct quic_ack_rule {
    uint64_t number;    /* of the ACK_FREQUENCY frame that asked for it; QUIC_NUMBER_NONE: none */
    uint64_t threshold; /* more packets than these that ask for it get an ACK at once */
    uint64_t delay_us;
    uint64_t reordering; /* packets; 0 = a packet out of order is no reason for an ACK */
};

#define QUIC_RETIRED_MOST 32u

/* Ids of the peer whose retirement is not acknowledged. */
struct quic_retired {
    unsigned count;
    uint64_t numbers[QUIC_RETIRED_MOST];
    bool is_sent[QUIC_RETIRED_MOST]; /* RETIRE_CONNECTION_ID */
};

/* Keys for packets from before and after an update of the peer's. */
struct quic_phases {
    struct quic_keys next;   /* of the next key phase; with has_next */
    struct quic_keys former; /* of the one before, for a while */
    bool has_next;
};

struct quic_connection {
    uint32_t magic;
    uint32_t version;
    uint32_t first_version; /* of a client that has first_read */
    enum quic_state state;
    bool is_server;
    bool is_confirmed;         /* RFC 9001, 4.1.2 */
    bool is_established_due;   /* the owner is to hear of it */
    bool is_adopted;           /* it has an owner */
    bool is_accepted;          /* the server's owner was called: TLS has chosen and answered */
    bool is_held;              /* the owner still asks of it what quic_hold says */
    bool is_freed;             /* it was freed in the meantime */
    bool is_expiring;          /* inside quic_recovery_expired */
    bool is_stripped;          /* it is over: only keys and ids are left */
    bool is_close_to_send;     /* CONNECTION_CLOSE */
    bool is_handshake_counted; /* among those of the worker, and of its address */
    bool is_closed_due;        /* the owner is to be called at the end */
    bool is_sending;           /* inside quic_flush */
    bool has_peer_parameters;
    bool has_token_sent;
    bool is_address_validated; /* by a token */
    bool was_retried;
    bool was_negotiated; /* of a client: it chose this version since the server said that it has no
                            other */
    bool was_idle_restarted; /* something that asks for an answer was sent since the last packet
                                came */
    bool is_streams_wait[2]; /* quic_stream_open gave NULL: of both directions, of one */
    bool uses_next_phase;    /* bit of the key phase that we send */
    bool read_phase;         /* bit of the key phase of levels[].read */
    bool is_phase_acked;     /* a packet of the phase that we send was acknowledged */
    bool has_heard;          /* an authentic packet has come */
    bool has_more_streams; /* the limit on ours of both directions was raised: the owner is to hear
                              of it */
    int send_error;        /* of the socket of a client, to be looked at; 0 = none */
    uint8_t refusals; /* of a client: times that nobody was at the address, since the last packet
                         came */
    unsigned pending; /* enum quic_pending */

    const struct quic_owner *owner;
    void *user;
    struct conn *conn; /* bears addresses, TLS and log; owned; NULL once closed */
    const struct quic_settings *settings;
    const struct quic_service *service;           /* of a server */
    const struct quic_secrets *secrets;           /* for ids and tokens */
    const struct tls_client_options *tls_options; /* of a client */
    struct event_source source;                   /* of a client: its socket */
    struct list all;                              /* of the worker */
    struct list dirty; /* of those that have to be flushed; alone if not */
    struct timer timer;

    uint16_t
        *same_address; /* of a server: handshakes under way with clients of this address, or NULL */
    struct quic_level *levels[QUIC_SPACES]; /* owned; discarded ones are quic_level_none */
    struct quic_recovery recovery;
    struct quic_ack_rule acks;  /* as the peer asks us */
    struct quic_ack_rule asked; /* as we ask the peer */
    uint64_t asked_us;          /* when that was last thought over */
    struct quic_phases *phases; /* for reading; owned; NULL until a packet of another phase comes */
    struct quic_keys *first_read; /* for Initials of the version that the client began with, before
                                     it was changed; owned, or NULL */
    uint64_t former_until_us;
    uint64_t phase_first;      /* the least number that came in the current phase */
    uint64_t phase_sent_first; /* the least number that was sent in the current phase */
    uint32_t probes_before;    /* recovery.pto_count before quic_recovery_expired */
    uint64_t handshake_until_us;
    uint64_t heard_ms;        /* as quic_heard_ms says */
    uint64_t idle_us;         /* when the peer was heard last, or we began to speak after that */
    uint64_t idle_timeout_us; /* agreed; 0 = none */
    uint64_t keep_alive_us;   /* 0 = no */
    uint64_t end_us;          /* of closing or draining */
    uint64_t paced_us;        /* QUIC_NEVER: no wait for the pacer */

    struct quic_parameters own, peer;
    unsigned char *own_bytes; /* `own` as sent; owned, until the handshake is over */
    size_t own_bytes_size;
    struct quic_cid original_dcid; /* that the client chose first */
    struct quic_cid retry_scid;
    struct str token;   /* of a client, for its Initials; owned */
    uint64_t token_key; /* the key of tokens for the next connection; 0 = they are not kept */

    struct quic_own_cid original; /* the client's own choice, until it uses ours */
    struct quic_own_cid own_cids[QUIC_OWN_CIDS];
    uint64_t next_own_number;
    uint64_t own_retire_before;
    struct quic_peer_cid peer_cids[QUIC_PEER_CIDS];
    uint64_t retire_before;
    struct quic_retired *retired; /* owned; NULL: none */
    uint32_t moves;               /* as quic_moves says */
    struct quic_path paths[2];    /* the current one, and one that is looked at */

    struct hashed_table streams;
    struct list all_streams;
    struct list control_streams;
    struct list calls;                /* streams whose owner is to be called */
    struct quic_stream_state *called; /* whose owner is called; NULL: none, or it is gone */
    struct quic_schedule schedule;
    struct quic_peer_streams peer_streams[2]; /* bidirectional, unidirectional */
    uint64_t own_next[2], own_limit[2]; /* streams of ours: how many were opened, and may be */
    struct quic_window window;
    struct quic_credit credit;

    struct quic_close close; /* how it ended */
    char close_reason[64];
    uint64_t close_frame_type;
    uint64_t closings; /* packets that came while closing */
    struct quic_counts counts;
    struct quic_guards {
        uint64_t window_us; /* beginning of the second that is counted */
        uint32_t frames;    /* small frames that cost more than they bring, in it */
        uint32_t challenges;
    } guards;
};

static inline uint64_t quic_now_us(void)
{
    return clock_now.now_ns / 1000 + 1;
}

static inline struct quic_stream_state *quic_state_of(const struct quic_stream *stream)
{
    return (struct quic_stream_state *) (uintptr_t) stream;
}

static inline bool quic_is_open(const struct quic_connection *c)
{
    return c->state <= QUIC_ESTABLISHED;
}

/* ---- worker.c: what a worker has of QUIC ---- */

struct quic_worker {
    struct hashed_table cids; /* struct quic_own_cid */
    struct list connections;
    struct list dirty;
    struct deferred flush;
    struct quic_sent_pool sent;
    const struct quic_recovery_owner *recovery_events;
    struct quic_worker_counts counts;
    uint64_t handshakes; /* of clients that are under way */
    bool is_ready;
};
extern struct quic_worker quic_worker;

/* It has something to send, or its owner something to hear: both before the loop sleeps. */
void quic_wake(struct quic_connection *c);
struct quic_connection *quic_find(struct str cid);

/* ---- turn.c ---- */

/* Before the first connection. */
void quic_worker_begin(void);

/* ---- connection.c ---- */

struct quic_connection *quic_connection_new(const struct quic_settings *settings,
                                            const struct quic_secrets *secrets, bool is_server,
                                            uint32_t version);
void quic_connection_free(struct quic_connection *c);
/* Instead of those of the listener: before there are streams. Our transport parameters are made
 * again. */
void quic_use_settings(struct quic_connection *c, const struct quic_settings *settings);
/* It does not shake hands any more: it is established, or ends. */
void quic_handshake_over(struct quic_connection *c);
/* The conn that bears addresses, log and TLS; NULL: there is no place for one more. */
struct conn *quic_conn_new(struct quic_connection *c, const struct addr *peer,
                           const struct listener *listener, struct log *log);
/* Sets the timer by all deadlines. */
void quic_arm(struct quic_connection *c);
/* An error of the peer, or of ours: CONNECTION_CLOSE. */
void quic_close_by(struct quic_connection *c, const struct quic_close *how, uint64_t frame_type);
void quic_refuse(struct quic_connection *c, uint64_t code, uint64_t frame_type, const char *reason);
/* The end without a word. */
void quic_end(struct quic_connection *c, enum quic_end how);
/* The same; error: of the socket. */
void quic_end_by_error(struct quic_connection *c, enum quic_end how, int error);
/* The socket of a client says that nobody, or no way, is there. */
void quic_refused_by_socket(struct quic_connection *c, int error);
/* The owner hears what there is to hear. */
void quic_call_owner(struct quic_connection *c);
void quic_heard_close(struct quic_connection *c, const struct quic_frame *frame);
/* The parameters of the peer are in force. */
void quic_parameters_known(struct quic_connection *c);

/* ---- handshake.c ---- */

extern const struct tls_messages_owner quic_tls_owner;
bool quic_set_own_parameters(struct quic_connection *c);
/* CRYPTO bytes have come, or a wait is over. */
void quic_shake_hands(struct quic_connection *c);
/* False: the packet may not be acknowledged. */
bool quic_crypto_received(struct quic_connection *c, enum quic_space space,
                          const struct quic_frame *frame);
void quic_confirm(struct quic_connection *c);
void quic_level_make(struct quic_connection *c, enum quic_space space);
/* Frees all of it; acknowledgements of its packets are not awaited any more. */
void quic_level_discard(struct quic_connection *c, enum quic_space space);
void quic_level_free(struct quic_connection *c, enum quic_space space);
/* Keys for the next phase, if it is time. */
void quic_update_keys(struct quic_connection *c);

/* ---- client.c ---- */

/* The token for the Initials of a client; copies. */
void quic_set_token(struct quic_connection *c, struct str token);

/* ---- kept_tokens.c ---- */

/* A server gave it (NEW_TOKEN): kept for one connection of this key; copies. The last one counts.
 */
void quic_token_keep(uint64_t key, struct str token);
/* The caller owns it; empty: there is none. */
struct str quic_token_take(uint64_t key);
void quic_tokens_drop(void);

/* ---- input.c ---- */

/* A datagram for this connection. */
/* port: that it came by, of a server; else NULL. */
void quic_datagram_received(struct quic_connection *c, const struct datagram_packet *datagram,
                            struct datagram_port *port);

/* ---- frames_in.c ---- */

/* The frames of a packet that is authentic. False: the connection is closed. */
struct quic_packet_in {
    enum quic_space space;
    enum quic_packet_type type;
    uint64_t number;
    struct str payload;
    struct str dcid;
    struct quic_path *path;
    bool is_eliciting; /* out */
    bool is_probing;   /* out: no frame but those of probes */
};
bool quic_frames_received(struct quic_connection *c, struct quic_packet_in *packet);

/* ---- ack_frequency.c ---- */

/* The least delay of an ACK that we promise: our timers have milliseconds. */
#define QUIC_ACK_DELAY_LEAST_US 1000u
void quic_ack_rules_init(struct quic_connection *c);
/* A packet that asks for an ACK was received: is it to be sent at once? `level` has noted it;
 * `before` is what was its largest. */
bool quic_ack_is_due(const struct quic_connection *c, const struct quic_level *level,
                     uint64_t number, uint64_t before);
void quic_ack_frequency_received(struct quic_connection *c, const struct quic_frame *frame);
/* An ACK came: is it time to ask for more or fewer of them? */
void quic_ack_request(struct quic_connection *c, uint64_t now_us);
void quic_ack_request_lost(struct quic_connection *c, uint64_t number);

/* ---- output.c ---- */

/* Sends what there is and may be sent. */
void quic_flush(struct quic_connection *c);
extern const struct quic_recovery_owner quic_recovery_events;

/* ---- udp.c ---- */

/* Datagrams that lie one after the other, of `segment` bytes each; the last may be shorter. */
struct quic_train {
    size_t size; /* bytes in all */
    size_t segment;
    unsigned ecn; /* bits of the IP header */
};
#define QUIC_TRAIN_MOST 60000u /* bytes */
#define QUIC_TRAIN_DATAGRAMS 40u
/* Where the next train is to be written: QUIC_TRAIN_MOST bytes. */
unsigned char *quic_udp_room(void);
/* What was written there leaves by the path, with others, when quic_udp_flush is called at the
 * latest. */
void quic_udp_queue(struct quic_connection *c, const struct quic_path *path,
                    const struct quic_train *train);
void quic_udp_flush(void);
/* Sockets take no more for a moment: connections hold back. */
bool quic_udp_is_blocked(void);
void quic_udp_begin(void);
void quic_udp_end(void);
/* The connection ends: nothing is reported to it. */
void quic_udp_forget(const struct quic_connection *c);
/* One datagram where there is no connection. */
void quic_udp_answer(struct datagram_port *port, const struct datagram_packet *to,
                     const unsigned char *bytes, size_t size);

/* ---- streams.c ---- */

void quic_streams_init(struct quic_connection *c);
/* What the peer may open and send, by our own parameters: before it has. */
void quic_streams_limit(struct quic_connection *c);
void quic_streams_free(struct quic_connection *c);
/* The stream that a frame of the peer is for. NULL: it is over, or *c was closed by an error.
 * is_for_input: the frame is about what the peer sends. */
struct quic_stream_state *quic_stream_for(struct quic_connection *c, uint64_t id, bool is_for_input,
                                          uint64_t frame_type);
struct quic_stream_state *quic_stream_find(struct quic_connection *c, uint64_t id);
/* False: the packet may not be acknowledged. */
bool quic_stream_received(struct quic_connection *c, const struct quic_frame *frame);
void quic_stream_was_reset(struct quic_connection *c, const struct quic_frame *frame);
void quic_stream_was_stopped(struct quic_connection *c, const struct quic_frame *frame);
/* Frees it when nothing is left to do. */
void quic_stream_settle(struct quic_stream_state *stream);
/* Puts it in the schedule if it has something to send, or takes it out. */
void quic_stream_reschedule(struct quic_stream_state *stream);
void quic_streams_credit(struct quic_connection *c);
void quic_stream_control(struct quic_stream_state *stream);
/* Bytes of it were sent for the first time. */
void quic_stream_sent_some(struct quic_stream_state *stream);
/* Calls owners of streams. */
void quic_streams_call(struct quic_connection *c);

/* ---- cids.c ---- */

/* Makes ids of ours as many as the peer takes. */
void quic_cids_supply(struct quic_connection *c);
void quic_cid_make(struct quic_connection *c, struct quic_own_cid *own);
void quic_cid_register(struct quic_own_cid *own);
void quic_cid_unregister(struct quic_own_cid *own);
void quic_cids_free(struct quic_connection *c);
/* Packets with the id that the client chose, or had from a Retry, are not for the connection any
 * more. */
void quic_original_forget(struct quic_connection *c);
void quic_cid_retired(struct quic_connection *c, uint64_t number, struct str used_by);
void quic_cid_received(struct quic_connection *c, const struct quic_frame *frame);
/* RETIRE_CONNECTION_ID was acknowledged, or lost. */
void quic_cid_retirement_known(struct quic_connection *c, uint64_t number, bool has_arrived);
/* A fresh id of the peer for a path; false: there is none. */
bool quic_cid_take(struct quic_connection *c, struct quic_path *path);
void quic_cid_give_up(struct quic_connection *c, unsigned place);
bool quic_is_reset_token(const struct quic_connection *c, struct str token);

/* ---- path.c ---- */

void quic_path_init(struct quic_path *path, const struct addr *peer, const struct addr *local);
/* The path that a datagram came by. A new one is in *fresh; NULL: the peer may not move yet. */
struct quic_path *quic_path_of(struct quic_connection *c, const struct datagram_packet *datagram,
                               struct datagram_port *port, struct quic_path *fresh);
/* A packet from a new path was authentic: the path is the connection's. */
struct quic_path *quic_path_add(struct quic_connection *c, const struct quic_path *fresh);
/* It exists no more. */
void quic_path_drop(struct quic_connection *c, struct quic_path *path);
/* A packet that does not probe came with the highest number: the peer has moved there. */
void quic_path_moved(struct quic_connection *c, struct quic_path *path);
void quic_path_answered(struct quic_connection *c, struct str response);
void quic_path_challenge(struct quic_connection *c, struct quic_path *path);
void quic_path_validated(struct quic_connection *c, struct quic_path *path);
/* Bytes that may be sent there. */
size_t quic_path_room(const struct quic_path *path);
uint64_t quic_path_deadline(const struct quic_connection *c);
void quic_path_expired(struct quic_connection *c, uint64_t now_us);
/* Nothing is answered any more: perhaps since large datagrams do not arrive. */
void quic_path_mtu_lost(struct quic_connection *c);
void quic_path_mtu_known(struct quic_connection *c, unsigned size, bool has_arrived);
/* The size of a probe that should be sent; 0 = none. */
unsigned quic_path_mtu_next(const struct quic_connection *c);

#endif
