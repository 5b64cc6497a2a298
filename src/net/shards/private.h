/* What the files of shards share among themselves; private to this package. */
#ifndef NET_SHARDS_PRIVATE_H
#define NET_SHARDS_PRIVATE_H

#include "net/shards/listener.h"

/* ---- shards.c ---- */

/* A fresh set in the registry, with no options; never NULL. */
struct shard_set *shard_set_new(const struct addr *addr, bool is_datagram);

/* The set of an address; NULL = there is none. */
struct shard_set *shard_set_find(const struct addr *addr, bool is_datagram);

/* The set takes the descriptor as its next slot, which is the last of the kernel's group. */
void shard_set_push(struct shard_set *set, int fd);

/* Takes the set out of the registry; frees one that is not in it, and has no sockets left. */
void shard_set_unlink(struct shard_set *set);
void shard_set_free(struct shard_set *set);

/* ---- leaving.c ---- */

/* Does a set that leaves have sockets at the port? They are ours, and in nobody's way. */
bool shard_address_is_leaving(const struct addr *addr);

/* ---- steer.c ---- */

/*
 * Steers to the slots of now, so that those about to be added get nothing before their workers are
 * there.
 */
void shard_hold_growth(struct shard_set *set, const struct log *log);

/* ---- socket.c ---- */

/* How opening a listening socket went. */
enum open_result {
    OPEN_DONE,
    OPEN_BUSY,  /* the address is in use: may be tried again */
    OPEN_FAILED /* no use in trying again */
};

/*
 * Makes, binds and listens, but for datagrams. is_alone: refuses an address on which any other
 * socket listens, although it would share. Failures are logged.
 */
enum open_result listen_socket(const struct addr *addr, const struct listen_options *options,
                               bool is_alone, const struct log *log, int *fd);

/* Options that may change on a socket that listens; former is what was applied before. */
void listen_options_apply(int fd, const struct addr *addr, const struct listen_options *former,
                          const struct listen_options *options, const struct log *log);

/* Lets further sockets of the same user join a socket that was made elsewhere. */
void listen_share(int fd);

#endif
