/* Tests of auth_basic's parts: credentials, the search of a user file, and what verifies a
 * password. */
#include "base/unit.h"

#include <string.h>

#include "http/message/credentials.h"
#include "http/modules/access/auth_basic/password.h"
#include "http/modules/access/auth_basic/user_file.h"

static struct arena arena;
static char room[USER_LINE_MAX];

static int set_up(void **state)
{
    arena_init(&arena);
    return 0;
}

static int tear_down(void **state)
{
    arena_free(&arena);
    return 0;
}

static void credentials_are_user_and_password(void **state)
{
    struct credentials got;

    assert_true(credentials_parse(&arena, STR("Basic dXNlcjpzZTpjcmV0"), &got));
    assert_text(got.user, "user");
    assert_text(got.password, "se:cret");
    assert_true(credentials_parse(&arena, STR("bAsIc   dXNlcjo=  "), &got));
    assert_text(got.user, "user");
    assert_text(got.password, "");
}

static void no_credentials(void **state)
{
    static const char *const values[] = {"",
                                         "Basic",
                                         "Basic ",
                                         "Basicx",
                                         "Bearer dXNlcjpzZWNyZXQ=",
                                         "Basic ****",
                                         "Basic dXNlcg==" /* no colon */,
                                         "Basic OnNlY3JldA==" /* no user */,
                                         "Basic dXNlcgA6eA==" /* a NUL */,
                                         "Basic dXNlcjpzZWNyZXQ"
                                         "=="};
    struct credentials got;

    for (size_t i = 0; i < COUNT(values); i++) {
        assert_false(credentials_parse(&arena, str_of(values[i]), &got));
    }
}

/* What the file has for the user, given in pieces of this size; "-": nothing. */
static struct str look_up(const char *text, const char *user, size_t step)
{
    struct str file = str_of(text);
    struct user_search search = {.user = str_of(user), .buffer = room};

    while (file.len != 0 && !search.is_found) {
        struct str piece = str_head(file, step < file.len ? step : file.len);
        user_search_next(&search, piece);
        file = str_skip(file, piece.len);
    }
    user_search_next(&search, STR_NONE);
    return search.is_found ? search.password : STR("-");
}

static void lines_however_they_are_cut(void **state)
{
    static const char file[] =
        "# a:comment\n\nab:1\na:2:text\r\na:3\nnone\nb:\r\n#c:4\nd\xc3\xa9:5\n:6\nlast:7";

    for (size_t step = 1; step < sizeof(file) + 1; step++) {
        assert_text(look_up(file, "a", step), "2");
        assert_text(look_up(file, "ab", step), "1");
        assert_text(look_up(file, "b", step), "");
        assert_text(look_up(file, "last", step), "7");
        assert_text(look_up(file, "d\xc3\xa9", step), "5");
        assert_text(look_up(file, "none", step), "-");
        assert_text(look_up(file, "#c", step), "-");
        assert_text(look_up(file, "# a", step), "-");
        assert_text(look_up(file, "A", step), "-");
    }
}

static void long_lines_are_passed_over(void **state)
{
    static char file[3 * USER_LINE_MAX];
    size_t at = 0;

    memset(file, 'x', sizeof(file));
    memcpy(file, "a:", 2);
    at = USER_LINE_MAX + 1; /* one too many */
    memcpy(file + at, "\nb:", 3);
    at += 1 + USER_LINE_MAX; /* the longest that is understood */
    memcpy(file + at, "\na:short", 8);
    file[at + 8] = '\0';
    for (size_t step = 1; step < sizeof(file); step = step * 5 + 2) {
        assert_text(look_up(file, "a", step), "short");
        assert_int_equal(look_up(file, "b", step).len, USER_LINE_MAX - 2);
    }
}

static void cheap_passwords(void **state)
{
    static const char *const stored[] = {"{PLAIN}secret", "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=",
                                         "{SSHA}gVK8WC9YyFT1gMsQHTGCgT3sSv5zYWx0"};

    for (size_t i = 0; i < COUNT(stored); i++) {
        assert_false(password_is_costly(str_of(stored[i])));
        assert_true(password_matches(&arena, str_of(stored[i]), STR("secret")));
        assert_false(password_matches(&arena, str_of(stored[i]), STR("secre")));
        assert_false(password_matches(&arena, str_of(stored[i]), STR("")));
    }
    assert_false(password_matches(&arena, STR("{SSHA}AAAA"), STR("")));
    assert_false(password_matches(&arena, STR("{SHA}"), STR("")));
    assert_true(password_matches(&arena, STR("{PLAIN}"), STR("")));
}

static void costly_passwords(void **state)
{
    static const char *const stored[] = {
        "$apr1$saltsalt$LrttParrLPdxvgutaSXWJ0",
        "$1$saltsalt$9xy1btjgzLYfb7hivXtC//",
        "$5$rounds=1000$saltsalt$eKLZU9t9OoPWrqOQsoTIKG0aYkZ5rGOoOQhiIvoSWX2",
        "$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a",
    };

    for (size_t i = 0; i < COUNT(stored); i++) {
        assert_true(password_is_costly(str_of(stored[i])));
        assert_true(password_matches_hash(str_of(stored[i]), STR("secret")));
        assert_false(password_matches_hash(str_of(stored[i]), STR("Secret")));
        assert_false(password_matches_hash(str_of(stored[i]), STR("")));
    }
}

/* Of all lengths on both sides of MD5's 16 and 64 bytes; made by `openssl passwd -apr1`. */
static void apr1_of_all_lengths(void **state)
{
    static const struct {
        size_t len;
        const char *stored;
    } rows[] = {
        {0, "$apr1$a$lsAcX0kKaMIVmrCtUuk5b0"},        {1, "$apr1$saltsalt$DvQTBz1xHwXJP55FHhmOj."},
        {15, "$apr1$.$1w8tSr.BS0wqGmmvG5qBq/"},       {16, "$apr1$sal$etL2SOag5dM6ELsqh1C081"},
        {17, "$apr1$saltsal$mNX4mg3c91BPdNkdKsqbg0"}, {31, "$apr1$12345678$g8ocsTjtE0Xg8ENdOrp840"},
        {32, "$apr1$x$ZYkIB8/pVLz31B4SGcYx./"},       {63, "$apr1$./$L5c5jPVcQ6DCJHZ2WDZX70"},
        {64, "$apr1$zz$iZiEelQyT5hpcwIGerucd/"},      {65, "$apr1$saltsalt$3Sn6LYV7F5Pn58VyS53oN0"},
        {200, "$apr1$long$49tKfWYXqboxZbAdEFxAy."},
    };
    char text[201];

    memset(text, 'p', sizeof(text));
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct str given = {text, rows[i].len};
        assert_true(password_matches_hash(str_of(rows[i].stored), given));
        given.len++;
        assert_false(password_matches_hash(str_of(rows[i].stored), given));
    }
}

static void nobodys_passwords(void **state)
{
    static const char *const stored[] = {"",
                                         "*",
                                         "!",
                                         "*0",
                                         "$apr1$",
                                         "$apr1$$",
                                         "$apr1$x",
                                         "{crypt}x",
                                         "$99$salt$x",
                                         "x",
                                         "$apr1$123456789$LrttParrLPdxvgutaSXWJ0"};

    for (size_t i = 0; i < COUNT(stored); i++) {
        assert_false(password_matches_hash(str_of(stored[i]), STR("secret")));
        assert_false(password_matches_hash(str_of(stored[i]), str_of(stored[i])));
        assert_false(password_matches_hash(str_of(stored[i]), STR("")));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(credentials_are_user_and_password),
        cmocka_unit_test(no_credentials),
        cmocka_unit_test(lines_however_they_are_cut),
        cmocka_unit_test(long_lines_are_passed_over),
        cmocka_unit_test(cheap_passwords),
        cmocka_unit_test(costly_passwords),
        cmocka_unit_test(apr1_of_all_lengths),
        cmocka_unit_test(nobodys_passwords),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
