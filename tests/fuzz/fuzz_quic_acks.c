/* Fuzzes loss detection by a peer that acknowledges whatever it likes, whenever: what is counted
 * stays true. */
#include <stdlib.h>
#include <string.h>

#include "net/quic/recovery.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { NUMBERS = 8192, RANGES = 8 };

static void demand(bool is_so)
{
    if (!is_so) {
        abort();
    }
}

struct input {
    const uint8_t *at, *end;
};

static uint32_t take(struct input *input, int bytes)
{
    uint32_t number = 0;

    while (bytes-- != 0) {
        number = number << 8 | (input->at < input->end ? *input->at++ : 0);
    }
    return number;
}

static struct {
    bool was_sent[NUMBERS]; /* and asks for an acknowledgement, or not */
    bool was_acked[NUMBERS];
} model;

static void acked(void *owner, enum quic_space space, const struct quic_carried *frame)
{
    demand(space == QUIC_SPACE_APPLICATION && model.was_sent[frame->id] &&
           !model.was_acked[frame->id]);
    model.was_acked[frame->id] = true;
}

static void lost(void *owner, enum quic_space space, const struct quic_carried *frame)
{
    demand(model.was_sent[frame->id] && !model.was_acked[frame->id]);
}

static const struct quic_recovery_owner owner = {acked, lost};

static void send_some(struct quic_recovery *r, struct input *input, uint64_t now_us)
{
    for (uint32_t n = take(input, 1) % 32; n != 0; n--) {
        if (r->spaces[QUIC_SPACE_APPLICATION].next_number + 2 >= NUMBERS) {
            return;
        }
        uint64_t number = quic_recovery_number(r, QUIC_SPACE_APPLICATION);
        model.was_sent[number] = true;
        if (quic_recovery_allowance(r, now_us) == 0 &&
            quic_recovery_probes(r, QUIC_SPACE_APPLICATION) == 0) {
            continue; /* as if it had only an ACK */
        }
        struct quic_sent *sent = quic_sent_new(r);
        sent->number = number;
        sent->size = (uint16_t) (1 + take(input, 1) * 4);
        sent->is_ect = quic_recovery_marks(r);
        quic_sent_carry(r, sent, &(struct quic_carried){.kind = QUIC_CARRIED_OTHER, .id = number});
        quic_recovery_sent(r, QUIC_SPACE_APPLICATION, sent, now_us);
    }
}

static void ack_some(struct quic_recovery *r, struct input *input, uint64_t now_us)
{
    struct quic_range ranges[RANGES];
    uint32_t flags = take(input, 1);
    struct quic_ack ack = {.ranges = ranges, .delay_us = take(input, 2) * 16, .has_ecn = flags & 1};
    uint64_t end = r->spaces[QUIC_SPACE_APPLICATION].next_number;
    bool is_forged = false;

    end += flags % 64 == 63 ? 1 : 0; /* beyond what was sent */
    ack.ect0 = take(input, 1);
    ack.ce = take(input, 1) / 64;
    for (uint32_t n = 1 + flags / 2 % RANGES; n != 0 && end > 1; n--) {
        uint64_t skip = take(input, 1) % 16, len = 1 + take(input, 1) % 64;
        if (skip >= end) {
            break;
        }
        end -= skip;
        ranges[ack.count].end = end;
        ranges[ack.count].start = len < end ? end - len : 0;
        for (uint64_t i = ranges[ack.count].start; i < end; i++) {
            is_forged = is_forged || !model.was_sent[i];
        }
        if (ranges[ack.count].start < 2) {
            ack.count++;
            break;
        }
        end = ranges[ack.count++].start - 1;
    }
    if (ack.count != 0) {
        enum quic_ack_result result = quic_recovery_ack(r, QUIC_SPACE_APPLICATION, &ack, now_us);
        demand(result != QUIC_ACK_FORGED || is_forged);
        demand(!is_forged || result == QUIC_ACK_FORGED || r->skips.count > QUIC_SKIPPED_KEPT);
    }
}

static void check(struct quic_recovery *r, uint64_t now_us)
{
    uint64_t in_flight = 0;
    uint32_t outstanding = 0;
    uint64_t last = 0;

    list_each(link, &r->spaces[QUIC_SPACE_APPLICATION].sent) {
        const struct quic_sent *sent = container_of(link, struct quic_sent, link);
        demand(outstanding == 0 || sent->number > last);
        last = sent->number;
        in_flight += sent->path == r->path ? sent->size : 0;
        outstanding++;
    }
    demand(r->outstanding == outstanding && r->congestion.in_flight == in_flight);
    demand(r->congestion.window >= quic_congestion_least(&r->congestion));
    demand(outstanding == 0 || quic_recovery_deadline(r) != QUIC_NEVER);
    demand(quic_recovery_allowance(r, now_us) == 0 || quic_recovery_allowance(r, now_us) >= 1200);
    demand(r->spaces[QUIC_SPACE_APPLICATION].lost_count <= 512);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, data + size};
    struct quic_sent_pool pool;
    struct quic_recovery r;
    uint64_t now_us = 1000000;

    memset(&model, 0, sizeof(model));
    quic_sent_pool_init(&pool);
    uint32_t kind = take(&input, 1);
    quic_recovery_init(&r,
                       &(struct quic_recovery_setup){
                           .pool = &pool,
                           .events = &owner,
                           .control = kind % 2 == 0 ? &quic_cubic : &quic_bbr,
                           .random = kind,
                           .datagram_size = 1200,
                           .is_server = true,
                           .has_ecn = kind % 3 == 0,
                       },
                       now_us);
    r.is_handshake_confirmed = r.is_peer_validated = true;
    while (input.at < input.end) {
        uint32_t what = take(&input, 1);
        switch (what % 8) {
        case 0:
            now_us += take(&input, 3);
            break;
        case 1:
            now_us = quic_recovery_deadline(&r) != QUIC_NEVER && quic_recovery_deadline(&r) > now_us
                         ? quic_recovery_deadline(&r)
                         : now_us;
            quic_recovery_expired(&r, now_us);
            break;
        case 2:
            quic_recovery_app_limited(&r);
            break;
        case 3:
            if (what == 3) {
                quic_recovery_new_path(&r, now_us);
            }
            break;
        case 4:
        case 5:
            send_some(&r, &input, now_us);
            break;
        default:
            ack_some(&r, &input, now_us);
        }
        now_us += 100;
        check(&r, now_us);
    }
    quic_recovery_free(&r);
    quic_sent_pool_free(&pool);
    return 0;
}
