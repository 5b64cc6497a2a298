/* Flow control: credits, windows, limits on streams. */
#include "net/quic/flow.h"

void quic_credit_init(struct quic_credit *credit, uint64_t limit)
{
    *credit = (struct quic_credit){.limit = limit, .blocked_at = UINT64_MAX};
}

bool quic_credit_raise(struct quic_credit *credit, uint64_t limit)
{
    if (limit <= credit->limit) {
        return false;
    }
    bool had_none = credit->used == credit->limit;
    credit->limit = limit;
    return had_none;
}

bool quic_credit_blocked(struct quic_credit *credit)
{
    if (credit->used < credit->limit || credit->blocked_at == credit->limit) {
        return false;
    }
    credit->blocked_at = credit->limit;
    return true;
}

void quic_credit_blocked_lost(struct quic_credit *credit, uint64_t limit)
{
    if (credit->blocked_at == limit) {
        credit->blocked_at = UINT64_MAX;
    }
}

void quic_window_init(struct quic_window *window, uint64_t size, uint64_t most)
{
    *window = (struct quic_window){.limit = size, .size = size, .most = most > size ? most : size};
}

bool quic_window_receive(struct quic_window *window, uint64_t n)
{
    if (n > window->limit - window->received) {
        return false;
    }
    window->received += n;
    return true;
}

bool quic_window_is_due(const struct quic_window *window)
{
    return window->limit - window->consumed <= window->size / 2;
}

uint64_t quic_window_update(struct quic_window *window, uint64_t now_us, uint64_t rtt_us)
{
    bool is_quick = window->updated_us != 0 && now_us - window->updated_us < 2 * rtt_us;

    if (is_quick && window->size < window->most) {
        window->size = window->size > window->most / 2 ? window->most : 2 * window->size;
    }
    window->updated_us = now_us;
    if (window->consumed + window->size > window->limit) {
        window->limit = window->consumed + window->size;
    }
    return window->limit;
}

void quic_window_at_least(struct quic_window *window, uint64_t size)
{
    if (size > window->most) {
        size = window->most;
    }
    if (size > window->size) {
        window->size = size;
    }
}

void quic_peer_streams_init(struct quic_peer_streams *streams, uint64_t most)
{
    *streams = (struct quic_peer_streams){.limit = most, .most = most};
}

int64_t quic_peer_streams_touch(struct quic_peer_streams *streams, uint64_t index)
{
    if (index >= streams->limit) {
        return -1;
    }
    if (index < streams->opened) {
        return 0;
    }
    uint64_t more = index + 1 - streams->opened;
    streams->opened = index + 1;
    return (int64_t) more;
}

bool quic_peer_streams_is_due(const struct quic_peer_streams *streams)
{
    uint64_t more = streams->closed + streams->most - streams->limit;

    return more != 0 && more >= streams->most / 4;
}

uint64_t quic_peer_streams_update(struct quic_peer_streams *streams)
{
    streams->limit = streams->closed + streams->most;
    return streams->limit;
}
