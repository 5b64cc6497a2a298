/* The test vectors of RFC 9001, appendix A, and RFC 9369, appendix A; updates of keys. */
#include <stdio.h>

#include "net/quic/bytes.h"
#include "net/quic/gcm.h"
#include "net/quic/keys.h"
#include "net/quic/quic.h"

#define DCID "8394c8f03e515708"
#define SERVER_PAYLOAD                                                                             \
    "02000000000600405a020000560303eefce7f7b37ba1d1632e96677825ddf73988cfc79825df566dc5430b9a045a" \
    "1200130100002e00330024001d00209d3c940d89690b84d08a60993c144eca684d1081287c834d5311bcf32bb9"   \
    "da1a002b00020304"
#define SERVER_PACKET_1                                                                            \
    "cf000000010008f067a5502a4262b5004075c0d95a482cd0991cd25b0aac406a5816b6394100f37a1c69797554"   \
    "780bb38cc5a99f5ede4cf73c3ec2493a1839b3dbcba3f6ea46c5b7684df3548e7ddeb9c3bf9c73cc3f3bded74b"   \
    "562bfb19fb84022f8ef4cdd93795d77d06edbb7aaf2f58891850abbdca3d20398c276456cbc42158407dd074ee"

static void seal_packet(struct quic_keys *keys, struct bytes *packet, size_t number_at,
                        unsigned number_size, uint64_t number)
{
    unsigned char mask[QUIC_MASK_SIZE];
    size_t payload = number_at + number_size;

    assert_true(quic_seal(keys, number, packet->at, packet->at + payload, packet->len - payload));
    packet->len += QUIC_TAG_SIZE;
    assert_true(quic_masks(keys, packet->at + number_at + 4, 1, mask));
    quic_mask_apply(packet->at, packet->at + number_at, number_size, mask);
}

static void server_initial(void **state)
{
    struct bytes dcid = from_hex(DCID);
    struct bytes packet = from_hex("c1000000010008f067a5502a4262b50040750001" SERVER_PAYLOAD);
    struct quic_keys write, read;
    struct quic_header header;
    struct quic_number number = {.at = 18};

    assert_true(quic_keys_make_initial(&write, QUIC_VERSION_1, as_str(&dcid), true, true));
    assert_hex(write.iv, sizeof(write.iv), "0ac1493ca1905853b0bba03e");
    seal_packet(&write, &packet, 18, 2, 1);
    assert_hex(packet.at, packet.len, SERVER_PACKET_1);

    assert_true(quic_keys_make_initial(&read, QUIC_VERSION_1, as_str(&dcid), true, false));
    assert_true(quic_header_read(as_str(&packet), 8, &header));
    assert_int_equal(header.type, QUIC_PACKET_INITIAL);
    assert_int_equal(header.size, packet.len);
    number.at = header.number_at;
    assert_true(quic_unprotect(&read, packet.at, header.size, &number));
    assert_int_equal(number.size, 2);
    assert_int_equal(number.truncated, 1);
    unsigned char *payload = packet.at + header.number_at + number.size;
    size_t size = packet.len - (size_t) (payload - packet.at);
    assert_true(quic_open(&read, 1, packet.at, payload, size));
    assert_hex(payload, size - QUIC_TAG_SIZE, SERVER_PAYLOAD);
    quic_keys_free(&write);
    quic_keys_free(&read);
}

static void what_was_changed_does_not_open(void **state)
{
    struct bytes dcid = from_hex(DCID), packet = from_hex(SERVER_PACKET_1);
    struct quic_keys read;
    struct quic_number number = {.at = 18};

    packet.at[60] ^= 1;
    assert_true(quic_keys_make_initial(&read, QUIC_VERSION_1, as_str(&dcid), true, false));
    assert_true(quic_unprotect(&read, packet.at, packet.len, &number));
    assert_false(quic_open(&read, 1, packet.at, packet.at + 20, packet.len - 20));
    assert_false(quic_open(&read, 1, packet.at, packet.at + 20, QUIC_TAG_SIZE - 1));
    assert_int_equal(read.uses, 1);
    assert_false(quic_unprotect(&read, packet.at, 18 + 19, &number));
    quic_keys_free(&read);
}

static void retry(void **state)
{
    struct bytes dcid = from_hex(DCID),
                 first = from_hex("ff000000010008f067a5502a4262b5746f6b656e"),
                 second = from_hex("cf6b3343cf0008f067a5502a4262b5746f6b656e");
    unsigned char tag[QUIC_TAG_SIZE];

    assert_true(quic_retry_tag(QUIC_VERSION_1, as_str(&dcid), as_str(&first), tag));
    assert_hex(tag, sizeof(tag), "04a265ba2eff4d829058fb3f0f2496ba");
    assert_true(quic_retry_tag(QUIC_VERSION_2, as_str(&dcid), as_str(&second), tag));
    assert_hex(tag, sizeof(tag), "c8646ce8bfe33952d955543665dcc7b6");
}

static void chacha(void **state)
{
    struct bytes secret =
                     from_hex("9ac312a7f877468ebe69422748ad00a15443f18203a07d6060f688f30f21632b"),
                 first = from_hex("4200bff401"), second = from_hex("4200bff401");
    struct quic_keys keys, next;

    assert_true(quic_keys_make(&keys, tls_suite_of(0x1303), QUIC_VERSION_1, as_str(&secret), true));
    seal_packet(&keys, &first, 1, 3, 654360564);
    assert_hex(first.at, first.len, "4cfe4189655e5cd55c41f69080575d7999c25a5bfb");
    assert_true(quic_keys_make_next(&next, &keys));
    assert_hex(next.secret, 32, "1223504755036d556342ee9361d253421a826c9ecdf3c7148684b36b714881f9");
    quic_keys_free(&next);
    quic_keys_free(&keys);

    assert_true(quic_keys_make(&keys, tls_suite_of(0x1303), QUIC_VERSION_2, as_str(&secret), true));
    seal_packet(&keys, &second, 1, 3, 654360564);
    assert_hex(second.at, second.len, "5558b1c60ae7b6b932bc27d786f4bc2bb20f2162ba");
    quic_keys_free(&keys);
}

static void version_2(void **state)
{
    struct bytes dcid = from_hex(DCID);
    struct quic_keys keys;

    assert_true(quic_keys_make_initial(&keys, QUIC_VERSION_2, as_str(&dcid), false, true));
    assert_hex(keys.iv, sizeof(keys.iv), "91f73e2351d8fa91660e909f");
    quic_keys_free(&keys);
}

/* Both sides go through updates; old keys do not open what new ones sealed. */
static void updates(void **state)
{
    struct bytes secret =
        from_hex("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
                 "202122232425262728292a2b2c2d2e2f");
    struct quic_keys write, read, next;
    unsigned char packet[64];

    assert_null(tls_suite_of(0x1304));
    assert_false(quic_keys_make(&write, tls_suite_of(0x1302), QUIC_VERSION_1, STR("short"), true));
    assert_true(
        quic_keys_make(&write, tls_suite_of(0x1302), QUIC_VERSION_1, as_str(&secret), true));
    assert_true(
        quic_keys_make(&read, tls_suite_of(0x1302), QUIC_VERSION_1, as_str(&secret), false));
    for (unsigned i = 0; i < 3; i++) {
        memcpy(packet, "header payload", 14);
        assert_true(quic_seal(&write, i, packet, packet + 7, 7));
        assert_true(quic_open(&read, i, packet, packet + 7, 7 + QUIC_TAG_SIZE));
        assert_memory_equal(packet, "header payload", 14);
        assert_true(quic_keys_make_next(&next, &write));
        quic_keys_replace(&write, &next);
        memcpy(packet, "header payload", 14);
        assert_true(quic_seal(&write, i, packet, packet + 7, 7));
        assert_false(quic_open(&read, i, packet, packet + 7, 7 + QUIC_TAG_SIZE));
        assert_true(quic_keys_make_next(&next, &read));
        quic_keys_replace(&read, &next);
    }
    quic_keys_free(&write);
    quic_keys_free(&read);
}

/* Keys that were used for some packets, and the same ones with a context of OpenSSL in place of
 * libipsec-mb. */
static bool make_pair(struct quic_keys *keys, struct quic_keys *openssl, unsigned suite, bool seals)
{
    struct bytes secret =
        from_hex("000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
                 "202122232425262728292a2b2c2d2e2f");
    unsigned char bytes[2 + QUIC_TAG_SIZE] = {0};

    secret.len = tls_suite_of(suite)->hash_size;
    assert_true(quic_keys_make(keys, tls_suite_of(suite), QUIC_VERSION_1, as_str(&secret), seals));
    assert_true(
        quic_keys_make(openssl, tls_suite_of(suite), QUIC_VERSION_1, as_str(&secret), seals));
    openssl->packets = QUIC_KEYS_FEW; /* as if it had been tried */
    for (unsigned i = 0; i < QUIC_KEYS_FEW; i++) {
        assert_null(keys->gcm);
        bool is_done = seals ? quic_seal(keys, i, bytes, bytes + 1, 1)
                             : quic_open(keys, i, bytes, bytes + 1, 1 + QUIC_TAG_SIZE);
        assert_true(is_done == seals);
    }
    assert_true((keys->gcm == NULL) == (keys->aead != NULL));
    return keys->gcm != NULL;
}

/* Headers of 1 to 60 bytes, payloads of 0 to 1500. */
static void libraries_agree(unsigned suite)
{
    struct quic_keys write[2], read[2];
    unsigned char bytes[2][1600];
    bool has_both =
        make_pair(&write[0], &write[1], suite, true) && make_pair(&read[0], &read[1], suite, false);

    for (size_t size = 0; has_both && size <= 1500; size++) {
        size_t header = 1 + size % 60, all = header + size + QUIC_TAG_SIZE;
        uint64_t number = size * 0x123456789ull;
        for (size_t i = 0; i < all; i++) {
            bytes[0][i] = bytes[1][i] = (unsigned char) (i * 7 + size);
        }
        for (unsigned i = 0; i < 2; i++) {
            assert_true(quic_seal(&write[i], number, bytes[i], bytes[i] + header, size));
        }
        assert_memory_equal(bytes[0], bytes[1], all);
        for (unsigned i = 0; i < 2; i++) {
            assert_true(
                quic_open(&read[i], number, bytes[i], bytes[i] + header, size + QUIC_TAG_SIZE));
            assert_int_equal(bytes[i][header - 1], (unsigned char) ((header - 1) * 7 + size));
            bytes[i][all - 1 - size % QUIC_TAG_SIZE] ^= 0x80;
            assert_false(
                quic_open(&read[i], number, bytes[i], bytes[i] + header, size + QUIC_TAG_SIZE));
        }
        assert_memory_equal(bytes[0], bytes[1], header);
    }
    for (unsigned i = 0; i < 2; i++) {
        quic_keys_free(&write[i]);
        quic_keys_free(&read[i]);
    }
    if (!has_both) {
        skip();
    }
}

static void libraries_agree_on_aes_128(void **state)
{
    libraries_agree(0x1301);
}

static void libraries_agree_on_aes_256(void **state)
{
    libraries_agree(0x1302);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(server_initial),
        cmocka_unit_test(what_was_changed_does_not_open),
        cmocka_unit_test(retry),
        cmocka_unit_test(chacha),
        cmocka_unit_test(version_2),
        cmocka_unit_test(updates),
        cmocka_unit_test(libraries_agree_on_aes_128),
        cmocka_unit_test(libraries_agree_on_aes_256),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
