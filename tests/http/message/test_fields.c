/* Tests of header fields: known names, lists, joined values. */
#include "base/unit.h"

#include "http/message/fields.h"

static struct arena arena;
static struct fields fields;

static int set_up(void **state)
{
    arena_init(&arena);
    memset(&fields, 0, sizeof(fields));
    return 0;
}

static int tear_down(void **state)
{
    arena_free(&arena);
    return 0;
}

static void add(const char *name, const char *value)
{
    fields_add(&fields, &arena, str_of(name), str_of(value));
}

static void every_known_name_is_found_in_any_case(void **state)
{
    for (unsigned id = 1; id < FIELD_COUNT; id++) {
        char upper[64];
        char lower[64];
        struct str name = field_names[id];

        assert_true(name.len != 0 && name.len < sizeof(upper));
        for (size_t i = 0; i < name.len; i++) {
            unsigned char c = (unsigned char) name.data[i];
            lower[i] = (char) ascii_lower(c);
            upper[i] = (char) (c >= 'a' && c <= 'z' ? c - 32 : c);
        }
        assert_int_equal(field_identify(name), id);
        assert_int_equal(field_identify((struct str){upper, name.len}), id);
        assert_int_equal(field_identify((struct str){lower, name.len}), id);
    }
}

static void other_names_are_not(void **state)
{
    static const char *const others[] =
        {"", "x", "Hos", "Hostt", "Hast", "X-Host", "Content_Length", "Content-Lengtg", "TF"};

    for (size_t i = 0; i < COUNT(others); i++) {
        assert_int_equal(field_identify(str_of(others[i])), FIELD_OTHER);
    }
}

static void in_order_of_appearance(void **state)
{
    add("Host", "a");
    add("X", "b");
    add("host", "c");
    assert_int_equal(fields.count, 3);
    assert_text(fields_get(&fields, FIELD_HOST)->value, "a");
    assert_null(fields_get(&fields, FIELD_RANGE));
    assert_text(fields_find(&fields, STR("x"))->value, "b");
    assert_text(fields_find(&fields, STR("HOST"))->value, "a");
    assert_null(fields_find(&fields, STR("y")));
}

static void a_removed_one_is_not_seen(void **state)
{
    struct str joined;

    add("ETag", "a");
    add("ETag", "b");
    fields.items[0].is_removed = true;
    assert_text(fields_get(&fields, FIELD_ETAG)->value, "b");
    assert_text(fields_find(&fields, STR("etag"))->value, "b");
    assert_true(fields_joined(&fields, &arena, FIELD_ETAG, &joined));
    assert_text(joined, "b");
    fields.items[1].is_removed = true;
    assert_null(fields_get(&fields, FIELD_ETAG));
    assert_null(fields_find(&fields, STR("etag")));
    assert_false(fields_joined(&fields, &arena, FIELD_ETAG, &joined));
    assert_false(fields_by_variable_name(&fields, &arena, STR("etag"), &joined));
}

static void setting_replaces_all(void **state)
{
    fields_set(&fields, &arena, FIELD_EXPIRES, STR("0"));
    assert_int_equal(fields.count, 1);
    assert_text(fields.items[0].name, "Expires");
    add("Expires", "1");
    add("X", "y");
    fields_set(&fields, &arena, FIELD_EXPIRES, STR("2"));
    assert_text(fields_get(&fields, FIELD_EXPIRES)->value, "2");
    assert_true(fields.items[1].is_removed);
    assert_false(fields.items[2].is_removed);
    fields_set(&fields, &arena, FIELD_EXPIRES, STR_NONE);
    assert_null(fields_get(&fields, FIELD_EXPIRES));
    fields_set(&fields, &arena, FIELD_VARY, STR_NONE);
    assert_int_equal(fields.count, 3);
    fields_set(&fields, &arena, FIELD_EXPIRES, STR("3"));
    assert_text(fields_get(&fields, FIELD_EXPIRES)->value, "3");
}

static void joined_values(void **state)
{
    struct str joined = STR("untouched");

    assert_false(fields_joined(&fields, &arena, FIELD_VIA, &joined));
    assert_text(joined, "untouched");
    add("Via", "a");
    assert_true(fields_joined(&fields, &arena, FIELD_VIA, &joined));
    assert_text(joined, "a");
    add("Cookie", "c=d");
    add("via", "b");
    add("cookie", "e=f");
    assert_true(fields_joined(&fields, &arena, FIELD_VIA, &joined));
    assert_text(joined, "a, b");
    assert_true(fields_joined(&fields, &arena, FIELD_COOKIE, &joined));
    assert_text(joined, "c=d; e=f");
}

/* They were joined one by one, each time anew: a hundred kilobytes took hundreds of megabytes. */
static void many_values_take_their_room_once(void **state)
{
    struct str joined;

    for (int i = 0; i < 1000; i++) {
        add("Cookie", "abcdefghij");
        add("X-Other", "abcdefghij");
    }
    size_t before = arena.used;
    assert_true(fields_joined(&fields, &arena, FIELD_COOKIE, &joined));
    assert_int_equal(joined.len, 12 * 1000 - 2);
    assert_text(str_head(joined, 22), "abcdefghij; abcdefghij");
    assert_true(fields_by_variable_name(&fields, &arena, STR("x_other"), &joined));
    assert_int_equal(joined.len, 12 * 1000 - 2);
    assert_text(str_skip(joined, joined.len - 14), "ij, abcdefghij");
    assert_true(arena.used - before < 40000);
}

static void names_of_variables(void **state)
{
    struct str value;

    add("X-Forwarded-For", "a");
    add("x_forwarded-for", "b");
    add("Cookie", "c");
    add("COOKIE", "d");
    assert_true(fields_by_variable_name(&fields, &arena, STR("x_forwarded_for"), &value));
    assert_text(value, "a, b");
    assert_true(fields_by_variable_name(&fields, &arena, STR("cookie"), &value));
    assert_text(value, "c; d");
    assert_false(fields_by_variable_name(&fields, &arena, STR("x_forwarded"), &value));
    assert_false(fields_by_variable_name(&fields, &arena, STR(""), &value));
}

/* The places of the first of each kind are kept for 255 fields only. */
static void beyond_the_255th(void **state)
{
    struct str joined;

    for (unsigned i = 0; i < 300; i++) {
        add("X", "y");
    }
    assert_null(fields_get(&fields, FIELD_HOST));
    assert_false(fields_joined(&fields, &arena, FIELD_HOST, &joined));
    add("Host", "a");
    add("Host", "b");
    assert_text(fields_get(&fields, FIELD_HOST)->value, "a");
    assert_true(fields_joined(&fields, &arena, FIELD_HOST, &joined));
    assert_text(joined, "a, b");
    fields_set(&fields, &arena, FIELD_HOST, STR("c"));
    assert_text(fields_get(&fields, FIELD_HOST)->value, "c");
    assert_int_equal(fields.count, 302);
}

static void at_the_255th(void **state)
{
    for (unsigned i = 0; i < 254; i++) {
        add("X", "y");
    }
    add("Host", "a");
    assert_text(fields_get(&fields, FIELD_HOST)->value, "a");
    add("Range", "b");
    assert_text(fields_get(&fields, FIELD_RANGE)->value, "b");
    fields_get(&fields, FIELD_HOST)->is_removed = true;
    assert_null(fields_get(&fields, FIELD_HOST));
}

#define fields_test(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        fields_test(every_known_name_is_found_in_any_case),
        fields_test(other_names_are_not),
        fields_test(in_order_of_appearance),
        fields_test(a_removed_one_is_not_seen),
        fields_test(setting_replaces_all),
        fields_test(joined_values),
        fields_test(many_values_take_their_room_once),
        fields_test(names_of_variables),
        fields_test(beyond_the_255th),
        fields_test(at_the_255th),
    };

    return cmocka_run_group_tests_name("http/fields", tests, NULL, NULL);
}
