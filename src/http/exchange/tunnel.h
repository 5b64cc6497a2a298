/* What the files of tunnels share: tunnel.c, pump.c. */
#ifndef HTTP_EXCHANGE_TUNNEL_H
#define HTTP_EXCHANGE_TUNNEL_H

#include "http/exchange/internal.h"
#include "http/request/wire.h"

/* Is the client's connection shared by several requests, so that their bytes have frames around
 * them? */
static inline bool tunnel_is_framed(const struct request *request)
{
    return request->main->wire->is_multiplexed;
}

/* Logs that no byte went either way for too long. */
void tunnel_tell_timeout(struct exchange *x);

/* Both ways, of a client whose bytes have frames, until one is over. False: there is no fiber for
 * it. MAY WAIT. */
bool tunnel_pump(struct exchange *x);

/*
 * Of another client: what is left of its request's body goes up, and what the backend says
 * meanwhile down. False: that was the end of the tunnel. MAY WAIT.
 */
bool tunnel_await_body(struct exchange *x);

#endif
