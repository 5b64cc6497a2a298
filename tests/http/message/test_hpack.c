/* Tests of HPACK: the examples of RFC 7541, appendix C, both ways; what is malformed; tables that
 * overflow. */
#include "base/unit.h"

#include <stdlib.h>

#include "base/arena.h"
#include "http/message/hpack.h"

static struct arena arena;
static struct hpack_table table;
static char
    *memory; /* the block: a piece of its own, so that a byte read too far is seen by ASan */

static int set_up(void **state)
{
    arena_init(&arena);
    hpack_table_init(&table, HPACK_TABLE_DEFAULT);
    memory = NULL;
    return 0;
}

static int tear_down(void **state)
{
    hpack_table_free(&table);
    arena_free(&arena);
    free(memory);
    return 0;
}

static struct str bytes_of(const char *hex)
{
    size_t size = strlen(hex) / 2;

    free(memory);
    memory = malloc(size == 0 ? 1 : size);
    assert_non_null(memory);
    for (size_t i = 0; i < size; i++) {
        char pair[3] = {hex[2 * i], hex[2 * i + 1], 0};
        memory[i] = (char) strtoul(pair, NULL, 16);
    }
    return (struct str){memory, size};
}

/* "name: value\n…" of the block; "bad" where it is malformed. */
static const char *decoded(const char *hex)
{
    struct str block = bytes_of(hex);
    struct str text = STR("");
    struct coded_field field;

    for (;;) {
        switch (hpack_decode(&table, &block, &arena, 8192, &field)) {
        case HPACK_FIELD: {
            const struct str parts[] = {text, field.name, STR(": "), field.value, STR("\n")};
            text = arena_join(&arena, parts, 5);
            break;
        }
        case HPACK_END:
            return arena_cstr(&arena, text);
        case HPACK_BAD:
            return "bad";
        }
    }
}

#define REQUEST_1 ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\n"
#define REQUEST_2 REQUEST_1 "cache-control: no-cache\n"
#define REQUEST_3                                                                                  \
    ":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\n"              \
    "custom-key: custom-value\n"

static void test_requests(void **state)
{
    static const char *const plain[] =
        {"828684410f7777772e6578616d706c652e636f6d", "828684be58086e6f2d6361636865",
         "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565"};
    static const char *const packed[] = {"828684418cf1e3c2e5f23a6ba0ab90f4ff",
                                         "828684be5886a8eb10649cbf",
                                         "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf"};
    static const char *const texts[] = {REQUEST_1, REQUEST_2, REQUEST_3};
    static const size_t sizes[] = {57, 110, 164};

    for (unsigned i = 0; i < 3; i++) {
        assert_string_equal(decoded(plain[i]), texts[i]);
        assert_int_equal(table.size, sizes[i]);
        assert_int_equal(table.count, i + 1);
    }
    hpack_table_free(&table);
    hpack_table_init(&table, HPACK_TABLE_DEFAULT);
    for (unsigned i = 0; i < 3; i++) {
        assert_string_equal(decoded(packed[i]), texts[i]);
        assert_int_equal(table.size, sizes[i]);
    }
}

/* C.5 and C.6: a table of 256 bytes, out of which entries fall. */
static void test_evictions(void **state)
{
    static const char *const blocks[][3] = {
        {"4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120474d"
         "546e1768747470733a2f2f7777772e6578616d706c652e636f6d",
         "4803333037c1c0bf",
         "88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a69707738666f6f"
         "3d4153444a4b48514b425a584f5157454f50495541585157454f49553b206d61782d6167653d333630303b2076"
         "657273696f6e3d31"},
        {"488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f"
         "0b97c8e9ae82ae43d3",
         "4883640effc1c0bf",
         "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335df"
         "dfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007"},
    };
#define RESPONSE(status, date)                                                                     \
    ":status: " status "\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:" date              \
    " GMT\nlocation: https://www.example.com\n"

    for (unsigned i = 0; i < 2; i++) {
        hpack_table_free(&table);
        hpack_table_init(&table, 256);
        assert_string_equal(decoded(blocks[i][0]), RESPONSE("302", "21"));
        assert_int_equal(table.size, 222);
        assert_string_equal(decoded(blocks[i][1]), RESPONSE("307", "21"));
        assert_int_equal(table.size, 222);
        assert_string_equal(
            decoded(blocks[i][2]),
            RESPONSE("200", "22") "content-encoding: gzip\nset-cookie: "
                                  "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1\n");
        assert_int_equal(table.size, 215);
        assert_int_equal(table.count, 3);
    }
}

static void test_malformed(void **state)
{
    static const char *const blocks[] = {
        "80",             /* index 0 */
        "be",             /* an entry that is not there */
        "ff",             /* an integer that does not end */
        "ffffffffffffff", /* … or is too large */
        "40",             /* no name */
        "4005616263",     /* a name that is cut off */
        "418cf1e3",       /* a value that is cut off */
        "4101ff00",       /* rubbish behind */
        "4181ff",         /* packed: padding of 8 bits */
        "418100",         /* packed: padding of zeros */
        "4184ffffffff",   /* packed: the end of a string */
        "3fe21f",         /* a table beyond the limit */
        "8220",           /* an update behind a field */
    };

    for (unsigned i = 0; i < COUNT(blocks); i++) {
        hpack_table_free(&table);
        hpack_table_init(&table, HPACK_TABLE_DEFAULT);
        if (strcmp(decoded(blocks[i]), "bad") != 0) {
            fail_msg("%s was taken", blocks[i]);
        }
    }
}

static void test_updates(void **state)
{
    assert_string_equal(decoded("828684410f7777772e6578616d706c652e636f6d"), REQUEST_1);
    assert_string_equal(decoded("2082"), ":method: GET\n");
    assert_int_equal(table.count, 0);
    assert_string_equal(decoded("203fe11f82"), ":method: GET\n");
    assert_int_equal(table.max_size, 4096);
}

/* A ring that is written over many times, with entries of all sizes up to the largest. */
static void test_ring(void **state)
{
    struct hpack_table encoder;
    char value[4200], block[8500];

    hpack_table_init(&encoder, HPACK_TABLE_DEFAULT);
    for (unsigned i = 0; i < 5000; i++) {
        size_t size = (size_t) i * 7919 % 4100;
        memset(value, 'a' + (int) (i % 26), size);
        struct str sent = {value, i % 3 == 0 ? size : size % 40};
        char *end = hpack_put_field(block, &encoder,
                                    (struct hpack_form){.static_index = i % 2 == 0 ? 58 : 0},
                                    STR("X-Name"), sent);
        struct str rest = str_from(block, end);
        struct coded_field field;

        assert_true(end <= block + hpack_field_room(STR("user-agent"), sent));
        assert_int_equal(hpack_decode(&table, &rest, &arena, 8192, &field), HPACK_FIELD);
        assert_str(field.name, i % 2 == 0 ? STR("user-agent") : STR("x-name"));
        assert_str(field.value, sent);
        assert_int_equal(hpack_decode(&table, &rest, &arena, 8192, &field), HPACK_END);
        assert_int_equal(table.count, encoder.count);
        assert_int_equal(table.size, encoder.size);
        assert_true(table.size <= 4096);
    }
    hpack_table_free(&encoder);
}

/* What is sent again is one byte; the numbers of fields stay theirs as others come. */
static void test_repeats(void **state)
{
    struct hpack_table encoder;
    char block[256];

    hpack_table_init(&encoder, HPACK_TABLE_DEFAULT);
    char *end = hpack_put_field(block, &encoder, (struct hpack_form){.static_index = 54},
                                STR("Server"), STR("nginx"));
    unsigned number = encoder.first;
    assert_true(end - block > 1);
    assert_ptr_equal(hpack_put_field(block, &encoder, (struct hpack_form){.static_index = 54},
                                     STR("Server"), STR("nginx")),
                     block + 1);
    end = hpack_put_field(block, &encoder, (struct hpack_form){.static_index = 0}, STR("X-A"),
                          STR("b"));
    assert_ptr_equal(hpack_put_number(block, &encoder, number), block + 1);
    assert_int_equal((unsigned char) block[0], 0x80 | 63);
    assert_null(hpack_put_number(block, &encoder, 0));
    assert_null(hpack_put_number(block, &encoder, number + 5));
    hpack_encoder_limit(&encoder, 0);
    hpack_encoder_limit(&encoder, 4096);
    end = hpack_put_limit(block, &encoder);
    assert_int_equal(end - block, 4); /* 0, then 4096 (4.2) */
    assert_null(hpack_put_number(block, &encoder, number));
    hpack_table_free(&encoder);
}

static void test_status(void **state)
{
    char block[64];

    assert_ptr_equal(hpack_put_status(block, &table, 200), block + 1);
    assert_int_equal((unsigned char) block[0], 0x88);
    char *end = hpack_put_status(block, &table, 499);
    hpack_table_free(&table);
    hpack_table_init(&table, HPACK_TABLE_DEFAULT);
    struct str rest = str_from(block, end);
    struct coded_field field;
    assert_int_equal(hpack_decode(&table, &rest, &arena, 100, &field), HPACK_FIELD);
    assert_text(field.name, ":status");
    assert_text(field.value, "499");
}

/* Every byte, alone and beside every other. */
static void test_huffman(void **state)
{
    char text[2], packed[16], back[4];

    for (unsigned a = 0; a < 256; a++) {
        for (unsigned b = 0; b < 256; b++) {
            text[0] = (char) a;
            text[1] = (char) b;
            char *end = huffman_encode(packed, (struct str){text, 2});
            assert_int_equal((size_t) (end - packed), huffman_size((struct str){text, 2}));
            assert_int_equal(huffman_decode(str_from(packed, end), back, sizeof(back)), 2);
            assert_memory_equal(text, back, 2);
            assert_int_equal(huffman_decode(str_from(packed, end), back, 1), -1);
        }
    }
}

/* Symbols are decoded in pairs; the room that a text needs is exactly its size, whether that is
 * even or odd. */
static void test_huffman_room(void **state)
{
    const struct str text = STR("www.example.com/~e\x7f\xff/0");
    char packed[64], back[32];

    for (size_t size = 1; size <= text.len; size++) {
        char *end = huffman_encode(packed, str_head(text, size));
        struct str coded = str_from(packed, end);
        back[size] = '!';
        assert_int_equal(huffman_decode(coded, back, size), size);
        assert_memory_equal(back, text.data, size);
        assert_int_equal(back[size], '!');
        assert_int_equal(huffman_decode(coded, back, size - 1), -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_requests, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_evictions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_malformed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_updates, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ring, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_repeats, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_status, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_huffman, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_huffman_room, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
