/*
 * QUIC (RFC 9000, 9001, 9002, 9369): connections and their streams, as the protocol above sees
 * them. Knows no HTTP. All is on the loop's stack; nothing here waits.
 *
 * No function of this header calls one of the owner's callbacks: they are called when a datagram
 * was read, a timer fired or at the end of the turn. What was written leaves at the end of the turn
 * at the latest. Implemented in client.c, connection.c, endpoint.c, streams.c, turn.c and worker.c.
 */
#ifndef NET_QUIC_QUIC_H
#define NET_QUIC_QUIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/str.h"
#include "net/addr/addr.h"
#include "net/conn/conn.h"
#include "net/tls/tls.h"

struct listener;
struct ssl_st;

#define QUIC_VERSION_1 0x00000001u
#define QUIC_VERSION_2 0x6b3343cfu

/* Error codes of the transport (RFC 9000, 20.1). */
enum quic_error {
    QUIC_NO_ERROR = 0x00,
    QUIC_INTERNAL_ERROR = 0x01,
    QUIC_CONNECTION_REFUSED = 0x02,
    QUIC_FLOW_CONTROL_ERROR = 0x03,
    QUIC_STREAM_LIMIT_ERROR = 0x04,
    QUIC_STREAM_STATE_ERROR = 0x05,
    QUIC_FINAL_SIZE_ERROR = 0x06,
    QUIC_FRAME_ENCODING_ERROR = 0x07,
    QUIC_TRANSPORT_PARAMETER_ERROR = 0x08,
    QUIC_CONNECTION_ID_LIMIT_ERROR = 0x09,
    QUIC_PROTOCOL_VIOLATION = 0x0a,
    QUIC_INVALID_TOKEN = 0x0b,
    QUIC_APPLICATION_ERROR = 0x0c,
    QUIC_CRYPTO_BUFFER_EXCEEDED = 0x0d,
    QUIC_KEY_UPDATE_ERROR = 0x0e,
    QUIC_AEAD_LIMIT_REACHED = 0x0f,
    QUIC_NO_VIABLE_PATH = 0x10,
    QUIC_VERSION_NEGOTIATION_ERROR = 0x11,
    QUIC_CRYPTO_ERROR = 0x100, /* + the alert of TLS */
};

/* How a connection ended. */
enum quic_end {
    QUIC_END_OWN,     /* we closed it: quic_close, or an error of the peer that we found */
    QUIC_END_PEER,    /* the peer closed it */
    QUIC_END_IDLE,    /* max_idle_timeout passed without a packet */
    QUIC_END_TIMEOUT, /* the handshake did not end in time */
    QUIC_END_RESET,   /* stateless reset: the peer knows it no longer */
    QUIC_END_EVICTED, /* others need the place, or the worker ends */
};

struct quic_close {
    enum quic_end end;
    bool is_application; /* `code` is of the protocol above; else enum quic_error */
    bool is_flood;       /* by a guard of ours: the peer sent too much that brings nothing */
    uint64_t code;
    struct str reason; /* what the peer or we said; valid during the call; any bytes */
    int error;         /* of the socket: nobody serves QUIC at the address (ECONNREFUSED); or 0 */
    uint32_t version;  /* of a client whose version the server does not speak: one that both do; 0 =
                          there is none */
};

#define QUIC_STREAM_MAGIC 0x51c57e4du

/*
 * A stream. It lives until the owner gave it back (quic_stream_release) and both halves have ended;
 * streams that are left when the connection closes end with it, after `closed` has returned. An
 * owner reads these members and writes only `user`.
 */
struct quic_stream {
    uint32_t magic;
    bool is_input_finished; /* all bytes of the peer up to its FIN have been consumed, or it was
                               reset */
    bool is_input_reset;    /* the peer reset its half: input_code tells why */
    bool is_output_stopped; /* the peer wants no more (STOP_SENDING): output_code tells why */
    bool is_output_ended;   /* quic_stream_finish or quic_stream_reset was called */
    uint64_t id; /* RFC 9000, 2.1: the low bits say by which side it was opened, and whether it has
                    one direction */
    uint64_t input_code;
    uint64_t output_code;
    uint64_t moved_ms; /* when bytes of it were last sent for the first time; 0 = never */
    uint64_t heard_ms; /* when the peer last raised its limit (MAX_STREAM_DATA); 0 = never */
    struct quic_connection *connection;
    void *user; /* the owner's; NULL at first */
};

static inline bool quic_stream_is_unidirectional(const struct quic_stream *stream)
{
    return (stream->id & 2) != 0;
}

static inline bool quic_stream_is_of_server(const struct quic_stream *stream)
{
    return (stream->id & 1) != 0;
}

/*
 * The owner of a connection. Every callback may close the connection and release streams. The
 * callbacks on streams are called for streams that were not released.
 */
struct quic_owner {
    /* The handshake is complete: ALPN, certificates and the peer's parameters are known; the server
     * may have data to send before that (0.5-RTT), as soon as quic_service.accepted was called. May
     * be NULL. */
    void (*established)(struct quic_connection *connection);
    /* The peer has opened a stream; `readable` follows. Streams are reported in the order of their
     * ids, for each type. NULL: another owner will adopt the connection, and gets all callbacks
     * about streams then. */
    void (*stream_opened)(struct quic_stream *stream);
    /* There is more in quic_stream_input, or its end, or the peer reset its half. */
    void (*readable)(struct quic_stream *stream);
    /* Fewer bytes are unsent than quic_stream_want_writable asked for; or the peer said
     * STOP_SENDING. */
    void (*writable)(struct quic_stream *stream);
    /* The peer has raised its limit on streams of both directions, or any limit after
     * quic_stream_open gave NULL. May be NULL. */
    void (*streams_available)(struct quic_connection *connection);
    /* All streams of this turn were called; packets are made next. For work that costs less for
     * many streams in a row than in between. Not called once the connection is closed. May be NULL.
     */
    void (*streams_called)(struct quic_connection *connection);
    /* The end, called once in each connection that was accepted or connected. The connection may
     * not be touched after it; its streams are gone, too: state of the owner for each has to be
     * freed in it. */
    void (*closed)(struct quic_connection *connection, const struct quic_close *how);
};

/* ---- streams: input ---- */

/* The bytes that follow those consumed, as many as lie together. Empty: no more for now, or the end
 * (is_input_finished). Valid until quic_stream_consume or the end of the callback. */
struct str quic_stream_input(struct quic_stream *stream);
/* n of them were used: the windows of stream and connection move, quic_stream_input gives what
 * follows. What is not consumed holds the peer up once the window is full. */
void quic_stream_consume(struct quic_stream *stream, size_t n);
/* No more input is wanted: STOP_SENDING; what comes is dropped, and counts as consumed. */
void quic_stream_stop(struct quic_stream *stream, uint64_t code);

/* ---- streams: output ---- */

/* Opens a stream of ours; NULL: the peer's limit is reached (streams_available is called later), or
 * the connection ends. */
struct quic_stream *quic_stream_open(struct quic_connection *connection, bool is_unidirectional);
/* How many more streams of both directions the peer lets us open. */
uint64_t quic_streams_left(const struct quic_connection *connection);
/* Copies. What is written after finish, reset or STOP_SENDING is dropped. */
void quic_stream_write(struct quic_stream *stream, struct str bytes);
/* A reference to memory that stays valid and the same until the peer has acknowledged it, or the
 * stream ends: then release(arg) is called, perhaps inside this call. release may be NULL. */
void quic_stream_write_reference(struct quic_stream *stream, struct str bytes,
                                 void (*release)(void *), void *arg);
/* A range of a file, read when packets are made of it; release as above. A file that has become
 * shorter resets the stream with QUIC_INTERNAL_ERROR's place in the owner's numbers: the code that
 * quic_settings.file_error has. */
void quic_stream_write_file(struct quic_stream *stream, int fd, struct file_range range,
                            void (*release)(void *), void *arg);
/* The end of our half, after what was written. */
void quic_stream_finish(struct quic_stream *stream);
/* Our half ends at once; what is unsent is dropped. */
void quic_stream_reset(struct quic_stream *stream, uint64_t code);
/* Bytes that were written and never sent in a packet so far: what holds back pressure. */
uint64_t quic_stream_unsent(const struct quic_stream *stream);
/* Bytes that were sent at least once; what a reset or STOP_SENDING took back is not among them. */
uint64_t quic_stream_sent(const struct quic_stream *stream);
/* Bytes that were written and that the peer has not acknowledged. */
uint64_t quic_stream_unacknowledged(const struct quic_stream *stream);
/* `writable` is called once, when fewer than `below` bytes are unsent (1 = all were sent); perhaps
 * at the end of this turn. */
void quic_stream_want_writable(struct quic_stream *stream, uint64_t below);
/* Which stream is sent first (RFC 9218): urgency 0 to 7, 0 first; 3 and not incremental at first.
 */
void quic_stream_prioritize(struct quic_stream *stream, unsigned urgency, bool is_incremental);

/*
 * The owner has nothing more to do with the stream: no callback for it is called any more. Input
 * that comes is dropped (if it is not at its end the peer gets STOP_SENDING with the code); output
 * that was finished is still delivered; if it was not finished it is reset with the code.
 */
void quic_stream_release(struct quic_stream *stream, uint64_t code);

/* ---- connections ---- */

void *quic_user(const struct quic_connection *connection);
/* Whose callbacks are called from now on. */
void quic_adopt(struct quic_connection *connection, const struct quic_owner *owner, void *user);

/*
 * What addresses, TLS and the log are asked of: tls_ssl, tls_alpn, tls_variable, peer address, log,
 * number, listener. It has no descriptor: nothing may be read from it, written to it, parked or
 * closed. Lives as long as the connection.
 */
struct conn *quic_conn(const struct quic_connection *connection);
void quic_local(const struct quic_connection *connection, struct addr *local);
void quic_peer(const struct quic_connection *connection, struct addr *peer);
/* How often quic_conn has had another address of the peer since the connection began. */
uint32_t quic_moves(const struct quic_connection *connection);
struct str quic_alpn(const struct quic_connection *connection);
bool quic_is_established(const struct quic_connection *connection);
/* No packet of the connection is unacknowledged and nothing waits to be sent. */
bool quic_is_flushed(const struct quic_connection *connection);

/* CONNECTION_CLOSE with a code of the protocol above. What is unsent is dropped. `closed` is called
 * later, in this turn. */
void quic_close(struct quic_connection *connection, uint64_t code, struct str reason);
/* The same, and `closed` is called inside of it: not for use in a callback. */
void quic_close_now(struct quic_connection *connection, uint64_t code);
/*
 * The owner leaves: the connection is closed with the code, unless it is closed already, and no
 * callback is called any more. Ends quic_hold, too. May be called inside callbacks.
 */
void quic_abandon(struct quic_connection *connection, uint64_t code);
/*
 * After `closed` the connection stays as far as quic_conn and the addresses are concerned, for the
 * owner's log lines, until quic_unhold, which the owner calls once and not inside a callback.
 */
void quic_hold(struct quic_connection *connection);
void quic_unhold(struct quic_connection *connection);
/* Keeps the connection from its idle timeout by a PING after so many ms without a packet; 0 = no
 * more. */
void quic_keep_alive(struct quic_connection *connection, uint64_t every_ms);
/* The idle timeout that both sides agreed on; 0 = none, or not known yet. */
uint64_t quic_idle_timeout_ms(const struct quic_connection *connection);
/* When the peer last showed that it is there by a frame that answers nothing: PING, MAX_DATA,
 * MAX_STREAMS. 0 = never. */
uint64_t quic_heard_ms(const struct quic_connection *connection);

/* Numbers of a connection since it began. */
struct quic_counts {
    uint64_t packets_received, packets_sent, packets_lost;
    uint64_t bytes_received, bytes_sent; /* of UDP payload */
    uint64_t streams_opened;             /* by the peer */
    uint64_t migrations;
    uint64_t key_updates;
    uint64_t retransmitted_bytes;
};
struct quic_facts {
    struct quic_counts counts;
    uint32_t version;
    uint64_t rtt_us, rtt_min_us, rtt_var_us;
    uint64_t window_bytes, in_flight_bytes;
    uint64_t rate; /* bytes per second, as the congestion control believes */
    unsigned max_udp_payload;
};
void quic_facts(const struct quic_connection *connection, struct quic_facts *out);

/* ---- settings, and the server ---- */

/* Where a server wants its clients, once they have found it (RFC 9000, 9.6). */
struct quic_preferred {
    bool has_v4, has_v6;
    struct addr v4, v6; /* with their ports */
};

/* Values of a listener, or of a connection to a backend. Zero: the default that is named. */
struct quic_settings {
    uint64_t max_streams_bidi; /* that the peer may have open at a time:
                                  http3_max_concurrent_streams; 128 */
    uint64_t max_streams_uni;  /* 3 */
    unsigned probes_most;   /* without an answer, in a row, before the peer counts as gone; 0 = as
                               many as the idle timeout lets be */
    bool refuses_bidi;      /* the peer may open no stream of both directions */
    uint64_t stream_window; /* http3_stream_buffer_size; 65536: the first window of each stream */
    uint64_t
        most_window; /* to which the windows of a stream grow; 4 MB. The connection's: 1.5 times */
    uint64_t connection_window;    /* of the connection, from the beginning; one and a half of a
                                      stream's, and it grows */
    uint64_t idle_timeout_ms;      /* max_idle_timeout; 60000 */
    uint64_t handshake_timeout_ms; /* 10000; a server: client_header_timeout */
    unsigned active_connection_id_limit; /* quic_active_connection_id_limit; 2 */
    bool retries;                        /* quic_retry: addresses are validated by Retry */
    bool uses_gso;                       /* quic_gso */
    bool uses_bbr;                       /* quic_congestion_control bbr */
    bool disables_migration;
    struct str host_key; /* quic_host_key: 32 bytes or more; tokens and reset tokens are made of it.
                            Empty: random in each service */
    const struct quic_preferred *preferred; /* quic_preferred_address; NULL = none */
    const struct quic_server_id *server_id; /* quic_server_id: see token.h; NULL = none */
    uint64_t file_error; /* code with which a stream is reset whose file has become shorter */
};

struct quic_secrets;

/* How the listener serves. Made by the layer above, lives as long as the generation; in
 * listener->quic. */
struct quic_service {
    struct quic_settings settings;
    const struct quic_secrets *secrets; /* set by quic_service_init */
    struct tls_context *context;        /* of the default server */
    struct tls_selector selector;       /* as tls_accept has it: SNI, ALPN, hooks */
    /*
     * A connection of a client, right after the ClientHello was understood and the server's first
     * flight was made: the callee calls quic_adopt. False: the connection is refused
     * (CONNECTION_REFUSED).
     */
    bool (*accepted)(struct listener *listener, struct quic_connection *connection);
    /*
     * Before that: quic_conn was made, and nothing of TLS has begun. May be NULL, or calls
     * quic_adopt: then `closed` is called also where the handshake fails. False: the connection is
     * refused.
     */
    bool (*began)(struct listener *listener, struct quic_connection *connection);
    /*
     * Settings of the server that TLS has chosen by name, for this connection: all but `retries`,
     * `host_key` and `handshake_timeout_ms`, which are needed before. They live as long as the
     * generation. May be NULL: those of the service.
     */
    const struct quic_settings *(*chosen)(struct listener *listener,
                                          struct quic_connection *connection);
    /* So many clients were refused, or datagrams dropped, by a limit that the log names. May be
     * NULL. */
    void (*limited)(struct listener *listener, uint64_t count);
    void *user;
};

#define QUIC_RANDOM_KEY_SIZE 32u /* bytes */
/* What stands for quic_host_key where there is none; made at the first call. A new binary gets it
 * from the older one, so that it understands ids and tokens of its connections. NULL: OpenSSL
 * failed. */
const unsigned char *quic_random_key(void);
void quic_random_key_inherit(const unsigned char *key);

/* When the configuration is read, with the settings filled in. False: OpenSSL failed. */
bool quic_service_init(struct quic_service *service, struct arena *arena);

/* The listener serves so; before its sockets are opened. */
void quic_serve(struct listener *listener, const struct quic_service *service);

struct datagram_taker;
/* listener->taker of an address that serves QUIC. */
extern const struct datagram_taker quic_taker;

/* ---- the client ---- */

#define QUIC_CLIENT_BUFFER (4 << 20) /* bytes: SO_RCVBUF of a socket that is made here */

struct quic_connecting {
    const struct quic_settings *settings; /* all of these live as long as the connection */
    struct tls_context *context;
    const struct tls_client_options *options; /* alpn is needed */
    struct addr peer;
    int fd; /* a socket for datagrams that is not connected: QUIC owns it from the call on; -1: one
               is made */
    uint32_t version;    /* 0: version 1 */
    bool was_negotiated; /* it is what quic_close had: the server has to confirm it (RFC 9368, 4) */
    const struct quic_secrets *secrets; /* for ids and reset tokens; NULL: random in each worker */
    struct log *log;
};
/* Keys that quic_settings.host_key makes; in the arena. NULL: OpenSSL failed. */
const struct quic_secrets *quic_secrets_new(struct arena *arena, struct str host_key);
/* Begins a connection; NULL, with errno: the socket could not be connected, or, logged, TLS refused
 * (errno 0). `established` or `closed` follows. */
struct quic_connection *quic_connect(const struct quic_connecting *connecting,
                                     const struct quic_owner *owner, void *user);

/* ---- in a worker ---- */

/* Of this worker, since it began. */
struct quic_worker_counts {
    uint64_t accepted; /* connections of clients that began */
    uint64_t refused;  /* connections that were refused: there was no slot, or no worker for it */
    uint64_t retries;  /* Retry packets */
    uint64_t busy;     /* Retry packets since too many connections were in a handshake */
    uint64_t resets;   /* stateless resets sent */
    uint64_t negotiations; /* of versions */
    uint64_t unanswered; /* packets that would have got one of these, or a close, but there were too
                            many */
    uint64_t passed_on;  /* packets given to the worker that has the connection */
    uint64_t dropped;    /* packets that belong to no connection */
    uint64_t floods;     /* connections closed by a guard */
    uint64_t reads, writes; /* system calls */
};
void quic_worker_counts(struct quic_worker_counts *out);

/* Connections of this worker, closing ones included. */
size_t quic_connections(void);
/* The end of the process: owners hear that their connections end. */
void quic_worker_end(void);

#endif
