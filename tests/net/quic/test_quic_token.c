/* What is derived from the key of the service: tokens for addresses, ids, reset tokens. */
#include <stdio.h>

#include "net/quic/bytes.h"
#include "net/quic/token.h"

#define NOW UINT64_C(1800000000)

static struct quic_secrets secrets, others;
static struct addr client, other;

static int make(void **state)
{
    assert_true(quic_secrets_make(&secrets, STR("a key of this service"), NULL));
    assert_true(quic_secrets_make(&others, STR("a key of another one"), NULL));
    assert_true(addr_parse_ip(STR("192.0.2.1"), &client));
    assert_true(addr_parse_ip(STR("192.0.2.2"), &other));
    addr_set_port(&client, 1000);
    addr_set_port(&other, 1000);
    return 0;
}

static struct str made(const struct quic_token *token, unsigned char *room)
{
    return (struct str){(const char *) room, quic_token_put(&secrets, token, &client, room)};
}

static void retry_tokens(void **state)
{
    const struct quic_token token = {.is_retry = true,
                                     .made_s = NOW,
                                     .original_dcid = quic_cid_of(STR("original")),
                                     .retry_scid = quic_cid_of(STR("twelve bytes"))};
    unsigned char room[QUIC_TOKEN_MOST];
    struct str bytes = made(&token, room);
    struct quic_token read;

    assert_true(quic_token_read(&secrets, bytes, &client, NOW + 3, &read));
    assert_true(read.is_retry);
    assert_text(quic_cid_str(&read.original_dcid), "original");
    assert_text(quic_cid_str(&read.retry_scid), "twelve bytes");
    assert_false(quic_token_read(&secrets, bytes, &other, NOW, &read));
    assert_false(quic_token_read(&others, bytes, &client, NOW, &read));
    assert_false(quic_token_read(&secrets, bytes, &client, NOW + QUIC_RETRY_SECONDS, &read));
    assert_false(quic_token_read(&secrets, bytes, &client, NOW - 60, &read));
    struct addr port = client;
    addr_set_port(&port, 1001);
    assert_false(quic_token_read(&secrets, bytes, &port, NOW, &read));
    for (size_t len = 0; len < bytes.len; len++) {
        assert_false(quic_token_read(&secrets, str_head(bytes, len), &client, NOW, &read));
    }
    for (size_t i = 0; i < bytes.len; i++) {
        room[i] ^= 1;
        assert_false(quic_token_read(&secrets, bytes, &client, NOW, &read));
        room[i] ^= 1;
    }
}

/* A client may come again from another port. */
static void tokens_for_later(void **state)
{
    const struct quic_token token = {.made_s = NOW};
    unsigned char room[QUIC_TOKEN_MOST];
    struct str bytes = made(&token, room);
    struct quic_token read;

    addr_set_port(&client, 2000);
    assert_true(quic_token_read(&secrets, bytes, &client, NOW + 86400, &read));
    assert_false(read.is_retry);
    addr_set_port(&client, 1000);
    assert_false(quic_token_read(&secrets, bytes, &other, NOW, &read));
    assert_false(quic_token_read(&secrets, bytes, &client, NOW + QUIC_NEW_TOKEN_SECONDS, &read));
}

/* Ids of one worker have nothing in common that another one's have not. */
static void ids(void **state)
{
    unsigned same = 0;

    for (unsigned i = 0; i < 1000; i++) {
        const uint8_t random[8] = {(uint8_t) (i >> 8), (uint8_t) i, 3, 4, 5, 6, 7, 8};
        const struct quic_cid_names names = {.worker = (uint16_t) (i % 7), .slot = 3};
        struct quic_cid cid;

        quic_cid_encode(&secrets, names, random, &cid);
        struct quic_cid_names read = quic_cid_decode(&secrets, quic_cid_str(&cid));
        assert_int_equal(cid.len, 12);
        assert_int_equal(read.worker, i % 7);
        assert_int_equal(read.slot, 3);
        read = quic_cid_decode(&others, quic_cid_str(&cid));
        same += read.slot == 3;
    }
    assert_true(same < 5);
}

/* What balancers can read; the encrypted one is of draft-ietf-quic-load-balancers, B.2. */
static void ids_that_name_a_server(void **state)
{
    static const struct {
        const char *id;
        uint8_t config;
        bool is_encrypted;
        const char *begins; /* after the first byte, which has the size */
    } rows[] = {
        {"c4605e", 0, false, "c4605e4504cc4f"},
        {"350d28b420", 1, false, "350d28b4203487d970"},
        {"ed793a", 0, true, "20b1d07b359d3c"},
    };
    static const uint8_t nonces[][4] = {{0x45, 0x04, 0xcc, 0x4f},
                                        {0x34, 0x87, 0xd9, 0x70},
                                        {0xee, 0x08, 0x0d, 0xbf}};
    struct bytes key = from_hex("8f95f09245765f80256934e50c66207f");
    struct arena arena;

    arena_init(&arena);
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct bytes id = from_hex(rows[i].id), begins = from_hex(rows[i].begins);
        struct quic_server_id server = {.size = (uint8_t) id.len, .config = rows[i].config};
        uint8_t random[8] = {[4] = 9, [7] = 1};
        struct quic_secrets own;
        struct quic_cid cid;

        memcpy(server.bytes, id.at, id.len);
        memcpy(random, nonces[i], 4);
        if (rows[i].is_encrypted) {
            assert_true(quic_server_id_set_key(&server, &arena, key.at));
        }
        assert_true(quic_secrets_make(&own, STR("a key of this service"), &server));
        quic_cid_encode(&own, (struct quic_cid_names){.worker = 77, .slot = 3}, random, &cid);
        assert_int_equal(cid.len, own.cid_size);
        assert_int_equal(cid.len, 13 + id.len);
        assert_int_equal(cid.bytes[0], rows[i].config << 5 | (cid.len - 1));
        assert_memory_equal(cid.bytes + 1, begins.at, begins.len);
        struct quic_cid_names read = quic_cid_decode(&own, quic_cid_str(&cid));
        assert_int_equal(read.worker, 77);
        assert_int_equal(read.slot, 3);
    }
    arena_free(&arena);
}

static void reset_tokens(void **state)
{
    uint8_t one[QUIC_RESET_TOKEN_SIZE], again[QUIC_RESET_TOKEN_SIZE],
        another[QUIC_RESET_TOKEN_SIZE];

    quic_reset_token(&secrets, STR("twelve bytes"), one);
    quic_reset_token(&secrets, STR("twelve bytes"), again);
    quic_reset_token(&secrets, STR("other bytes!"), another);
    assert_memory_equal(one, again, sizeof(one));
    assert_memory_not_equal(one, another, sizeof(one));
    quic_reset_token(&others, STR("twelve bytes"), another);
    assert_memory_not_equal(one, another, sizeof(one));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(retry_tokens), cmocka_unit_test(tokens_for_later),
        cmocka_unit_test(ids),          cmocka_unit_test(ids_that_name_a_server),
        cmocka_unit_test(reset_tokens),
    };

    return cmocka_run_group_tests(tests, make, NULL);
}
