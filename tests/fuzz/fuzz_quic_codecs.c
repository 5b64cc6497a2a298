/* Fuzzes what QUIC reads of datagrams: headers, frames, transport parameters, tokens. What was read
 * and is written is read the same. */
#include <stdlib.h>
#include <string.h>

#include "net/quic/frame.h"
#include "net/quic/packet.h"
#include "net/quic/parameters.h"
#include "net/quic/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool is_so)
{
    if (!is_so) {
        abort();
    }
}

static void demand_inside(struct str part, struct str whole)
{
    demand(part.len == 0 ||
           (part.data >= whole.data && part.data + part.len <= whole.data + whole.len));
}

static void look_at_header(struct str datagram)
{
    struct quic_header header;

    while (quic_header_read(datagram, 8, &header)) {
        demand_inside(header.dcid, datagram);
        demand_inside(header.scid, datagram);
        demand_inside(header.token, datagram);
        demand_inside(header.payload, datagram);
        demand(header.size != 0 && header.size <= datagram.len);
        datagram = str_skip(datagram, header.size);
    }
}

static void look_at_ack(const struct quic_frame *frame)
{
    struct quic_ack_walk walk = {0};
    struct quic_range range;
    uint64_t below = UINT64_MAX, count = 0;

    while (quic_ack_next(frame, &walk, &range)) {
        demand(range.start < range.end && range.end <= below);
        below = range.start;
        count++;
    }
    demand(count == frame->ack.count + 1);
}

static void look_at_frames(struct str payload)
{
    static unsigned char written[70000];
    struct quic_frame frame;

    while (payload.len != 0 && quic_frame_read(&payload, &frame)) {
        if (frame.type == QUIC_FRAME_ACK || frame.type == QUIC_FRAME_ACK_ECN) {
            look_at_ack(&frame);
            continue;
        }
        struct quic_out out = {written, written + sizeof(written), false};
        struct quic_frame again;
        quic_frame_put(&out, &frame);
        struct str from = {(const char *) written, (size_t) (out.at - written)};
        demand(out.is_short ||
               (quic_frame_read(&from, &again) && again.type == frame.type && from.len == 0));
    }
}

static void look_at_token(struct str bytes)
{
    static const struct quic_secrets secrets = {.cid_size = 12, .cid = {1, 2, 3, 4}};
    struct quic_token token;
    struct addr peer;

    demand(addr_parse_ip(STR("127.0.0.1"), &peer));
    demand(!quic_token_read(&secrets, bytes, &peer, 0, &token)); /* nobody knows the key */
    if (bytes.len >= secrets.cid_size) {
        quic_cid_decode(&secrets, bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size == 0 ? 1 : size); /* so that a byte read too far is seen */
    struct quic_parameters parameters;

    demand(copy != NULL);
    if (size != 0) {
        memcpy(copy, data, size);
    }
    struct str whole = {copy, size};
    look_at_header(whole);
    look_at_frames(whole);
    look_at_token(whole);
    quic_parameters_read(whole, false, &parameters);
    quic_parameters_read(whole, true, &parameters);
    free(copy);
    return 0;
}
