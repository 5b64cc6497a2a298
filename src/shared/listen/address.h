/* An address that servers of a protocol listen on: the parameters of `listen`, and what all servers
 * of one address share. Implemented in address.c and words.c. */
#ifndef SHARED_LISTEN_ADDRESS_H
#define SHARED_LISTEN_ADDRESS_H

#include <stdbool.h>

#include "conf/conf.h"
#include "net/shards/listener.h"

/* The parameters of one `listen`, except its address and those of a single protocol. */
struct listen_words {
    struct listen_options options;
    bool has_options; /* options of the socket were given: only once per address */
    bool is_default;  /* default_server */
    bool is_proxy_protocol;
    bool is_ssl;
};

/* A protocol's struct for an address begins with this. */
struct listen_address {
    struct listener *listener;      /* the address itself */
    bool is_datagram;               /* UDP; set before it is opened */
    bool is_ssl, is_proxy_protocol; /* according to the `listen` lines */
    bool is_default_explicit;       /* a line has default_server */
    bool has_options;               /* a line has options of the socket */
    bool needs_local_address; /* a wildcard: the local address has to be read from the socket */
    const struct conf_node *ssl_node; /* the line with ssl, for messages; or NULL */
};

/* Initialises the parameters of a line. */
void listen_words_init(struct listen_words *words);

enum listen_word { LISTEN_WORD_TAKEN, LISTEN_WORD_OTHER, LISTEN_WORD_WRONG };
/*
 * Reads one parameter of a line. OTHER: it may belong to the protocol. WRONG after conf_error.
 * Parameters that do not concern the socket ("ssl", "default_server", "proxy_protocol") are read by
 * the protocol.
 */
enum listen_word listen_word_read(struct conf *conf, const struct conf_node *node, struct str word,
                                  struct listen_words *words);
/* Reports `invalid parameter "x"`; gives false. */
bool listen_word_refuse(struct conf *conf, const struct conf_node *node, struct str word);

/*
 * Creates a listener for this address and adds it to the generation; the protocol sets its
 * callbacks and `user`. NULL after conf_error: another protocol listens on the address.
 */
struct listener *listen_address_open(struct conf *conf, const struct conf_node *node,
                                     const struct addr *addr, struct listen_address *address);

/* Adds the parameters of one more line to an address that has been opened. node: NULL for an
 * implicit one. False after conf_error. */
bool listen_address_add(struct conf *conf, const struct conf_node *node,
                        const struct listen_words *words, struct listen_address *address);

#endif
