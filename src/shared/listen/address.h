/* An address that servers of a protocol listen on: the parameters of `listen`, what all servers of
 * one address share. Implemented in address.c and words.c. */
#ifndef SHARED_LISTEN_ADDRESS_H
#define SHARED_LISTEN_ADDRESS_H

#include <stdbool.h>

#include "conf/conf.h"
#include "net/shards/listener.h"

/* What one line says beside its address, as far as every protocol has it. */
struct listen_words {
    struct listen_options options;
    bool has_options; /* options of the socket were written: once per address */
    bool is_default;  /* default_server */
    bool is_proxy_protocol;
    bool is_ssl;
};

/* What a protocol keeps for an address begins with this. */
struct listen_address {
    struct listener *listener;        /* the address itself */
    bool is_datagram;                 /* UDP; set before it is opened */
    bool is_ssl, is_proxy_protocol;   /* as the `listen` lines say */
    bool is_default_explicit;         /* a line said default_server */
    bool has_options;                 /* a line set options of the socket */
    bool needs_local_address;         /* a wildcard: our side's address must be asked for */
    const struct conf_node *ssl_node; /* the line that said ssl, for messages; or NULL */
};

/* The words of a line before any is read. */
void listen_words_init(struct listen_words *words);

enum listen_word { LISTEN_WORD_TAKEN, LISTEN_WORD_OTHER, LISTEN_WORD_WRONG };
/*
 * One word of a line. OTHER: the protocol may know it. WRONG after conf_error. Words without
 * meaning for any socket
 * ("ssl", "default_server", "proxy_protocol") are the protocol's to read.
 */
enum listen_word listen_word_read(struct conf *conf, const struct conf_node *node, struct str word,
                                  struct listen_words *words);
/* `invalid parameter "x"`; gives false. */
bool listen_word_refuse(struct conf *conf, const struct conf_node *node, struct str word);

/*
 * A listener for this address, added to those of the generation; its callbacks and `user` are the
 * protocol's to set. NULL after conf_error: another protocol listens on it.
 */
struct listener *listen_address_open(struct conf *conf, const struct conf_node *node,
                                     const struct addr *addr, struct listen_address *address);

/* What one more line says of an address that has been opened. node: NULL for one that nobody wrote.
 * False after conf_error. */
bool listen_address_add(struct conf *conf, const struct conf_node *node,
                        const struct listen_words *words, struct listen_address *address);

#endif
