/* Tests of what dav_ext reads from clients, and of its locks. */
#include "base/unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/shm.h"
#include "http/modules/content/dav_ext/bodies.h"
#include "http/modules/content/dav_ext/if_header.h"
#include "http/modules/content/dav_ext/locks.h"

static struct arena arena;
static struct zone zone;
static struct shm_table *table;

#define ZONE_SIZE (256 * 1024)

static int set_up(void **state)
{
    arena_init(&arena);
    zone = (struct zone){.name = STR("z"), .size = ZONE_SIZE, .memory = shm_map(ZONE_SIZE)};
    zone.slab = slab_init(zone.memory, ZONE_SIZE);
    table = shm_table_of(&zone, sizeof(struct lock_record), 0);
    return table == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    shm_unmap(zone.memory, ZONE_SIZE);
    arena_free(&arena);
    return 0;
}

/* ---- If ---- */

/* "(" for a list, the condition with its sign, ")", "." at the end or "!". */
static const char *read_if(const char *text)
{
    static char out[512];
    struct if_reader reader;
    enum if_event event;
    size_t used = 0, len = strlen(text);
    char *copy = malloc(len + 1);

    memcpy(copy, text, len);
    if_begin(&reader, (struct str){copy, len});
    out[0] = '\0';
    do {
        event = if_next(&reader);
        if (event == IF_LIST) {
            used += (size_t) snprintf(out + used, sizeof(out) - used, "%.*s(",
                                      STR_ARG(reader.resource));
        } else if (event == IF_CONDITION) {
            used += (size_t) snprintf(out + used, sizeof(out) - used, "%s%s%.*s,",
                                      reader.is_not ? "-" : "", reader.is_etag ? "E" : "T",
                                      STR_ARG(reader.value));
        } else if (event == IF_LIST_END) {
            used += (size_t) snprintf(out + used, sizeof(out) - used, ")");
        }
    } while (event != IF_END && event != IF_ERROR);
    snprintf(out + used, sizeof(out) - used, event == IF_END ? "." : "!");
    free(copy);
    return out;
}

static void conditions(void **state)
{
    const char *const good[][2] = {
        {"(<a>)", "(Ta,)."},
        {" ( <a> [\"e\"] ) ", "(Ta,E\"e\",)."},
        {"(Not <a>)(NOT[W/\"x\"] <b>)", "(-Ta,)(-EW/\"x\",Tb,)."},
        {"</r> (<a>) (<b>) <http://h/s> (<c>)", "/r(Ta,)/r(Tb,)http://h/s(Tc,)."},
    };
    const char *const bad[] = {"",
                               "x",
                               "(",
                               "()",
                               "(<a>",
                               "(<a)",
                               "(<>)",
                               "([])",
                               "(Not)",
                               "(Not )",
                               "<r>",
                               "<r> <s> (<a>)",
                               "(<a>) <r> (<b>)",
                               "<r> (<a>) <s>",
                               "(<a>) x",
                               "(x)",
                               "([a)",
                               "<> (<a>)"};

    for (size_t i = 0; i < COUNT(good); i++) {
        assert_string_equal(read_if(good[i][0]), good[i][1]);
    }
    for (size_t i = 0; i < COUNT(bad); i++) {
        const char *got = read_if(bad[i]);
        if (got[strlen(got) - 1] != '!') {
            fail_msg("\"%s\" was read as %s", bad[i], got);
        }
    }
}

/* ---- bodies ---- */

static void what_propfind_asks_for(void **state)
{
    struct wanted wanted;

    assert_true(propfind_parse(&arena, STR_NONE, &wanted));
    assert_int_equal(wanted.properties, PROPERTY_ALL);
    assert_true(propfind_parse(
        &arena,
        STR("<a:propfind xmlns:a='DAV:'><a:prop><a:getetag/><x xmlns='u:'>y<z/></x><a:other/>"
            "</a:prop></a:propfind>"),
        &wanted));
    assert_int_equal(wanted.properties, PROPERTY_BIT(PROPERTY_GETETAG));
    assert_int_equal(wanted.unknown.count, 2);
    const struct xml_name *names = wanted.unknown.items;
    assert_text(names[0].space, "u:");
    assert_text(names[0].local, "x");
    assert_text(names[1].local, "other");
    assert_true(
        propfind_parse(&arena, STR("<propfind xmlns='DAV:'><propname/></propfind>"), &wanted));
    assert_true(wanted.names_only);
    assert_true(
        propfind_parse(&arena, STR(" <propfind xmlns='DAV:'> <allprop/> </propfind> "), &wanted));
    assert_int_equal(wanted.properties, PROPERTY_ALL);
    assert_false(propfind_parse(&arena, STR("<propfind/>"), &wanted));
    assert_false(propfind_parse(&arena, STR("<propfind xmlns='DAV:'><prop>"), &wanted));
    assert_false(propfind_parse(&arena, STR("<propfind xmlns='DAV:'/><x/>"), &wanted));
    assert_false(propfind_parse(&arena, STR("junk"), &wanted));
}

static void too_many_properties_are_refused(void **state)
{
    struct wanted wanted;
    char text[4096];
    size_t used = (size_t) snprintf(text, sizeof(text), "<propfind xmlns='DAV:'><prop>");

    for (int i = 0; i <= WANTED_UNKNOWN_MAX; i++) {
        used += (size_t) snprintf(text + used, sizeof(text) - used, "<p%d/>", i);
    }
    snprintf(text + used, sizeof(text) - used, "</prop></propfind>");
    assert_false(propfind_parse(&arena, str_of(text), &wanted));
}

#define LOCKINFO(scope, type, owner)                                                               \
    STR("<D:lockinfo xmlns:D='DAV:'><D:lockscope>" scope "</D:lockscope><D:locktype>" type         \
        "</D:locktype>" owner "</D:lockinfo>")

static void what_lock_wants(void **state)
{
    struct lock_info info;

    assert_true(lockinfo_parse(&arena, LOCKINFO("<D:exclusive/>", "<D:write/>", ""), &info));
    assert_false(info.is_shared);
    assert_true(lockinfo_parse(&arena,
                               LOCKINFO("<D:shared/>", "<D:write/>",
                                        "<D:owner> <D:href>a&amp;b</D:href>\n</D:owner>"),
                               &info));
    assert_true(info.is_shared);
    assert_text(info.owner, "a&b");
    assert_false(lockinfo_parse(&arena, LOCKINFO("", "<D:write/>", ""), &info));
    assert_false(lockinfo_parse(&arena, LOCKINFO("<D:exclusive/>", "", ""), &info));
    assert_false(lockinfo_parse(&arena, STR(""), &info));
    assert_false(lockinfo_parse(&arena, STR("<lockinfo/>"), &info));
}

/* ---- locks ---- */

static struct lock lock_of(const char *path, bool is_deep, bool is_shared)
{
    return (struct lock){.path = str_of(path),
                         .uri = STR("/u"),
                         .timeout_ms = 1000,
                         .is_deep = is_deep,
                         .is_shared = is_shared};
}

static bool allows(const char *path, bool is_tree, bool is_member, const struct lock *known)
{
    struct vec tokens = {0};
    const struct lock_target target = {str_of(path), is_tree, is_member};

    if (known != NULL) {
        *vec_add(&tokens, &arena, struct lock_token) = known->token;
    }
    return lock_allows(table, &target, &tokens, 100);
}

static void tokens(void **state)
{
    struct lock lock = lock_of("/a", false, false);
    struct lock_token token;

    assert_int_equal(lock_add(table, &lock, 0), LOCK_DONE);
    struct str text = lock_token_text(&arena, &lock.token);
    assert_int_equal(text.len, 45);
    assert_true(lock_token_parse(text, &token));
    assert_memory_equal(token.bytes, lock.token.bytes, LOCK_TOKEN_SIZE);
    assert_false(lock_token_parse(str_head(text, 44), &token));
    assert_false(lock_token_parse(STR("urn:uuid:"), &token));
    assert_false(lock_token_parse(STR("urn:uuid:0000000000000000-0000-0000-0000-00000"), &token));
    assert_false(lock_token_parse(arena_concat(&arena, text, STR("0")), &token));
    assert_false(lock_token_parse(STR("DAV:no-lock"), &token));
}

static void locks_meet(void **state)
{
    struct lock a = lock_of("/d/a", false, false);
    struct lock deep = lock_of("/d", true, false);
    struct lock shallow = lock_of("/d", false, false);
    struct lock again = lock_of("/d/a", false, false);
    struct lock like = lock_of("/d/ab", true, false);

    assert_int_equal(lock_add(table, &a, 0), LOCK_DONE);
    assert_int_equal(lock_add(table, &again, 0), LOCK_CONFLICT);
    assert_int_equal(lock_add(table, &deep, 0), LOCK_CONFLICT);
    assert_int_equal(lock_add(table, &shallow, 0), LOCK_DONE);
    assert_int_equal(lock_add(table, &like, 0), LOCK_DONE);
    assert_int_equal(lock_remove(table, &a.token, STR("/d/b"), 0), LOCK_UNKNOWN);
    assert_int_equal(lock_remove(table, &a.token, STR("/d/a"), 0), LOCK_DONE);
    assert_int_equal(lock_add(table, &again, 0), LOCK_DONE);
}

static void shared_locks_stand_beside_each_other(void **state)
{
    struct lock one = lock_of("/s", true, true);
    struct lock two = lock_of("/s/x", false, true);
    struct lock exclusive = lock_of("/s/y", false, false);
    struct vec list = {0};

    assert_int_equal(lock_add(table, &one, 0), LOCK_DONE);
    assert_int_equal(lock_add(table, &two, 0), LOCK_DONE);
    assert_int_equal(lock_add(table, &exclusive, 0), LOCK_CONFLICT);
    assert_false(allows("/s/x", false, false, NULL));
    assert_true(allows("/s/x", false, false, &one));
    assert_true(allows("/s/x", false, false, &two));
    lock_list(table, &(struct lock_view){&arena, STR("/s/x"), 100}, NULL, &list);
    assert_int_equal(list.count, 2);
}

static void what_locks_forbid(void **state)
{
    struct lock file = lock_of("/d/f", false, false);
    struct lock member = lock_of("/m", false, false);

    assert_int_equal(lock_add(table, &file, 0), LOCK_DONE);
    assert_int_equal(lock_add(table, &member, 0), LOCK_DONE);
    assert_false(allows("/d/f", false, false, NULL));
    assert_true(allows("/d/f", false, false, &file));
    assert_false(allows("/d/f", false, false, &member));
    assert_true(allows("/d", false, false, NULL));
    assert_false(allows("/d", true, false, NULL));
    assert_true(allows("/d", true, false, &file));
    assert_true(allows("/m/x", false, false, NULL));
    assert_false(allows("/m/x", false, true, NULL));
    assert_true(allows("/m/x/y", false, true, NULL));
    lock_forget(table, STR("/d"));
    assert_true(allows("/d/f", true, true, NULL));
}

static void locks_expire_and_are_refreshed(void **state)
{
    struct lock lock = lock_of("/a", false, false);
    struct lock other = lock_of("/a", false, false);

    assert_int_equal(lock_add(table, &lock, 0), LOCK_DONE);
    lock.timeout_ms = 2000;
    assert_int_equal(lock_refresh(table, &arena, &lock, 900), LOCK_DONE);
    assert_int_equal(lock.timeout_ms, 2000);
    assert_text(lock.uri, "/u");
    assert_true(lock_holds(table, &lock.token, STR("/a"), 2899));
    assert_false(lock_holds(table, &lock.token, STR("/a"), 2900));
    assert_int_equal(lock_refresh(table, &arena, &lock, 2900), LOCK_UNKNOWN);
    assert_int_equal(lock_add(table, &other, 2900), LOCK_DONE);
}

static void a_zone_that_is_full_says_so_and_recovers(void **state)
{
    char name[32];
    unsigned count = 0;
    enum lock_result result;

    do {
        snprintf(name, sizeof(name), "/f%u", count);
        struct lock lock = lock_of(arena_cstr(&arena, str_of(name)), false, false);
        result = lock_add(table, &lock, 0);
        count += result == LOCK_DONE;
    } while (result == LOCK_DONE);
    assert_int_equal(result, LOCK_FULL);
    assert_true(count > 50);
    struct lock later = lock_of("/later", false, false);
    assert_int_equal(lock_add(table, &later, 1001), LOCK_DONE);
    char *long_path = arena_text(&arena, LOCK_TEXT_MAX + 1);
    memset(long_path, 'x', LOCK_TEXT_MAX + 1);
    later.path = (struct str){long_path, LOCK_TEXT_MAX + 1};
    assert_int_equal(lock_add(table, &later, 1001), LOCK_FULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(conditions),
        TEST(what_propfind_asks_for),
        TEST(too_many_properties_are_refused),
        TEST(what_lock_wants),
        TEST(tokens),
        TEST(locks_meet),
        TEST(shared_locks_stand_beside_each_other),
        TEST(what_locks_forbid),
        TEST(locks_expire_and_are_refreshed),
        TEST(a_zone_that_is_full_says_so_and_recovers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
