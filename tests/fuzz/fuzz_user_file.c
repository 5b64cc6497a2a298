/*
 * Fuzz target: Basic credentials, and the user file that is searched for them. The first line is
 * the field, the rest the file: however it is cut, and however long its lines are, the same
 * password is found as by a search of the whole.
 */
#include <stdlib.h>
#include <string.h>

#include "http/message/credentials.h"
#include "http/modules/access/auth_basic/password.h"
#include "http/modules/access/auth_basic/user_file.h"

static char room[USER_LINE_MAX];

/* The rule, told again in the simplest way. */
static bool find_simply(struct str file, struct str user, struct str *password)
{
    while (file.data != NULL) {
        struct str line = str_cut(&file, '\n');
        struct str rest = line;

        if (line.len == 0 || line.data[0] == '#' || line.len > USER_LINE_MAX) {
            continue;
        }
        if (str_equal(str_cut(&rest, ':'), user) && rest.data != NULL) {
            rest = str_cut(&rest, ':');
            *password = str_cut(&rest, '\r');
            return true;
        }
    }
    return false;
}

static bool find(struct str file, size_t step, struct user_search *search)
{
    while (file.len != 0) {
        struct str piece = str_head(file, step < file.len ? step : file.len);

        if (user_search_next(search, piece)) {
            return true;
        }
        file = str_skip(file, piece.len);
    }
    return user_search_next(search, STR_NONE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str file = {(const char *) data, size};
    struct str field = str_cut(&file, '\n');
    struct credentials given = {.user = STR("user"), .password = STR("secret")};
    struct arena arena;
    struct str expected;

    arena_init(&arena);
    if (credentials_parse(&arena, field, &given) &&
        (given.user.len == 0 || memchr(given.user.data, ':', given.user.len) != NULL)) {
        abort();
    }
    file = file.data == NULL ? STR("") : file;
    bool is_there = find_simply(file, given.user, &expected);
    for (size_t step = 1; step < 20000; step = step * 7 + 1) {
        struct user_search search = {.user = given.user, .buffer = room};

        if (find(file, step, &search) != is_there ||
            (is_there && !str_equal(search.password, expected))) {
            abort();
        }
    }
    if (is_there && !password_is_costly(expected)) {
        password_matches(&arena, expected, given.password);
    } else if (is_there && str_starts(expected, STR("$apr1$"))) {
        password_matches_hash(expected, given.password);
    }
    arena_free(&arena);
    return 0;
}
