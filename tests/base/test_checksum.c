/* Tests of checksums, hashes and random bytes. */
#include "base/unit.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/text.h"

static void assert_hex(const unsigned char *bytes, size_t len, const char *expected)
{
    char text[64];
    assert_str(str_from(text, hex_encode(text, bytes, len)), str_of(expected));
}

static void known_sums(void **state)
{
    unsigned char sum[20];

    assert_int_equal(crc32_of(STR("123456789")), 0xcbf43926);
    assert_int_equal(crc32_of(STR_NONE), 0);
    assert_int_equal(murmur2_of(STR("")), 0);
    assert_int_equal(murmur2_of(STR("abc")), 0x13577c9b);
    assert_int_equal(murmur2_of(STR("abcdefgh!")), 0x32098fc6);
    md5_of(STR("abc"), sum);
    assert_hex(sum, 16, "900150983cd24fb0d6963f7d28e17f72");
    md5_of(STR_NONE, sum);
    assert_hex(sum, 16, "d41d8cd98f00b204e9800998ecf8427e");
    sha1_of(STR("abc"), sum);
    assert_hex(sum, 20, "a9993e364706816aba3e25717850c26c9cd0d89d");
    sha1_of(STR_NONE, sum);
    assert_hex(sum, 20, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
}

/* FIPS 180-4 and RFC 4231, 2202. */
static void keyed_sums(void **state)
{
    unsigned char sum[32];
    char long_key[131];
    struct arena arena;

    arena_init(&arena);
    memset(long_key, 0xaa, sizeof(long_key));
    sha256_of(STR("abc"), sum);
    assert_hex(sum, 32, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    sha256_of(STR("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"), sum);
    assert_hex(sum, 32, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    sha256_of(STR_NONE, sum);
    assert_hex(sum, 32, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    hmac_sha256_of(&arena, STR("Jefe"), STR("what do ya want for nothing?"), sum);
    assert_hex(sum, 32, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    hmac_sha256_of(&arena, (struct str){long_key, sizeof(long_key)},
                   STR("Test Using Larger Than Block-Size Key - Hash Key First"), sum);
    assert_hex(sum, 32, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    hmac_sha1_of(&arena, STR("Jefe"), STR("what do ya want for nothing?"), sum);
    assert_hex(sum, 20, "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79");
    arena_free(&arena);
}

/*
 * Key 00 to 0f, bytes 00 01 02 …, computed by another implementation that gives the value of the
 * paper (Aumasson and Bernstein, 2012, appendix A) for SipHash-2-4.
 */
static void siphash_vectors(void **state)
{
    static const struct {
        size_t len;
        uint64_t value;
    } vectors[] = {
        {0, 0xabac0158050fc4dc},  {1, 0xc9f49bf37d57ca93},  {7, 0xd3927d989bb11140},
        {8, 0x369095118d299a8e},  {9, 0x25a48eb36c063de4},  {15, 0xd320d86d2a519956},
        {16, 0xcc4fdd1a7d908b66}, {63, 0x9d199062b7bbb3a8},
    };
    const uint64_t key[2] = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
    char bytes[64];

    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (char) i;
    }
    for (size_t i = 0; i < COUNT(vectors); i++) {
        assert_true(siphash_1_3((struct str){bytes, vectors[i].len}, key) == vectors[i].value);
    }
    assert_true(siphash_1_3(STR_NONE, key) == vectors[0].value);
}

static void keyed_hash_is_the_same_in_a_child(void **state)
{
    uint64_t here = keyed_hash(STR("name"));
    uint64_t there = 0;
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        uint64_t value = keyed_hash(STR("name"));
        _exit(write(ends[1], &value, sizeof(value)) == sizeof(value) ? 0 : 1);
    }
    assert_int_equal(read(ends[0], &there, sizeof(there)), sizeof(there));
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(ends[0]);
    close(ends[1]);
    assert_true(here == there);
    assert_true(here != keyed_hash(STR("namf")));
}

static void random_bytes_differ_also_in_a_child(void **state)
{
    unsigned char here[16];
    unsigned char there[16];
    unsigned char large[2000] = {0};
    int ends[2];

    random_bytes(here, sizeof(here)); /* fills the pool that the child inherits */
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        random_bytes(there, sizeof(there));
        _exit(write(ends[1], there, sizeof(there)) == sizeof(there) ? 0 : 1);
    }
    assert_int_equal(read(ends[0], there, sizeof(there)), sizeof(there));
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(ends[0]);
    close(ends[1]);
    random_bytes(here, sizeof(here));
    assert_memory_not_equal(here, there, sizeof(here));

    random_bytes(large, sizeof(large));
    size_t zeros = 0;
    for (size_t i = 0; i < sizeof(large); i++) {
        zeros += large[i] == 0;
    }
    assert_true(zeros < 200);
    random_bytes(NULL, 0);
    /* Four equal draws of 32 bits are as good as impossible. */
    uint32_t first = random_uint32();
    assert_false(first == random_uint32() && first == random_uint32() && first == random_uint32());
}

static void secrets_are_equal(void **state)
{
    assert_true(secret_equal(STR("abc"), STR("abc")));
    assert_true(secret_equal(STR_NONE, STR("")));
    assert_false(secret_equal(STR("abc"), STR("abd")));
    assert_false(secret_equal(STR("abc"), STR("abcd")));
    assert_false(secret_equal(STR("abc"), STR_NONE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keyed_sums),
        cmocka_unit_test(known_sums),
        cmocka_unit_test(siphash_vectors),
        cmocka_unit_test(keyed_hash_is_the_same_in_a_child),
        cmocka_unit_test(random_bytes_differ_also_in_a_child),
        cmocka_unit_test(secrets_are_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
