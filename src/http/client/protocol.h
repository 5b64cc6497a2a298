/* What a protocol of clients registers (struct http_module.protocol): HTTP/1, HTTP/2. The first one
 * that is registered is spoken with clients who do not ask for another. */
#ifndef HTTP_CLIENT_PROTOCOL_H
#define HTTP_CLIENT_PROTOCOL_H

#include <stdbool.h>

#include "base/str.h"
#include "net/conn/conn.h"
#include "net/tls/tls.h"

struct arena;
struct http_connection;
struct http_listen;
struct http_main;
struct http_server;
struct request;
struct variable_env;

/* All functions are called on the loop's stack; the connection may be gone afterwards. */
struct http_protocol {
    struct str alpn; /* its names in TLS (RFC 7301), each after its length */
    struct str
        preface; /* what its clients begin with on a plain socket; empty: they do not show it */
    const struct http_protocol *also; /* one more that the same module has, or NULL */
    bool
        is_quic; /* spoken over QUIC, on addresses that `listen ... quic` names, and nowhere else */
    const char *parameter; /* of `listen`, by which an address speaks it, or NULL */
    bool has_directive;    /* a directive of the same name has replaced the parameter */
    const char *action;    /* what log lines of a connection say that it is doing */
    const char *off; /* what is logged of a request for a server where it is not spoken; NULL: it
                        always is */
    struct conn_owner owner; /* what the loop tells while it is spoken */
    /* Does this server speak it, where `listen` does not say so? NULL: each does. */
    bool (*is_on)(const struct http_server *server);
    /* It is spoken from now on; input may be there already, and is reported after this. NULL:
     * nothing is to be made. */
    void (*begin)(struct http_connection *connection);
    /* It is spoken no more, since the connection closes or lingers: frees connection->wire_state.
     * Called when that is not NULL. */
    void (*end)(struct http_connection *connection);
    void (*settle)(struct http_connection *connection); /* connection->settle was deferred */
    void (*quit)(struct http_connection
                     *connection); /* the worker is on its way out; NULL: waits for its rest */
    void (*abort)(struct http_connection *connection); /* breaks off at once */
    /* The request that is worked on, or NULL. NULL: there is no such one, since requests run side
     * by side. */
    struct request *(*current)(const struct http_connection *connection);
};

/* TLS, of the module that has it (struct http_module.handshake). */
struct http_handshake {
    const struct tls_selector
        *selector; /* of servers and certificates, for transports with a handshake of their own */
    /* What a handshake begins with at an address with this default server; NULL: it has no
     * certificate. */
    struct tls_context *(*context)(const struct http_server *server);
    /* The server that a handshake's name has led to, of a subject that variables are evaluated for;
     * NULL: it is no handshake. */
    const struct http_server *(*server)(struct variable_env *env);
    /* As far as the handshake goes now. */
    enum tls_progress (*go_on)(struct http_connection *connection);
    /* When the first certificate of a server's own ends, in seconds since the epoch; 0 = it has
     * none that is known. */
    int64_t (*expires)(const struct http_server *server);
};

/* The protocol that this parameter of `listen` asks for, or NULL. */
const struct http_protocol *protocol_of_parameter(const struct http_main *main, struct str word);
/* Does the address take QUIC? */
bool listen_is_quic(const struct http_listen *listen);
/* Is it spoken with this server on this address? */
bool protocol_is_on(const struct http_protocol *protocol, const struct http_listen *listen,
                    const struct http_server *server);
/* When the modules have registered theirs: the lists that clients are offered. */
void protocols_finish(struct http_main *main, struct arena *arena);
/* The names that a client is offered in TLS, the newest protocol first; as long as the
 * configuration. */
struct str protocols_offered(const struct http_listen *listen, const struct http_server *server);
/* The one that has been agreed on; the first where none was. */
const struct http_protocol *protocol_agreed(const struct http_listen *listen, struct str name);
/*
 * The one whose clients begin like this, or NULL. *may_come: with more input it may be one that is
 * on by the default server.
 */
const struct http_protocol *protocol_of_preface(const struct http_listen *listen, struct str input,
                                                bool *may_come);
/* Can there be such a one? */
bool protocols_have_preface(const struct http_listen *listen);

#endif
