/*
 * Two ends of QUIC's state machines over a path, in virtual time: recovery, congestion control,
 * streams and flow control are ours; packets are structs. The same seed gives the same run.
 */
#ifndef TESTS_NET_QUIC_SIMULATOR_H
#define TESTS_NET_QUIC_SIMULATOR_H

#include "base/unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "net/quic/acknowledge.h"
#include "net/quic/receive.h"
#include "net/quic/recovery.h"
#include "net/quic/schedule.h"
#include "net/quic/send.h"

enum {
    SIM_STREAMS = 4,       /* of each end */
    SIM_FLOWS = 4,         /* connections over the same path */
    SIM_PATTERN = 1 << 16, /* bytes after which the contents of a stream repeat */
    SIM_FRAMES = 12,
    SIM_RANGES = 32,
    SIM_DATAGRAM = 1200,
    SIM_OVERHEAD = 60, /* of a packet, and of the heads of its frames */
};

#define SIM_START_US 1000000u

/* One direction. */
struct sim_path {
    uint64_t rate;        /* bytes a second */
    uint64_t delay_us;    /* one way */
    uint64_t queue_bytes; /* of the bottleneck */
    uint32_t loss;        /* of a million packets */
    uint32_t reorder;     /* of a million packets, late by up to reorder_us */
    uint64_t reorder_us;
    uint32_t duplicate;  /* of a million packets */
    uint64_t drop_from;  /* packets sent from this one on … */
    uint64_t drop_count; /* … so many are dropped */
    uint64_t ecn_bytes;  /* marked above so many bytes in the queue; 0: never */
    uint64_t free_us;    /* when the bottleneck is free */
    uint64_t sent;       /* packets */
    uint64_t dropped;
    uint64_t marked;
};

struct sim_frame {
    struct quic_carried carried;
    uint32_t at; /* of its bytes in the packet */
};

struct sim_packet {
    struct heap_node node; /* by the time of its arrival */
    int to;
    uint64_t number;
    uint32_t size;
    bool is_eliciting;
    bool is_ect;
    bool is_ce;
    uint32_t frames;
    struct sim_frame frame[SIM_FRAMES];
    uint32_t ack_count; /* ranges; 0: no ACK frame */
    struct quic_range ack[SIM_RANGES];
    uint64_t ack_delay_us;
    uint64_t ack_ect0, ack_ce;
    uint32_t used;
    char bytes[SIM_DATAGRAM];
};

struct sim;

struct sim_stream {
    struct quic_send send;
    struct quic_receive receive;
    struct quic_turn turn;
    bool wants_window; /* MAX_STREAM_DATA is to be sent */
};

struct sim_end {
    struct sim *sim;
    int index;             /* in the simulation */
    int side;              /* 0 or 1 */
    struct sim_path *path; /* to the other end */
    struct quic_recovery recovery;
    struct sim_acknowledge acknowledge;
    struct quic_schedule schedule;
    struct quic_credit credit;
    struct quic_window window;
    struct sim_stream streams[SIM_STREAMS];
    bool wants_window;
    uint64_t done_us; /* all was received; 0: not yet */
};

struct sim_setup {
    struct sim_path path[2];
    const struct quic_congestion_control *control;
    const struct quic_congestion_control *others; /* of the second connection on; NULL: the same */
    uint32_t flows;                               /* connections; 0 is 1 */
    uint64_t bytes[2];                            /* that each end sends, over its streams */
    uint32_t streams;                             /* of each end, 1 to SIM_STREAMS */
    uint64_t stream_window;                       /* the first; grows 64-fold */
    uint64_t window;                              /* … of the connection */
    uint32_t seed;
    uint64_t until_us; /* of virtual time */
};

struct sim {
    struct sim_setup setup;
    struct sim_end ends[2 * SIM_FLOWS]; /* 2n and 2n + 1 are a connection */
    int count;                          /* of ends */
    struct quic_sent_pool pool;
    struct heap flying;
    uint64_t now_us;
    uint32_t random;
    uint64_t longest_burst; /* bytes that left at one instant */
    char *pattern;
};

static uint32_t sim_random(struct sim *sim, uint32_t below)
{
    sim->random = sim->random * 1664525 + 1013904223;
    return (uint32_t) (((uint64_t) (sim->random >> 4) * below) >> 28);
}

/* ---- the path ---- */

static void sim_fly(struct sim *sim, const struct sim_packet *packet, uint64_t at_us)
{
    struct sim_packet *copy = malloc(sizeof(*copy));

    *copy = *packet;
    copy->node = (struct heap_node){.key = at_us, .index = HEAP_OUT};
    heap_insert(&sim->flying, &copy->node);
}

static void sim_put(struct sim *sim, struct sim_path *path, struct sim_packet *packet)
{
    uint64_t number = path->sent++;
    uint64_t begin_us = path->free_us > sim->now_us ? path->free_us : sim->now_us;
    uint64_t queued = (begin_us - sim->now_us) * path->rate / 1000000;

    if (queued + packet->size > path->queue_bytes ||
        (number >= path->drop_from && number - path->drop_from < path->drop_count) ||
        sim_random(sim, 1000000) < path->loss) {
        path->dropped++;
        return;
    }
    if (path->ecn_bytes != 0 && packet->is_ect && queued > path->ecn_bytes) {
        packet->is_ce = true;
        path->marked++;
    }
    path->free_us = begin_us + packet->size * 1000000ull / path->rate;
    uint64_t at_us = path->free_us + path->delay_us;
    if (sim_random(sim, 1000000) < path->reorder) {
        at_us += sim_random(sim, (uint32_t) path->reorder_us);
    }
    sim_fly(sim, packet, at_us);
    if (sim_random(sim, 1000000) < path->duplicate) {
        sim_fly(sim, packet, at_us + sim_random(sim, 20000));
    }
}

/* ---- what became of frames ---- */

static struct quic_send_chunk chunk_of(const struct quic_carried *frame)
{
    return (struct quic_send_chunk){.offset = frame->offset,
                                    .len = frame->len,
                                    .is_fin = frame->is_fin};
}

static void end_acked(void *owner, enum quic_space space, const struct quic_carried *frame)
{
    struct sim_end *end = owner;
    struct quic_send_chunk chunk = chunk_of(frame);

    if (frame->kind == QUIC_CARRIED_STREAM) {
        quic_send_acked(&end->streams[frame->id].send, &chunk);
    } else if (frame->kind == QUIC_CARRIED_ACK) {
        quic_received_reported(&end->acknowledge.received, frame->id);
    }
}

static void end_lost(void *owner, enum quic_space space, const struct quic_carried *frame)
{
    struct sim_end *end = owner;
    struct sim_stream *stream = &end->streams[frame->id % SIM_STREAMS];
    struct quic_send_chunk chunk = chunk_of(frame);

    if (frame->kind == QUIC_CARRIED_STREAM) {
        quic_send_lost(&stream->send, &chunk);
        quic_schedule_add(&end->schedule, &stream->turn);
    } else if (frame->kind == QUIC_CARRIED_MAX_DATA) {
        end->wants_window = true;
    } else if (frame->kind == QUIC_CARRIED_MAX_STREAM_DATA) {
        stream->wants_window = true;
    }
}

static const struct quic_recovery_owner sim_owner = {.acked = end_acked, .lost = end_lost};

/* ---- sending ---- */

static void packet_add(struct sim_packet *packet, const struct quic_carried *carried)
{
    packet->frame[packet->frames++] = (struct sim_frame){.carried = *carried, .at = packet->used};
    packet->is_eliciting = true;
}

static void end_write_ack(struct sim_end *end, struct sim_packet *packet)
{
    const struct quic_ranges *ranges = &end->acknowledge.received.ranges;

    for (uint32_t i = ranges->count; i != 0 && packet->ack_count < SIM_RANGES; i--) {
        packet->ack[packet->ack_count++] = quic_ranges_at(ranges, i - 1);
    }
    packet->ack_delay_us = end->sim->now_us - end->acknowledge.largest_us;
    packet->ack_ect0 = end->acknowledge.ect0;
    packet->ack_ce = end->acknowledge.ce;
    sim_acknowledge_sent(&end->acknowledge);
}

static void end_write_windows(struct sim_end *end, struct sim_packet *packet)
{
    uint64_t rtt_us = end->recovery.rtt.smoothed_us;

    if (end->wants_window || quic_window_is_due(&end->window)) {
        uint64_t limit = quic_window_update(&end->window, end->sim->now_us, rtt_us);
        packet_add(packet, &(struct quic_carried){.kind = QUIC_CARRIED_MAX_DATA, .offset = limit});
        end->wants_window = false;
    }
    for (uint32_t i = 0; i < end->sim->setup.streams; i++) {
        struct sim_stream *stream = &end->streams[i];
        if ((stream->wants_window && stream->receive.state == QUIC_RECEIVE_OPEN) ||
            quic_receive_is_window_due(&stream->receive)) {
            uint64_t limit = quic_window_update(&stream->receive.window, end->sim->now_us, rtt_us);
            packet_add(packet, &(struct quic_carried){.kind = QUIC_CARRIED_MAX_STREAM_DATA,
                                                      .id = i,
                                                      .offset = limit});
        }
        stream->wants_window = false;
    }
}

static void end_write_streams(struct sim_end *end, struct sim_packet *packet)
{
    struct quic_turn *turn;

    while ((turn = quic_schedule_first(&end->schedule)) != NULL && packet->frames < SIM_FRAMES) {
        struct sim_stream *stream = container_of(turn, struct sim_stream, turn);
        struct quic_send_chunk chunk;
        uint32_t room = SIM_DATAGRAM - SIM_OVERHEAD - packet->used;

        if (room < 20) {
            break;
        }
        if (!quic_send_next(&stream->send, &end->credit, room, &chunk)) {
            quic_schedule_remove(&end->schedule, turn);
            continue;
        }
        assert_true(
            quic_send_read(&stream->send, chunk.offset, packet->bytes + packet->used, chunk.len));
        packet_add(packet, &(struct quic_carried){.kind = QUIC_CARRIED_STREAM,
                                                  .is_fin = chunk.is_fin,
                                                  .len = chunk.len,
                                                  .id = turn->id,
                                                  .offset = chunk.offset});
        packet->used += chunk.len;
        quic_send_commit(&stream->send, &end->credit, &chunk);
        quic_schedule_sent(&end->schedule, turn, chunk.len);
    }
}

/* Sends a packet, with frames if it may and has some. False: there was nothing. */
static bool end_send_packet(struct sim_end *end, bool may_send, bool is_probe)
{
    struct sim *sim = end->sim;
    static struct sim_packet packet;

    memset(&packet, 0, offsetof(struct sim_packet, bytes));
    packet.to = end->index ^ 1;
    if (may_send) {
        end_write_windows(end, &packet);
        end_write_streams(end, &packet);
        if (is_probe && packet.frames == 0) {
            packet_add(&packet, &(struct quic_carried){.kind = QUIC_CARRIED_PING});
        }
    }
    if (end->acknowledge.due_us <= sim->now_us ||
        (packet.is_eliciting && end->acknowledge.waiting != 0)) {
        end_write_ack(end, &packet);
    }
    if (!packet.is_eliciting && packet.ack_count == 0) {
        return false;
    }
    packet.number = quic_recovery_number(&end->recovery, QUIC_SPACE_APPLICATION);
    packet.size = packet.used + SIM_OVERHEAD;
    if (packet.is_eliciting) {
        struct quic_sent *sent = quic_sent_new(&end->recovery);
        sent->number = packet.number;
        sent->size = (uint16_t) packet.size;
        sent->is_ect = packet.is_ect = quic_recovery_marks(&end->recovery);
        for (uint32_t i = 0; i < packet.frames; i++) {
            quic_sent_carry(&end->recovery, sent, &packet.frame[i].carried);
        }
        if (packet.ack_count != 0) {
            quic_sent_carry(&end->recovery, sent,
                            &(struct quic_carried){.kind = QUIC_CARRIED_ACK,
                                                   .id = packet.ack[0].end - 1});
        }
        quic_recovery_sent(&end->recovery, QUIC_SPACE_APPLICATION, sent, sim->now_us);
    }
    sim_put(sim, end->path, &packet);
    return true;
}

static void end_send(struct sim_end *end)
{
    uint64_t burst = 0;

    for (;;) {
        bool is_probe = quic_recovery_probes(&end->recovery, QUIC_SPACE_APPLICATION) != 0;
        bool has_allowance = quic_recovery_allowance(&end->recovery, end->sim->now_us) != 0;

        if (!end_send_packet(end, is_probe || has_allowance, is_probe)) {
            if (has_allowance) {
                quic_recovery_app_limited(&end->recovery);
            }
            break;
        }
        burst += SIM_DATAGRAM;
    }
    end->sim->longest_burst = burst > end->sim->longest_burst ? burst : end->sim->longest_burst;
}

/* ---- receiving ---- */

static void end_take_input(struct sim_end *end, struct sim_stream *stream, struct quic_arrival *now)
{
    struct str input = now->bytes;

    while (input.len != 0 || (input = quic_receive_input(&stream->receive)).len != 0) {
        uint64_t at = stream->receive.window.consumed % SIM_PATTERN;
        size_t n = SIM_PATTERN - at < input.len ? SIM_PATTERN - at : input.len;
        assert_memory_equal(input.data, end->sim->pattern + at, n);
        quic_receive_consume(&stream->receive, &end->window, n);
        input = str_skip(input, n);
    }
    quic_receive_keep(&stream->receive, now);
}

static bool end_take_frame(struct sim_end *end, const struct sim_packet *packet,
                           const struct sim_frame *frame)
{
    const struct quic_carried *carried = &frame->carried;
    struct sim_stream *stream = &end->streams[carried->id % SIM_STREAMS];

    if (carried->kind == QUIC_CARRIED_STREAM) {
        struct quic_arrival now, arrival = {
                                     .offset = carried->offset,
                                     .bytes = {packet->bytes + frame->at, carried->len},
                                     .is_fin = carried->is_fin,
                                 };
        enum quic_received_result result =
            quic_receive_take(&stream->receive, &end->window, &arrival, &now);
        if (result == QUIC_RECEIVED_SCATTERED) {
            return false;
        }
        assert_int_equal(result, QUIC_RECEIVED);
        end_take_input(end, stream, &now);
    } else if (carried->kind == QUIC_CARRIED_MAX_DATA) {
        quic_credit_raise(&end->credit, carried->offset);
        for (uint32_t i = 0; i < end->sim->setup.streams; i++) {
            quic_schedule_add(&end->schedule, &end->streams[i].turn);
        }
    } else if (carried->kind == QUIC_CARRIED_MAX_STREAM_DATA) {
        quic_credit_raise(&stream->send.credit, carried->offset);
        quic_schedule_add(&end->schedule, &stream->turn);
    }
    return true;
}

static bool end_is_done(const struct sim_end *end)
{
    for (uint32_t i = 0; i < end->sim->setup.streams; i++) {
        if (!quic_receive_is_read(&end->streams[i].receive)) {
            return false;
        }
    }
    return true;
}

static void end_receive(struct sim_end *end, const struct sim_packet *packet)
{
    uint64_t now_us = end->sim->now_us;

    if (quic_received_has(&end->acknowledge.received, packet->number)) {
        return;
    }
    if (packet->ack_count != 0) {
        struct quic_ack ack = {.ranges = packet->ack,
                               .count = packet->ack_count,
                               .delay_us = packet->ack_delay_us,
                               .has_ecn = packet->ack_ect0 + packet->ack_ce != 0,
                               .ect0 = packet->ack_ect0,
                               .ce = packet->ack_ce};
        assert_int_not_equal(quic_recovery_ack(&end->recovery, QUIC_SPACE_APPLICATION, &ack,
                                               now_us),
                             QUIC_ACK_FORGED);
    }
    for (uint32_t i = 0; i < packet->frames; i++) {
        if (!end_take_frame(end, packet, &packet->frame[i])) {
            return; /* it comes again */
        }
    }
    enum sim_mark mark = packet->is_ce ? SIM_CE : packet->is_ect ? SIM_ECT0 : SIM_NOT_ECT;
    sim_acknowledge_packet(&end->acknowledge, packet->number, packet->is_eliciting, mark, now_us);
    if (end->done_us == 0 && end_is_done(end)) {
        end->done_us = now_us;
    }
}

/* ---- runs ---- */

static void end_init(struct sim *sim, int index)
{
    int side = index % 2;
    struct sim_end *end = &sim->ends[index];
    const struct sim_setup *setup = &sim->setup;
    struct quic_recovery_setup recovery = {
        .pool = &sim->pool,
        .events = &sim_owner,
        .owner = end,
        .control = index >= 2 && setup->others != NULL ? setup->others : setup->control,
        .random = setup->seed * 8 + (uint32_t) index + 1,
        .datagram_size = SIM_DATAGRAM,
        .is_server = true,
        .has_ecn = setup->path[side].ecn_bytes != 0,
    };

    *end =
        (struct sim_end){.sim = sim, .index = index, .side = side, .path = &sim->setup.path[side]};
    quic_recovery_init(&end->recovery, &recovery, sim->now_us);
    end->recovery.is_handshake_confirmed = end->recovery.is_peer_validated = true;
    sim_acknowledge_init(&end->acknowledge, SIM_RANGES, 25000);
    quic_schedule_init(&end->schedule);
    quic_credit_init(&end->credit, setup->window);
    quic_window_init(&end->window, setup->window, 64 * setup->window);
    for (uint32_t i = 0; i < setup->streams; i++) {
        struct sim_stream *stream = &end->streams[i];
        uint64_t left = setup->bytes[side] / setup->streams;
        quic_send_init(&stream->send, setup->stream_window);
        quic_receive_init(&stream->receive, setup->stream_window, 64 * setup->stream_window);
        quic_turn_init(&stream->turn, i);
        quic_schedule_prioritize(&end->schedule, &stream->turn, 3, i % 2 == 1);
        for (; left != 0; left -= left < SIM_PATTERN ? left : SIM_PATTERN) {
            size_t n = left < SIM_PATTERN ? (size_t) left : SIM_PATTERN;
            quic_send_refer(&stream->send, (struct str){sim->pattern, n}, NULL, NULL);
        }
        quic_send_finish(&stream->send);
        quic_schedule_add(&end->schedule, &stream->turn);
    }
}

static void sim_start(struct sim *sim, const struct sim_setup *setup)
{
    *sim = (struct sim){.setup = *setup, .now_us = SIM_START_US, .random = setup->seed};
    sim->pattern = malloc(SIM_PATTERN);
    for (uint32_t i = 0; i < SIM_PATTERN; i++) {
        sim->pattern[i] = (char) (i * 31 + (i >> 8));
    }
    quic_sent_pool_init(&sim->pool);
    sim->count = setup->flows == 0 ? 2 : 2 * (int) setup->flows;
    for (int i = 0; i < sim->count; i++) {
        end_init(sim, i);
    }
}

static uint64_t end_next_us(struct sim_end *end)
{
    uint64_t next_us = quic_recovery_deadline(&end->recovery);

    next_us = end->acknowledge.due_us < next_us ? end->acknowledge.due_us : next_us;
    if (quic_schedule_first(&end->schedule) != NULL) {
        uint64_t paced_us = quic_recovery_paced_until(&end->recovery, end->sim->now_us);
        next_us = paced_us < next_us ? paced_us : next_us;
    }
    return next_us;
}

static bool sim_is_done(const struct sim *sim)
{
    for (int i = 0; i < sim->count; i++) {
        if (sim->ends[i].done_us == 0 || sim->ends[i].recovery.outstanding != 0) {
            return false;
        }
    }
    return true;
}

/* Until all ends have received all, and know that the other has. False: it takes longer than it
 * may, or nothing happens. */
static bool sim_run(struct sim *sim)
{
    for (;;) {
        for (int i = 0; i < sim->count; i++) {
            end_send(&sim->ends[i]);
        }
        if (sim_is_done(sim)) {
            return true;
        }
        uint64_t next_us = sim->flying.count == 0 ? QUIC_NEVER : sim->flying.entries[0].node->key;
        for (int i = 0; i < sim->count; i++) {
            uint64_t end_us = end_next_us(&sim->ends[i]);
            next_us = end_us < next_us ? end_us : next_us;
        }
        if (next_us == QUIC_NEVER || next_us > SIM_START_US + sim->setup.until_us) {
            return false;
        }
        sim->now_us = next_us > sim->now_us ? next_us : sim->now_us;
        while (sim->flying.count != 0 && sim->flying.entries[0].node->key <= sim->now_us) {
            struct sim_packet *packet =
                container_of(sim->flying.entries[0].node, struct sim_packet, node);
            heap_remove(&sim->flying, &packet->node);
            end_receive(&sim->ends[packet->to], packet);
            free(packet);
        }
        for (int i = 0; i < sim->count; i++) {
            if (quic_recovery_deadline(&sim->ends[i].recovery) <= sim->now_us) {
                quic_recovery_expired(&sim->ends[i].recovery, sim->now_us);
            }
        }
    }
}

static void sim_end(struct sim *sim)
{
    for (int side = 0; side < sim->count; side++) {
        struct sim_end *end = &sim->ends[side];
        quic_recovery_free(&end->recovery);
        quic_received_free(&end->acknowledge.received);
        for (uint32_t i = 0; i < sim->setup.streams; i++) {
            quic_send_free(&end->streams[i].send);
            quic_receive_free(&end->streams[i].receive);
        }
    }
    while (sim->flying.count != 0) {
        struct sim_packet *packet =
            container_of(sim->flying.entries[0].node, struct sim_packet, node);
        heap_remove(&sim->flying, &packet->node);
        free(packet);
    }
    heap_free(&sim->flying);
    quic_sent_pool_free(&sim->pool);
    free(sim->pattern);
}

#endif
