/* Literal strings that every match of a pattern contains: the cheap test before a regular
   expression. */
#include "conf/regex_internal.h"

#define DEPTH_MAX 16 /* most nested groups that are examined */
#define RUN_MAX 64   /* bytes of one string */

/* Consecutive literal characters of the pattern. */
struct run {
    char text[RUN_MAX];
    unsigned len;
};

/* The part of the pattern that was not read yet. */
struct reader {
    struct arena *arena;
    struct str rest;
    unsigned depth;
    bool has_failed; /* unknown syntax was found: nothing is concluded from the pattern */
};

/* What one alternative requires. */
struct branch {
    struct run head;       /* string that it starts with */
    bool is_exact;         /* head is the whole alternative */
    struct literals needs; /* the best set of strings, one of which every match contains */
};

/* Length of the shortest string. */
static unsigned shortest(const struct literals *set)
{
    unsigned least = set->count == 0 ? 0 : UINT32_MAX;

    for (unsigned i = 0; i < set->count; i++) {
        if (set->items[i].len < least) {
            least = (unsigned) set->items[i].len;
        }
    }
    return least;
}

/* A match must contain a string of each of two sets: takes the set that is expected to be rarer,
 * the one with longer strings, then with fewer. */
static void take_better(struct literals *best, const struct literals *other)
{
    unsigned mine = shortest(best);
    unsigned its = shortest(other);

    if (its >= LITERAL_MIN && (its > mine || (its == mine && other->count < best->count))) {
        *best = *other;
    }
}

static void run_put(struct run *run, char c)
{
    if (run->len < RUN_MAX) {
        run->text[run->len++] = (char) ascii_lower((unsigned char) c);
    }
}

/* Each match contains the run: takes it if it is better. */
static void offer_run(struct reader *reader, struct literals *best, const struct run *run)
{
    if (run->len < LITERAL_MIN) {
        return;
    }
    struct literals one = {.count = 1};
    one.items[0] = arena_dup(reader->arena, (struct str){run->text, run->len});
    take_better(best, &one);
}

static char peek(const struct reader *reader)
{
    return reader->rest.len == 0 ? '\0' : *reader->rest.data;
}

static bool take_char(struct reader *reader, char c)
{
    if (reader->rest.len == 0 || *reader->rest.data != c) {
        return false;
    }
    reader->rest = str_skip(reader->rest, 1);
    return true;
}

static bool reader_fail(struct reader *reader)
{
    reader->has_failed = true;
    return false;
}

/* Skips a character class, after its '['. */
static void skip_class(struct reader *reader)
{
    take_char(reader, '^');
    take_char(reader, ']');
    while (reader->rest.len != 0) {
        char c = *reader->rest.data;
        reader->rest = str_skip(reader->rest, 1);
        if (c == ']') {
            return;
        }
        if (c == '\\' && reader->rest.len != 0) {
            reader->rest = str_skip(reader->rest, 1);
        } else if (c == '[' &&
                   (peek(reader) == ':' || peek(reader) == '.' || peek(reader) == '=')) {
            const char *end = str_find(reader->rest, STR(":]"));
            if (peek(reader) != ':' || end == NULL || end == reader->rest.data) {
                reader_fail(reader);
                return;
            }
            reader->rest = str_skip(reader->rest, (size_t) (end - reader->rest.data) + 2);
        }
    }
    reader_fail(reader);
}

enum repetition { ONCE, AT_LEAST_ONCE, MAYBE };

/* Reads a quantifier, if there is one. */
static enum repetition read_quantifier(struct reader *reader)
{
    enum repetition result;

    switch (peek(reader)) {
    case '?':
    case '*':
        result = MAYBE;
        break;
    case '+':
        result = AT_LEAST_ONCE;
        break;
    case '{': {
        const char *end = str_find_char(reader->rest, '}');
        if (end == NULL || reader->rest.len < 2 ||
            !ascii_is_digit((unsigned char) reader->rest.data[1])) {
            reader_fail(reader);
            return MAYBE;
        }
        /*
         * "{0" may mean no repetition. If the braces are not a quantifier, to treat them as one is
         * safe.
         */
        result = reader->rest.data[1] == '0' ? MAYBE : AT_LEAST_ONCE;
        for (const char *at = reader->rest.data + 1; at < end; at++) {
            if (!ascii_is_digit((unsigned char) *at) && *at != ',') {
                reader_fail(reader);
            }
        }
        reader->rest = str_from(end, reader->rest.data + reader->rest.len);
        break;
    }
    default:
        return ONCE;
    }
    reader->rest = str_skip(reader->rest, 1);
    if (!take_char(reader, '?')) {
        take_char(reader, '+');
    }
    if (strchr("?*+", peek(reader)) != NULL && peek(reader) != '\0') {
        reader_fail(reader);
    }
    return result;
}

/* Reads what follows "(?". True for a group like any other; false when it is not understood. */
static bool read_group_kind(struct reader *reader, bool *is_assertion, bool *is_setting)
{
    if (take_char(reader, ':') || take_char(reader, '>') || take_char(reader, '|')) {
        return true;
    }
    if (take_char(reader, '=') || take_char(reader, '!')) {
        *is_assertion = true;
        return true;
    }
    take_char(reader, 'P');
    char close = peek(reader) == '\'' ? '\'' : '>';
    if (take_char(reader, '<') || take_char(reader, '\'')) {
        if (take_char(reader, '=') || take_char(reader, '!')) {
            *is_assertion = true;
            return true;
        }
        const char *end = str_find_char(reader->rest, close);
        if (end == NULL) {
            return reader_fail(reader);
        }
        reader->rest = str_skip(reader->rest, (size_t) (end - reader->rest.data) + 1);
        return true;
    }
    while (peek(reader) == 'i' || peek(reader) == 'm' || peek(reader) == 's' ||
           peek(reader) == '-') {
        reader->rest = str_skip(reader->rest, 1);
    }
    if (take_char(reader, ':')) {
        return true;
    }
    if (peek(reader) == ')') {
        *is_setting = true;
        return true;
    }
    return reader_fail(reader);
}

static bool read_branch(struct reader *reader, struct branch *branch);

/*
 * Reads alternatives up to ')' or the end. `before` is the string before them. *needs gets a set
 * for all alternatives together; if there is only one and it is exact, *is_only is true and *only
 * is its string.
 */
static void read_alternatives(struct reader *reader, const struct run *before,
                              struct literals *needs, struct run *only, bool *is_only)
{
    struct branch branch;
    unsigned branches = 0;
    bool is_full = false;

    needs->count = 0;
    *is_only = false;
    do {
        if (!read_branch(reader, &branch)) {
            return;
        }
        struct run joined = *before;
        for (unsigned i = 0; i < branch.head.len; i++) {
            run_put(&joined, branch.head.text[i]);
        }
        offer_run(reader, &branch.needs, &joined);
        branches++;
        if (branch.needs.count == 0 || needs->count + branch.needs.count > LITERALS_MAX) {
            is_full = true;
        }
        for (unsigned i = 0; !is_full && i < branch.needs.count; i++) {
            needs->items[needs->count++] = branch.needs.items[i];
        }
    } while (take_char(reader, '|'));
    if (is_full) {
        needs->count = 0;
    }
    if (branches == 1 && branch.is_exact) {
        *is_only = true;
        *only = branch.head;
    }
}

/* Reads a group, after its '('. */
static void read_group(struct reader *reader, struct branch *branch, struct run *run,
                       bool *is_at_head)
{
    bool is_assertion = false;
    bool is_setting = false;
    struct literals needs;
    struct run only;
    bool is_only;
    static const struct run nothing;

    if (++reader->depth > DEPTH_MAX || peek(reader) == '*') {
        reader_fail(reader);
        return;
    }
    if (take_char(reader, '?') && !read_group_kind(reader, &is_assertion, &is_setting)) {
        return;
    }
    read_alternatives(reader, is_assertion ? &nothing : run, &needs, &only, &is_only);
    if (reader->has_failed || !take_char(reader, ')')) {
        reader_fail(reader);
        return;
    }
    reader->depth--;
    enum repetition repetition = read_quantifier(reader);
    if (is_setting) {
        return;
    }
    if (repetition != MAYBE && !is_assertion) {
        take_better(&branch->needs, &needs);
    }
    if (repetition == ONCE && is_only && !is_assertion) {
        for (unsigned i = 0; i < only.len; i++) {
            run_put(run, only.text[i]);
        }
        return;
    }
    if (*is_at_head) {
        branch->head = *run;
        *is_at_head = false;
    }
    offer_run(reader, &branch->needs, run);
    run->len = 0;
}

/* Reads one alternative: up to '|', ')' or the end. False when it is not understood. */
static bool read_branch(struct reader *reader, struct branch *branch)
{
    struct run run = {.len = 0};
    bool is_at_head = true;

    memset(branch, 0, sizeof(*branch));
    while (reader->rest.len != 0 && !reader->has_failed) {
        char c = *reader->rest.data;
        bool is_literal = false;

        if (c == '|' || c == ')') {
            break;
        }
        reader->rest = str_skip(reader->rest, 1);
        if (c == '(') {
            read_group(reader, branch, &run, &is_at_head);
            continue;
        }
        if (c == '[') {
            skip_class(reader);
        } else if (c == '\\') {
            c = peek(reader);
            if (reader->rest.len == 0 ||
                (strchr("dDwWsSbBAzZKhHvVRtnrfea", c) == NULL &&
                 (ascii_is_digit((unsigned char) c) || (ascii_lower((unsigned char) c) >= 'a' &&
                                                        ascii_lower((unsigned char) c) <= 'z')))) {
                return reader_fail(reader);
            }
            is_literal = strchr("dDwWsSbBAzZKhHvVRtnrfea", c) == NULL || c == '\0';
            reader->rest = str_skip(reader->rest, 1);
        } else if (c == '*' || c == '+' || c == '?' || c == '{') {
            return reader_fail(reader);
        } else {
            is_literal = c != '.' && c != '^' && c != '$';
        }
        enum repetition repetition = read_quantifier(reader);
        if (is_literal && repetition != MAYBE) {
            run_put(&run, c);
        }
        if (is_literal && repetition == ONCE && run.len < RUN_MAX) {
            continue;
        }
        if (is_at_head) {
            branch->head = run;
            is_at_head = false;
        }
        offer_run(reader, &branch->needs, &run);
        run.len = 0;
    }
    if (is_at_head) {
        branch->head = run;
        branch->is_exact = run.len < RUN_MAX;
    }
    offer_run(reader, &branch->needs, &run);
    return !reader->has_failed;
}

void literals_of_pattern(struct arena *arena, struct str pattern, struct literals *out)
{
    struct reader reader = {.arena = arena, .rest = pattern};
    struct run nothing = {.len = 0};
    struct run only;
    bool is_only;

    read_alternatives(&reader, &nothing, out, &only, &is_only);
    if (reader.has_failed || reader.rest.len != 0) {
        out->count = 0;
    }
}
