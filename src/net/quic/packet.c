/* Packets as they are on the wire. */
#include "net/quic/packet.h"

#include "base/wire.h"
#include "net/quic/quic.h"

#define LONG_FORM 0x80u
#define FIXED_BIT 0x40u
#define KEY_PHASE 0x04u

/* What each version has on the wire for the types Initial to Retry (RFC 9000, 17.2; RFC 9369, 3.2).
 */
static const uint8_t version_1_types[] = {0, 1, 2, 3};
static const uint8_t version_2_types[] = {1, 2, 3, 0};

bool quic_version_is_ours(uint32_t version)
{
    return version == QUIC_VERSION_1 || version == QUIC_VERSION_2;
}

static unsigned type_to_wire(uint32_t version, enum quic_packet_type type)
{
    return (version == QUIC_VERSION_2 ? version_2_types : version_1_types)[type];
}

static enum quic_packet_type type_from_wire(uint32_t version, unsigned bits)
{
    unsigned type = QUIC_PACKET_INITIAL;

    while (type_to_wire(version, type) != bits) {
        type++;
    }
    return type;
}

/* A Retry has no length: its token goes up to the tag at the end of the datagram. */
static bool read_retry(struct str rest, struct quic_header *out)
{
    if (rest.len <= QUIC_TAG_SIZE) {
        return false;
    }
    out->token = str_head(rest, rest.len - QUIC_TAG_SIZE);
    out->payload = str_skip(rest, rest.len - QUIC_TAG_SIZE);
    return true;
}

static bool read_length(struct str datagram, struct str rest, struct quic_header *out)
{
    uint64_t length;

    if (out->type == QUIC_PACKET_INITIAL) {
        if (!quic_varint_read(&rest, &length) || length > rest.len) {
            return false;
        }
        out->token = str_head(rest, length);
        rest = str_skip(rest, length);
    }
    if (!quic_varint_read(&rest, &length) || length > rest.len) {
        return false;
    }
    out->payload = str_head(rest, length);
    out->number_at = (size_t) (rest.data - datagram.data);
    out->size = out->number_at + length;
    return true;
}

static bool read_long(struct str datagram, struct quic_header *out)
{
    struct str rest = str_skip(datagram, 1);
    unsigned char first = (unsigned char) datagram.data[0];
    size_t version;

    if (!wire_number(&rest, 4, &version) || !wire_piece(&rest, 1, &out->dcid) ||
        !wire_piece(&rest, 1, &out->scid)) {
        return false;
    }
    out->version = (uint32_t) version;
    out->size = datagram.len;
    if (version == 0) {
        out->type = QUIC_PACKET_NEGOTIATION;
        out->payload = rest;
        return true;
    }
    if (!quic_version_is_ours(out->version)) {
        out->type = QUIC_PACKET_UNKNOWN;
        return true;
    }
    if ((first & FIXED_BIT) == 0 || out->dcid.len > QUIC_CID_MOST ||
        out->scid.len > QUIC_CID_MOST) {
        return false;
    }
    out->type = type_from_wire(out->version, first >> 4 & 3);
    return out->type == QUIC_PACKET_RETRY ? read_retry(rest, out)
                                          : read_length(datagram, rest, out);
}

bool quic_header_read(struct str datagram, unsigned cid_len, struct quic_header *out)
{
    *out = (struct quic_header){0};
    if (datagram.len == 0) {
        return false;
    }
    unsigned char first = (unsigned char) datagram.data[0];
    if (first & LONG_FORM) {
        return read_long(datagram, out);
    }
    if ((first & FIXED_BIT) == 0 || datagram.len < 1 + cid_len) {
        return false;
    }
    out->type = QUIC_PACKET_1RTT;
    out->dcid = str_head(str_skip(datagram, 1), cid_len);
    out->number_at = 1 + cid_len;
    out->payload = str_skip(datagram, out->number_at);
    out->size = datagram.len;
    return true;
}

unsigned quic_number_size(uint64_t number, uint64_t acked)
{
    uint64_t span = acked == QUIC_NUMBER_NONE ? number + 1 : number - acked;

    return span < 1u << 7 ? 1 : span < 1u << 15 ? 2 : span < 1u << 23 ? 3 : 4;
}

uint64_t quic_number_decode(uint64_t largest, uint64_t truncated, unsigned size)
{
    uint64_t expected = largest == QUIC_NUMBER_NONE ? 0 : largest + 1;
    uint64_t window = UINT64_C(1) << (8 * size), half = window / 2;
    uint64_t candidate = (expected & ~(window - 1)) | truncated;

    if (candidate + half <= expected && candidate < (UINT64_C(1) << 62) - window) {
        return candidate + window;
    }
    if (candidate > expected + half && candidate >= window) {
        return candidate - window;
    }
    return candidate;
}

static void put_cid(struct quic_out *out, struct str cid)
{
    quic_put_number(out, cid.len, 1);
    quic_put_bytes(out, cid.data, cid.len);
}

void quic_long_put(struct quic_out *out, const struct quic_long *packet, unsigned char **length_at,
                   unsigned char **number_at)
{
    unsigned type = type_to_wire(packet->version, packet->type);

    quic_put_number(out, LONG_FORM | FIXED_BIT | type << 4 | (packet->number_size - 1), 1);
    quic_put_number(out, packet->version, 4);
    put_cid(out, quic_cid_str(packet->dcid));
    put_cid(out, quic_cid_str(packet->scid));
    if (packet->type == QUIC_PACKET_INITIAL) {
        quic_put_varint(out, packet->token.len);
        quic_put_bytes(out, packet->token.data, packet->token.len);
    }
    *length_at = out->at;
    quic_put_varint_sized(out, 0, 2);
    *number_at = out->at;
    quic_put_number(out, packet->number, packet->number_size);
}

void quic_length_set(unsigned char *length_at, size_t size)
{
    length_at[0] = (unsigned char) (0x40 | size >> 8);
    length_at[1] = (unsigned char) size;
}

void quic_short_put(struct quic_out *out, const struct quic_short *packet,
                    unsigned char **number_at)
{
    quic_put_number(out,
                    FIXED_BIT | (packet->key_phase ? KEY_PHASE : 0) | (packet->number_size - 1), 1);
    quic_put_bytes(out, packet->dcid->bytes, packet->dcid->len);
    *number_at = out->at;
    quic_put_number(out, packet->number, packet->number_size);
}

void quic_negotiation_put(struct quic_out *out, struct str dcid, struct str scid, uint32_t random)
{
    quic_put_number(out, LONG_FORM | FIXED_BIT | (random & 0x3f), 1);
    quic_put_number(out, 0, 4);
    put_cid(out, dcid);
    put_cid(out, scid);
    /* A reserved version (RFC 9000, 6.3) keeps clients from taking the list for a closed one. */
    quic_put_number(out, (random & 0xf0f0f0f0) | 0x0a0a0a0a, 4);
    quic_put_number(out, QUIC_VERSION_1, 4);
    quic_put_number(out, QUIC_VERSION_2, 4);
}

void quic_retry_put(struct quic_out *out, uint32_t version, const struct quic_cid *dcid,
                    const struct quic_cid *scid, struct str token)
{
    quic_put_number(out, LONG_FORM | FIXED_BIT | type_to_wire(version, QUIC_PACKET_RETRY) << 4, 1);
    quic_put_number(out, version, 4);
    put_cid(out, quic_cid_str(dcid));
    put_cid(out, quic_cid_str(scid));
    quic_put_bytes(out, token.data, token.len);
}

uint32_t quic_version_choose(struct str versions)
{
    uint32_t best = 0;
    size_t version;

    while (wire_number(&versions, 4, &version)) {
        if (version == QUIC_VERSION_1) {
            return QUIC_VERSION_1; /* what we speak first where both are there */
        }
        if (version == QUIC_VERSION_2) {
            best = QUIC_VERSION_2;
        }
    }
    return best;
}
