/* Varints, headers, packet numbers, frames and transport parameters: as RFC 9000 has them, and what
 * is refused. */
#include <stdio.h>

#include "net/quic/bytes.h"
#include "net/quic/frame.h"
#include "net/quic/packet.h"
#include "net/quic/parameters.h"
#include "net/quic/quic.h"

static struct quic_out out_of(struct bytes *bytes)
{
    return (struct quic_out){bytes->at, bytes->at + sizeof(bytes->at), false};
}

static struct str written(const struct bytes *bytes, const struct quic_out *out)
{
    return (struct str){(const char *) bytes->at, (size_t) (out->at - bytes->at)};
}

/* RFC 9000, A.1 */
static void varints(void **state)
{
    static const struct {
        const char *hex;
        uint64_t value;
    } rows[] = {{"c2197c5eff14e88c", 151288809941952652},
                {"9d7f3e7d", 494878333},
                {"7bbd", 15293},
                {"25", 37},
                {"ffffffffffffffff", QUIC_VARINT_MOST}};

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct bytes bytes = from_hex(rows[i].hex), copy;
        struct str from = as_str(&bytes), cut = str_head(from, from.len - 1);
        struct quic_out out = out_of(&copy);
        uint64_t value = 0;

        assert_true(quic_varint_read(&from, &value));
        assert_true(value == rows[i].value);
        assert_int_equal(from.len, 0);
        assert_false(quic_varint_read(&cut, &value));
        quic_put_varint(&out, value);
        assert_str(written(&copy, &out), as_str(&bytes));
    }
    struct bytes longer = from_hex("4025");
    struct str from = as_str(&longer);
    uint64_t value;
    assert_true(quic_varint_read(&from, &value));
    assert_int_equal(value, 37);
}

/* RFC 9000, A.2 and A.3 */
static void numbers(void **state)
{
    assert_int_equal(quic_number_size(0xac5c02, 0xabe8b3), 2);
    assert_int_equal(quic_number_size(0xace8fe, 0xabe8b3), 3);
    assert_int_equal(quic_number_size(0, QUIC_NUMBER_NONE), 1);
    assert_true(quic_number_decode(0xa82f30ea, 0x9b32, 2) == 0xa82f9b32);
    assert_true(quic_number_decode(QUIC_NUMBER_NONE, 0, 1) == 0);
    for (uint64_t number = 0; number < 100000; number += 77) {
        for (uint64_t acked = number > 300 ? number - 300 : 0; acked < number; acked++) {
            unsigned size = quic_number_size(number, acked);
            uint64_t truncated = number & ((UINT64_C(1) << 8 * size) - 1);
            assert_true(quic_number_decode(acked, truncated, size) == number);
            assert_true(quic_number_decode(number + 40, truncated, size) == number);
        }
    }
}

static void headers(void **state)
{
    const struct quic_cid ours = quic_cid_of(STR("oursours")), theirs = quic_cid_of(STR("them"));
    static const uint32_t versions[] = {QUIC_VERSION_1, QUIC_VERSION_2};
    struct bytes bytes;
    struct quic_header header;
    unsigned char *length_at, *number_at;

    for (size_t v = 0; v < 2; v++) {
        for (enum quic_packet_type type = QUIC_PACKET_INITIAL; type <= QUIC_PACKET_HANDSHAKE;
             type++) {
            struct quic_long head = {type, versions[v], &theirs, &ours, STR("token"), 0x1234, 2};
            struct quic_out out = out_of(&bytes);

            quic_long_put(&out, &head, &length_at, &number_at);
            quic_length_set(length_at, 2 + 100);
            memset(out.at, 'x', 100 + 30);
            out.at += 100 + 30;
            struct str whole = written(&bytes, &out);
            assert_true(quic_header_read(whole, 8, &header));
            assert_int_equal(header.type, type);
            assert_int_equal(header.version, versions[v]);
            assert_text(header.dcid, "them");
            assert_text(header.scid, "oursours");
            assert_int_equal(header.token.len, type == QUIC_PACKET_INITIAL ? 5 : 0);
            assert_int_equal(header.number_at, number_at - bytes.at);
            assert_int_equal(header.size, whole.len - 30);
            for (size_t len = 0; len < header.size; len++) {
                struct quic_header ignored;
                assert_false(quic_header_read(str_head(whole, len), 8, &ignored));
            }
        }
    }
    struct quic_out out = out_of(&bytes);
    quic_short_put(&out, &(struct quic_short){&ours, 7, 1, true}, &number_at);
    assert_true(quic_header_read(written(&bytes, &out), 8, &header));
    assert_int_equal(header.type, QUIC_PACKET_1RTT);
    assert_text(header.dcid, "oursours");
    assert_false(quic_header_read(written(&bytes, &out), 11, &header));
    bytes.at[0] &= (unsigned char) ~0x40;
    assert_false(quic_header_read(written(&bytes, &out), 8, &header));
}

static void other_versions(void **state)
{
    struct bytes bytes = from_hex("c00a0a0a0a15"
                                  "000102030405060708090a0b0c0d0e0f1011121314"
                                  "0161"
                                  "ffff"),
                 answer;
    struct quic_header header;
    struct quic_out out = out_of(&answer);

    assert_true(quic_header_read(as_str(&bytes), 8, &header));
    assert_int_equal(header.type, QUIC_PACKET_UNKNOWN);
    assert_int_equal(header.dcid.len, 21);
    quic_negotiation_put(&out, header.scid, header.dcid, 0x12345678);
    assert_true(quic_header_read(written(&answer, &out), 8, &header));
    assert_int_equal(header.type, QUIC_PACKET_NEGOTIATION);
    assert_text(header.dcid, "a");
    assert_int_equal(quic_version_choose(header.payload), QUIC_VERSION_1);
    assert_int_equal(quic_version_choose(STR("\x0a\x0a\x0a\x0a\x6b\x33\x43\xcf")), QUIC_VERSION_2);
    assert_int_equal(quic_version_choose(STR("\x0a\x0a\x0a\x0a\0\0\0")), 0);
}

/* Every frame comes back as it was written, and every shorter form is refused or is another frame.
 */
static void frames(void **state)
{
    const struct quic_frame rows[] = {
        {.type = QUIC_FRAME_PING},
        {.type = QUIC_FRAME_HANDSHAKE_DONE},
        {.type = QUIC_FRAME_RESET_STREAM, .reset = {4, 0x101, 70000}},
        {.type = QUIC_FRAME_STOP_SENDING, .reset = {4, 0x101, 0}},
        {.type = QUIC_FRAME_CRYPTO, .stream = {.offset = 16384, .data = STR("hello")}},
        {.type = QUIC_FRAME_NEW_TOKEN, .token = STR("token")},
        {.type = QUIC_FRAME_STREAM, .stream = {.id = 8, .data = STR("data"), .has_length = true}},
        {.type = QUIC_FRAME_STREAM,
         .stream =
             {.id = 8, .offset = 9, .data = STR("data"), .is_last = true, .has_length = true}},
        {.type = QUIC_FRAME_MAX_DATA, .limit = {0, 1 << 20}},
        {.type = QUIC_FRAME_MAX_STREAM_DATA, .limit = {12, 1 << 20}},
        {.type = QUIC_FRAME_MAX_STREAMS_UNI, .limit = {0, 3}},
        {.type = QUIC_FRAME_STREAM_DATA_BLOCKED, .limit = {12, 5}},
        {.type = QUIC_FRAME_STREAMS_BLOCKED_BIDI, .limit = {0, 100}},
        {.type = QUIC_FRAME_RETIRE_CONNECTION_ID, .limit = {0, 2}},
        {.type = QUIC_FRAME_NEW_CONNECTION_ID,
         .new_id = {5, 3, STR("identity"), STR("0123456789abcdef")}},
        {.type = QUIC_FRAME_PATH_CHALLENGE, .data = STR("12345678")},
        {.type = QUIC_FRAME_PATH_RESPONSE, .data = STR("12345678")},
        {.type = QUIC_FRAME_CONNECTION_CLOSE, .close = {7, QUIC_FRAME_ACK, STR("reason")}},
        {.type = QUIC_FRAME_APPLICATION_CLOSE, .close = {0x100, 0, STR("reason")}},
        {.type = QUIC_FRAME_DATAGRAM, .data = STR("datagram")},
        {.type = QUIC_FRAME_IMMEDIATE_ACK},
        {.type = QUIC_FRAME_ACK_FREQUENCY, .ack_frequency = {70, 31, 25000, 3}},
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct bytes bytes, again;
        struct quic_out out = out_of(&bytes), copy = out_of(&again);
        struct quic_frame frame;

        quic_frame_put(&out, &rows[i]);
        struct str whole = written(&bytes, &out), from = whole;
        assert_true(quic_frame_read(&from, &frame));
        assert_int_equal(from.len, 0);
        assert_int_equal(frame.type, rows[i].type);
        quic_frame_put(&copy, &frame);
        assert_str(written(&again, &copy), whole);
        for (size_t len = 0; len < whole.len; len++) {
            struct str part = str_head(whole, len);
            assert_false(quic_frame_read(&part, &frame));
            struct quic_out tight = {again.at, again.at + len, false};
            quic_frame_put(&tight, &rows[i]);
            assert_true(tight.is_short && tight.at == again.at);
        }
    }
}

static void refused_frames(void **state)
{
    static const char *const rows[] = {
        "4001",       /* PING in two bytes */
        "2f",         /* no such frame */
        "0205000006", /* ACK: the first range goes below zero */
        "020500010300"
        "02",                 /* … a second one does */
        "0700",               /* NEW_TOKEN without one */
        "12d000000000000001", /* more than 2^60 streams */
        "180102"
        "01aa"
        "00000000000000000000000000000000", /* retires beyond its own number */
        "180100"
        "00"
        "00000000000000000000000000000000", /* an empty id */
        "0cc0"
        "ffffffffffffffff"
        "00", /* ends beyond 2^62 */
        "06ffffffffffffffff0100",
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct bytes bytes = from_hex(rows[i]);
        struct str from = as_str(&bytes);
        struct quic_frame frame;
        if (i == 8) {
            bytes = from_hex("0c"
                             "00"
                             "ffffffffffffffff"
                             "61");
            from = as_str(&bytes);
        }
        assert_false(quic_frame_read(&from, &frame));
    }
}

static void acks(void **state)
{
    static const struct quic_range expected[] = {{90, 101}, {50, 51}, {0, 21}};
    const uint64_t ecn[] = {1, 2, 70};
    struct quic_ranges numbers;
    struct bytes bytes;

    quic_ranges_init(&numbers, 8);
    for (size_t i = 0; i < COUNT(expected); i++) {
        assert_true(quic_ranges_add(&numbers, expected[i].start, expected[i].end));
    }
    for (size_t room = 6; room < 20; room++) {
        struct quic_out out = {bytes.at, bytes.at + room, false};
        bool has_ecn = room > 12;
        size_t count = quic_ack_put(&out, &numbers, 25, has_ecn ? ecn : NULL);
        struct str from = written(&bytes, &out);
        struct quic_frame frame;
        struct quic_ack_walk walk = {0};
        struct quic_range range;
        size_t i = 0;

        assert_false(out.is_short);
        assert_true(quic_frame_read(&from, &frame));
        assert_int_equal(from.len, 0);
        assert_int_equal(frame.ack.delay, 25);
        assert_int_equal(frame.ack.has_ecn, has_ecn);
        while (quic_ack_next(&frame, &walk, &range)) {
            assert_memory_equal(&range, &expected[i], sizeof(range));
            i++;
        }
        assert_int_equal(i, count);
        assert_true(count == 3 || room < 18);
    }
    struct quic_out out = {bytes.at, bytes.at + 5, false};
    assert_int_equal(quic_ack_put(&out, &numbers, 25, NULL), 0);
    assert_true(out.is_short && out.at == bytes.at);
    quic_ranges_free(&numbers);
}

static void parameters(void **state)
{
    struct quic_parameters some = {.max_idle_timeout_ms = 30000,
                                   .max_udp_payload = 1472,
                                   .max_data = 1 << 20,
                                   .max_stream_data_local = 65536,
                                   .max_stream_data_remote = 65537,
                                   .max_stream_data_uni = 65538,
                                   .max_streams_bidi = 100,
                                   .max_streams_uni = 3,
                                   .ack_delay_exponent = 3,
                                   .max_ack_delay_ms = 20,
                                   .min_ack_delay_us = 1000,
                                   .active_connection_id_limit = 4,
                                   .disables_migration = true,
                                   .greases_bit = true,
                                   .has_original_dcid = true,
                                   .has_initial_scid = true,
                                   .has_reset_token = true,
                                   .versions = STR("\0\0\0\1\0\0\0\1\x6b\x33\x43\xcf")},
                           read;
    struct bytes bytes;
    struct quic_out out = out_of(&bytes);

    some.original_dcid = quic_cid_of(STR("original"));
    some.initial_scid = quic_cid_of(STR("scid"));
    memset(some.reset_token, 7, sizeof(some.reset_token));
    quic_parameters_put(&out, &some, 0xc0000001);
    struct str whole = written(&bytes, &out);
    assert_true(quic_parameters_read(whole, true, &read));
    assert_int_equal(read.max_idle_timeout_ms, 30000);
    assert_int_equal(read.max_udp_payload, 1472);
    assert_int_equal(read.max_stream_data_uni, 65538);
    assert_int_equal(read.ack_delay_exponent, 3);
    assert_int_equal(read.max_ack_delay_ms, 20);
    assert_int_equal(read.max_datagram_frame, 0);
    assert_int_equal(read.min_ack_delay_us, 1000);
    assert_true(read.disables_migration && read.greases_bit && !read.has_retry_scid);
    assert_text(quic_cid_str(&read.original_dcid), "original");
    assert_memory_equal(read.reset_token, some.reset_token, 16);
    assert_int_equal(read.versions.len, 12);
    assert_false(quic_parameters_read(whole, false, &read)); /* a client has no such ids */
}

static void refused_parameters(void **state)
{
    static const char *const rows[] = {
        "0101",     /* cut */
        "010141",   /* a number longer than its length */
        "01020500", /* … or shorter */
        "0301"
        "05",     /* UDP payloads below 1200 */
        "0a0115", /* exponent 21 */
        "0b0480004000",
        "0e0101",
        "0c0100",
        "c0000000ff04de1b0480030d40", /* a least delay that is more than the most */
        "c0000000ff04de1b01"
        "01"
        "c0000000ff04de1b01"
        "01", /* twice */
        "04010504"
        "0105", /* twice */
        "110400000000",
        "11050000000100",
        "0f15"
        "000000000000000000000000000000000000000000",
    };

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct bytes bytes = from_hex(rows[i]);
        struct quic_parameters read;
        assert_false(quic_parameters_read(as_str(&bytes), false, &read));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(varints),
        cmocka_unit_test(numbers),
        cmocka_unit_test(headers),
        cmocka_unit_test(other_versions),
        cmocka_unit_test(frames),
        cmocka_unit_test(refused_frames),
        cmocka_unit_test(acks),
        cmocka_unit_test(parameters),
        cmocka_unit_test(refused_parameters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
