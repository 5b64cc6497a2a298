/* The end of a slot's socket; private to this package. */
#ifndef NET_SHARDS_RETIRE_H
#define NET_SHARDS_RETIRE_H

struct retirement;

/* The socket still accepted a connection. */
void retirement_accepted(struct retirement *retirement);

/* The acceptor is freed: frees the retirement without calling done. */
void retirement_free(struct retirement *retirement);

#endif
