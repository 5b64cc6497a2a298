/* The window of the start, and the pacer: a bucket of tokens that fills at the rate. */
#include "net/quic/congestion.h"

#include <stdlib.h>
#include <string.h>

#define INITIAL_BYTES 14720u /* RFC 9002, 7.2 */
#define BURST_DATAGRAMS 10u
#define BURST_US 1000u

void quic_congestion_init(struct quic_congestion *c, uint64_t now_us)
{
    const struct quic_congestion_control *control = c->control;
    uint32_t datagram = c->datagram;
    uint64_t least = 2ull * datagram > INITIAL_BYTES ? 2ull * datagram : INITIAL_BYTES;

    struct quic_bbr_state *bbr = c->bbr;

    memset(c, 0, sizeof(*c));
    c->bbr = bbr; /* it is used again */
    c->control = control;
    c->datagram = datagram;
    c->window = 10ull * datagram < least ? 10ull * datagram : least;
    c->threshold = UINT64_MAX;
    c->is_slow_start = true;
    c->pacer_us = now_us;
    c->pacer_bytes = UINT64_MAX;
    control->init(c, now_us);
}

void quic_congestion_free(struct quic_congestion *c)
{
    free(c->bbr);
    c->bbr = NULL;
}

uint64_t quic_congestion_least(const struct quic_congestion *c)
{
    return 2ull * c->datagram;
}

/* What the bucket holds at most. */
static uint64_t pacer_burst(const struct quic_congestion *c)
{
    uint64_t by_time = c->pacing_rate / (1000000u / BURST_US);
    uint64_t least = (uint64_t) BURST_DATAGRAMS * c->datagram;

    return by_time > least ? by_time : least;
}

static void pacer_fill(struct quic_congestion *c, uint64_t now_us)
{
    uint64_t burst = pacer_burst(c);

    if (now_us > c->pacer_us && c->pacer_bytes < burst) {
        uint64_t elapsed = now_us - c->pacer_us < 1000000u ? now_us - c->pacer_us : 1000000u;
        uint64_t more = c->pacing_rate * elapsed + c->pacer_rest;
        c->pacer_bytes += more / 1000000u;
        c->pacer_rest = more % 1000000u;
    }
    c->pacer_us = now_us;
    c->pacer_bytes = c->pacer_bytes < burst ? c->pacer_bytes : burst;
}

uint64_t quic_pacer_tokens(struct quic_congestion *c, uint64_t now_us)
{
    if (c->pacing_rate == 0) {
        return UINT64_MAX;
    }
    pacer_fill(c, now_us);
    return c->pacer_bytes;
}

void quic_pacer_spend(struct quic_congestion *c, uint64_t bytes, uint64_t now_us)
{
    if (c->pacing_rate != 0) {
        pacer_fill(c, now_us);
        c->pacer_bytes -= c->pacer_bytes < bytes ? c->pacer_bytes : bytes;
    }
}

uint64_t quic_pacer_ready_us(struct quic_congestion *c, uint64_t now_us)
{
    uint64_t tokens = quic_pacer_tokens(c, now_us);

    if (tokens >= c->datagram) {
        return now_us;
    }
    return now_us + (c->datagram - tokens) * 1000000u / c->pacing_rate + 1;
}
