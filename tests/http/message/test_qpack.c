/* Tests of QPACK: the examples of RFC 9204, appendix B; what is malformed; our encoder against our
 * decoder. */
#include "base/unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "http/message/prefixed.h"
#include "http/message/qpack.h"
#include "http/message/qpack_static.h"

static struct arena arena;
static struct qpack_decoder decoder;
static struct qpack_encoder encoder;
static char
    *memory; /* the bytes: a piece of its own, so that a byte read too far is seen by ASan */

static int set_up(void **state)
{
    arena_init(&arena);
    qpack_decoder_init(&decoder, 220);
    qpack_encoder_init(&encoder);
    memory = NULL;
    return 0;
}

static int tear_down(void **state)
{
    qpack_decoder_free(&decoder);
    qpack_encoder_free(&encoder);
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

/* "name: value\n…" of a section of this stream, "blocked" or "bad"; it is acknowledged into
 * `answer`. */
static const char *section_text(struct str block, uint64_t stream, struct str *answer)
{
    static char room[PREFIXED_INTEGER_ROOM];
    struct str text = STR("");
    struct qpack_section section = {.max_string = 4096};
    struct coded_field field;

    enum qpack_result result = qpack_section_begin(&decoder, block, &section);
    if (result != QPACK_FIELD) {
        return result == QPACK_BLOCKED ? "blocked" : "bad";
    }
    while ((result = qpack_decode(&decoder, &section, &arena, &field)) == QPACK_FIELD) {
        const struct str parts[] = {text, field.name, STR(": "), field.value, STR("\n")};
        text = arena_join(&arena, parts, 5);
        if (field.static_index != 0) {
            assert_str(field.name, qpack_static_get(field.static_index - 1)->name);
        }
    }
    if (result == QPACK_BAD) {
        return "bad";
    }
    *answer = str_from(room, qpack_put_acknowledgment(room, &decoder, &section, stream));
    return arena_cstr(&arena, text);
}

static const char *decoded(const char *hex)
{
    struct str answer;

    return section_text(bytes_of(hex), 0, &answer);
}

static bool fed(const char *hex)
{
    return qpack_decoder_feed(&decoder, bytes_of(hex));
}

/* Appendix B, from beginning to end. */
static void test_examples(void **state)
{
    char room[PREFIXED_INTEGER_ROOM];
    struct str answer;

    assert_string_equal(decoded("0000510b2f696e6465782e68746d6c"), ":path: /index.html\n");

    assert_string_equal(decoded("03811011"), "blocked");
    assert_true(fed("3fbd01c00f7777772e6578616d706c652e636f6dc10c2f73616d706c652f70617468"));
    assert_int_equal(decoder.table.size, 106);
    assert_string_equal(section_text(bytes_of("03811011"), 4, &answer),
                        ":authority: www.example.com\n:path: /sample/path\n");
    assert_text(answer, "\x84");

    assert_true(fed("4a637573746f6d2d6b65790c637573746f6d2d76616c7565"));
    assert_int_equal(decoder.table.size, 160);
    assert_text(str_from(room, qpack_put_increment(room, &decoder)), "\x01");

    assert_string_equal(decoded("050080c181"), "blocked");
    assert_true(fed("02"));
    assert_int_equal(decoder.table.size, 217);
    assert_string_equal(section_text(bytes_of("050080c181"), 8, &answer),
                        ":authority: www.example.com\n:path: /\ncustom-key: custom-value\n");
    assert_text(str_from(room, qpack_put_cancellation(room, 8)), "\x48");

    assert_true(fed("810d637573746f6d2d76616c756532"));
    assert_int_equal(decoder.table.size, 215);
    assert_int_equal(decoder.table.count, 4);
    assert_string_equal(decoded("060080"), "custom-key: custom-value2\n");
}

/* The encoder stream of the examples, cut at each byte. */
static void test_instructions_in_pieces(void **state)
{
    const char *hex =
        "3fbd01c00f7777772e6578616d706c652e636f6dc10c2f73616d706c652f706174684a637573746f"
        "6d2d6b65790c637573746f6d2d76616c756502810d637573746f6d2d76616c756532";
    char piece[3] = {0};

    for (const char *at = hex; *at != '\0'; at += 2) {
        memcpy(piece, at, 2);
        assert_true(fed(piece));
    }
    assert_int_equal(decoder.table.size, 215);
    assert_int_equal(decoder.table.inserted, 5);
    assert_string_equal(decoded("060080"), "custom-key: custom-value2\n");
}

static void test_malformed_sections(void **state)
{
    static const char *const sections[] = {
        "",           /* no prefix */
        "00",         /* half of one */
        "0e00",       /* an insert count beyond twice the entries */
        "0080",       /* a base below zero */
        "000080",     /* an entry of a table that is empty */
        "000010",     /* … after the base */
        "0000ff24",   /* static entry 99 */
        "00007f",     /* an integer that does not end */
        "0000510b2f", /* a value that is cut off */
        "0000230061", /* a value that is cut off, after a name */
        "0000ffffffffffffffffffffff7f",
        "0000518100",     /* packed: padding of zeros */
        "00005183ffffff", /* packed: more than a byte of padding */
    };

    for (unsigned i = 0; i < COUNT(sections); i++) {
        assert_string_equal(decoded(sections[i]), "bad");
    }
    assert_true(fed("3fbd01c00f7777772e6578616d706c652e636f6d"));
    assert_string_equal(decoded("020080"), ":authority: www.example.com\n");
    assert_string_equal(decoded("020081"), "bad"); /* before the first */
    assert_string_equal(decoded("020010"), "bad"); /* at or after the required count */
    assert_string_equal(decoded("028010"), ":authority: www.example.com\n");
    assert_string_equal(decoded("0280510b2f"), "bad");
}

static void test_malformed_instructions(void **state)
{
    static const char *const streams[] = {
        "3fbe01",         /* a capacity above the limit */
        "00",             /* a duplicate of nothing */
        "8000",           /* a name of an entry that is not there */
        "ff2400",         /* a static name that is not there */
        "c001612020",     /* an entry while the capacity is 0 */
        "3fbd01c07ff502", /* a value longer than the table */
        "3fbd01ffffffffffffffffffffff7f",
    };

    for (unsigned i = 0; i < COUNT(streams); i++) {
        qpack_decoder_free(&decoder);
        qpack_decoder_init(&decoder, 220);
        assert_false(fed(streams[i]));
    }
}

/* ---- our encoder ---- */

static char section_room[4096];

/* A response's section as our encoder writes it. */
static struct str encoded(uint64_t stream, const char *etag)
{
    struct qpack_writer writer;

    qpack_begin(&writer, &encoder, stream, section_room);
    qpack_put_status(&writer, 200);
    qpack_put_field(&writer, STR("Server"), STR("Portunus"), false);
    qpack_put_field(&writer, STR("Content-Type"), STR("text/css"), false);
    qpack_put_field(&writer, STR("X-Custom"), STR("some value"), false);
    qpack_put_field(&writer, STR("ETag"), str_of(etag), false);
    qpack_put_field(&writer, STR("Set-Cookie"), STR("id=1"), true);
    return qpack_finish(&writer);
}

/* The encoder's instructions to the decoder, and its answer back. */
static void carry_instructions(void)
{
    char room[PREFIXED_INTEGER_ROOM];

    assert_true(qpack_decoder_feed(&decoder,
                                   (struct str){encoder.instructions, encoder.instructions_size}));
    encoder.instructions_size = 0;
    assert_true(qpack_encoder_feed(&encoder, str_from(room, qpack_put_increment(room, &decoder))));
}

static void check_round(uint64_t stream, const char *etag, struct str block)
{
    char expected[256];
    struct str answer;

    snprintf(expected, sizeof(expected),
             ":status: 200\nserver: Portunus\ncontent-type: text/css\nx-custom: some value\n"
             "etag: %s\nset-cookie: id=1\n",
             etag);
    assert_string_equal(section_text(block, stream, &answer), expected);
    assert_true(qpack_encoder_feed(&encoder, answer));
}

/* A field gets into the table when it comes again, and is referred to once that was acknowledged.
 */
static void test_encoder(void **state)
{
    qpack_decoder_free(&decoder);
    qpack_decoder_init(&decoder, 4096);
    qpack_encoder_allow(&encoder, 4096);

    struct str first = encoded(0, "\"a\"");
    assert_int_equal(encoder.instructions_size, 0);
    check_round(0, "\"a\"", first);
    struct str second = encoded(4, "\"b\"");
    assert_int_not_equal(encoder.instructions_size, 0);
    assert_int_equal(second.len, first.len);
    check_round(4, "\"b\"", second); /* it does not block */
    carry_instructions();
    assert_int_equal(decoder.table.count, 2);
    struct str third = encoded(8, "\"c\"");
    assert_true(third.len < first.len - 10);
    assert_int_equal(encoder.sent_count, 1);
    check_round(8, "\"c\"", third);
    assert_int_equal(encoder.sent_count, 0);
    assert_int_equal(encoder.instructions_size, 0);
}

/* What is referred to by a section that was not acknowledged stays; later it is evicted. */
static void test_encoder_evictions(void **state)
{
    char etag[64];
    struct str answer;

    qpack_decoder_free(&decoder);
    qpack_decoder_init(&decoder, 256);
    qpack_encoder_allow(&encoder, 256);
    for (unsigned i = 0; i < 3; i++) {
        encoded(0, "\"a\"");
        carry_instructions();
    }
    assert_int_equal(encoder.sent_count, 1);
    uint64_t oldest = encoder.table.inserted - encoder.table.count;
    for (unsigned i = 0; i < 40; i++) {
        snprintf(etag, sizeof(etag), "\"%u\"", i / 2);
        uint64_t stream = 4 + 4 * i;
        struct str block = encoded(stream, etag);
        carry_instructions();
        check_round(stream, etag, block);
        assert_true(encoder.table.size <= 256);
        assert_int_equal(encoder.table.inserted - encoder.table.count, oldest);
    }
    /* Cancelled: nothing refers to the oldest any more. */
    answer = str_from(etag, qpack_put_cancellation(etag, 0));
    assert_true(qpack_encoder_feed(&encoder, answer));
    assert_int_equal(encoder.sent_count, 0);
    for (unsigned i = 0; i < 40; i++) {
        snprintf(etag, sizeof(etag), "\"x%u\"", i / 2);
        uint64_t stream = 400 + 4 * i;
        struct str block = encoded(stream, etag);
        carry_instructions();
        check_round(stream, etag, block);
    }
    assert_true(encoder.table.inserted - encoder.table.count > oldest);
}

/* A peer without a table gets none; one that acknowledges nothing gets literals after a while. */
static void test_encoder_limits(void **state)
{
    qpack_decoder_free(&decoder);
    qpack_decoder_init(&decoder, 4096);
    for (unsigned i = 0; i < 5; i++) {
        check_round(0, "\"a\"", encoded(0, "\"a\""));
    }
    assert_null(encoder.instructions);
    qpack_encoder_allow(&encoder, 4096);
    for (unsigned i = 0; i < 2 * QPACK_SECTIONS_MAX; i++) {
        encoded(4 * i, "\"a\"");
        carry_instructions();
    }
    assert_int_equal(encoder.sent_count, QPACK_SECTIONS_MAX);
}

static void test_feedback_refused(void **state)
{
    static const struct str wrong[] = {
        STR_INIT("\x84"), /* an acknowledgment of a section that was not sent */
        STR_INIT("\x00"), /* an increment of 0 */
        STR_INIT("\x01"), /* … beyond what was inserted */
        STR_INIT("\x3f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    };

    for (unsigned i = 0; i < COUNT(wrong); i++) {
        assert_false(qpack_encoder_feed(&encoder, wrong[i]));
    }
    assert_true(qpack_encoder_feed(&encoder, STR("\x48"))); /* a stream without references */
    assert_true(qpack_encoder_feed(&encoder, STR("\x7f")));
    assert_true(qpack_encoder_feed(&encoder, STR("\x80")));
    assert_true(qpack_encoder_feed(&encoder, STR("\x01")));
    assert_int_equal(encoder.partial_size, 0);
}

static void test_static_table(void **state)
{
    for (unsigned i = 0; i < QPACK_STATIC_COUNT; i++) {
        const struct qpack_static *entry = qpack_static_get(i);
        unsigned index;

        assert_true(qpack_static_find(entry->name, entry->value, &index));
        assert_int_equal(index, i);
        assert_int_equal(qpack_static_field(i), field_identify(entry->name));
    }
    unsigned index;
    assert_null(qpack_static_get(QPACK_STATIC_COUNT));
    assert_false(qpack_static_find(STR("etag"), STR("\"1\""), &index));
    assert_int_equal(index, 7);
    assert_false(qpack_static_find(STR("x-none"), STR(""), &index));
    assert_int_equal(index, QPACK_STATIC_COUNT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_examples, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_instructions_in_pieces, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_malformed_sections, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_malformed_instructions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_encoder, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_encoder_evictions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_encoder_limits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_feedback_refused, set_up, tear_down),
        cmocka_unit_test(test_static_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
