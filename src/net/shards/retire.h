/* The end of a slot's socket; private to this package. */
#ifndef NET_SHARDS_RETIRE_H
#define NET_SHARDS_RETIRE_H

struct retirement;

/* A connection came to the socket still. */
void retirement_accepted(struct retirement *retirement);

/* Its acceptor goes: frees it, and tells nobody. */
void retirement_free(struct retirement *retirement);

#endif
