/* A spool: what a backend has given and the client has not taken yet, in memory and then in a file.
 */
#ifndef HTTP_EXCHANGE_SPOOL_H
#define HTTP_EXCHANGE_SPOOL_H

#include "http/exchange/exchange.h"

/*
 * Made when a client falls behind. From then on a fiber of its own gives the client what is there,
 * and the exchange continues reading. NULL: no fiber, or no memory (logged).
 */
struct spool *spool_start(struct exchange *x, bool never_waits);
/* Adds bytes at the end, copied. MAY WAIT for the client when memory and file are full, unless
 * never_waits. False: the client is gone, the file could not be written, or (logged) it is full. */
bool spool_put(struct spool *spool, struct str bytes);
/* No more comes: waits until the client has been given all. MAY WAIT. False: it is gone. is_whole
 * false: the response ends without its last piece. */
bool spool_finish(struct spool *spool, bool is_whole);
/* Gives up: ends the fiber, drops what is left. */
void spool_abort(struct spool *spool);

#endif
