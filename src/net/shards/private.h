/* Shared by the files of this package, private to it. */
#ifndef NET_SHARDS_PRIVATE_H
#define NET_SHARDS_PRIVATE_H

#include "net/shards/listener.h"

/* ---- shards.c ---- */

/* Adds a new set without options to the registry; never NULL. */
struct shard_set *shard_set_new(const struct addr *addr, bool is_datagram);

/* The set of an address; NULL: none. */
struct shard_set *shard_set_find(const struct addr *addr, bool is_datagram);

/* Adds the descriptor as the next slot of the set; it is the last one of the kernel's group. */
void shard_set_push(struct shard_set *set, int fd);

/* Removes the set from the registry; frees one that is not in it and has no sockets. */
void shard_set_unlink(struct shard_set *set);
void shard_set_free(struct shard_set *set);

/* ---- leaving.c ---- */

/* Has a set that leaves sockets at this port? They are ours, and do not conflict. */
bool shard_address_is_leaving(const struct addr *addr);

/* ---- steer.c ---- */

/*
 * Steers to the current slots, so that slots about to be added get nothing before their workers
 * accept.
 */
void shard_hold_growth(struct shard_set *set, const struct log *log);

/* ---- socket.c ---- */

/* The result of opening a listening socket. */
enum open_result {
    OPEN_DONE,
    OPEN_BUSY,  /* the address is in use; may be tried again */
    OPEN_FAILED /* another attempt is useless */
};

/*
 * Creates and binds a socket, and listens unless it is for datagrams. is_alone: refuses an address
 * on which any other socket listens, even one with SO_REUSEPORT. Failures are logged.
 */
enum open_result listen_socket(const struct addr *addr, const struct listen_options *options,
                               bool is_alone, const struct log *log, int *fd);

/* Applies options that may change on a listening socket; former: those applied before, NULL for a
 * new socket. */
void listen_options_apply(int fd, const struct addr *addr, const struct listen_options *former,
                          const struct listen_options *options, const struct log *log);

/* Lets further sockets of the same user share the address of this one. */
void listen_share(int fd);

#endif
