/* Tests of JSON as it is read and written. */
#include "base/unit.h"

#include "base/json.h"

static struct arena arena;

static struct json_text text_of(const char *text)
{
    return (struct json_text){text, text + strlen(text), &arena};
}

static bool string_is(const char *text, struct str wanted)
{
    struct json_text reading = text_of(text);
    struct str out;

    return json_take_string(&reading, &out) && json_is_over(&reading) && str_equal(out, wanted);
}

static void strings(void **state)
{
    assert_true(string_is(" \"a b\" ", STR("a b")));
    assert_true(string_is("\"\"", STR("")));
    assert_true(string_is("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", STR("\"\\/\b\f\n\r\t")));
    assert_true(string_is("\"\\u0041\\u00e4\\u20AC\\ud83d\\ude00\"",
                          STR("A\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80")));
    assert_true(string_is("\"\\u0000x\"", STR("\0x")));
    const char *const wrong[] =
        {"",        "a",         "\"",          "\"a",         "\"a\\",       "\"a\\\"",
         "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "\"\\ud800\"", "\"\\udc00\"", "\"\\ud800\\u0041\"",
         "\"\n\"",  "\"\xff\"",  "\"\xc3\""};
    for (unsigned i = 0; i < COUNT(wrong); i++) {
        struct json_text reading = text_of(wrong[i]);
        struct str out;
        assert_false(json_take_string(&reading, &out));
    }
}

static void numbers(void **state)
{
    const char *const wrong[] = {"", "-1", "01", "1.5", "1e3", "99999999999999999999", "x"};
    struct json_text reading = text_of(" 1207,");
    uint64_t number;

    assert_true(json_take_number(&reading, &number) && number == 1207);
    assert_true(json_skip(&reading, ','));
    reading = text_of("0");
    assert_true(json_take_number(&reading, &number) && number == 0);
    for (unsigned i = 0; i < COUNT(wrong); i++) {
        reading = text_of(wrong[i]);
        assert_false(json_take_number(&reading, &number));
    }
}

/* Members that an object of strings has; -1: it is malformed. */
static int members_of(const char *text)
{
    struct json_text reading = text_of(text);
    bool is_first = true, is_end = false;
    struct str name, value;
    int count = 0;

    if (!json_skip(&reading, '{')) {
        return -1;
    }
    while (json_next_member(&reading, &is_first, &name, &is_end)) {
        if (is_end) {
            return json_is_over(&reading) ? count : -1;
        }
        if (!json_take_string(&reading, &value)) {
            return -1;
        }
        count++;
    }
    return -1;
}

static void objects(void **state)
{
    assert_int_equal(members_of("{}"), 0);
    assert_int_equal(members_of(" { \"a\" : \"b\" , \"c\":\"d\" } "), 2);
    const char *const wrong[] = {"{",
                                 "{,}",
                                 "{\"a\"}",
                                 "{\"a\":\"b\",}",
                                 "{\"a\":\"b\" \"c\":\"d\"}",
                                 "{\"a\":\"b\"}}",
                                 "{a:\"b\"}",
                                 "[]"};
    for (unsigned i = 0; i < COUNT(wrong); i++) {
        assert_int_equal(members_of(wrong[i]), -1);
    }
}

static void kinds(void **state)
{
    const char *const texts[] = {" {", "[", "\"", "7", "-", "t", "f", "n", "x", ""};
    const char wanted[] = {'{', '[', '"', '0', '0', 't', 'f', 'n', 0, 0};

    for (unsigned i = 0; i < COUNT(texts); i++) {
        struct json_text reading = text_of(texts[i]);
        assert_int_equal(json_peek(&reading), wanted[i]);
    }
}

static void a_document(void **state)
{
    struct buf out = {0};
    struct json json = {.out = &out, .arena = &arena};

    json_open(&json, STR_NONE, '{');
    json_put_number(&json, "n", 7);
    json_put_string(&json, "s", STR("a\"\xff\n"));
    json_open(&json, STR("l"), '[');
    json_put_flag(&json, "", true);
    json_put_flag(&json, "", false);
    json_close(&json, ']');
    json_open(&json, STR("o"), '{');
    json_close(&json, '}');
    json_close(&json, '}');
    struct str text = buf_str(&out);
    assert_true(str_is(text, "{\"n\":7,\"s\":\"a\\\"\\n\",\"l\":[true,false],\"o\":{}}"));
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(strings), cmocka_unit_test(numbers),
                                       cmocka_unit_test(objects), cmocka_unit_test(kinds),
                                       cmocka_unit_test(a_document)};

    arena_init(&arena);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    arena_free(&arena);
    return failed;
}
