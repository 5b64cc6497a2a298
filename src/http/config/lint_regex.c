/* Finds regular expressions that may backtrack excessively. */
#include "http/config/lint.h"

enum { DEPTH_MOST = 32 };

/* State of an open group. */
struct group {
    bool has_wild;              /* it has a "." that is repeated without an upper bound */
    bool is_only_loops;         /* the current alternative consists of unbounded repetitions only */
    bool has_loops_alternative; /* an earlier alternative did */
    unsigned atoms;             /* number of atoms in the current alternative */
    bool is_atomic;             /* possessive, or a look-around: no backtracking into it */
};

/* The atom before a quantifier. */
struct atom {
    bool is_dot;
    bool is_group;
    struct group inner; /* if it is a group */
};

static const char *skip_class(const char *at, const char *end)
{
    at++;
    if (at < end && *at == '^') {
        at++;
    }
    if (at < end && *at == ']') {
        at++;
    }
    for (; at < end && *at != ']'; at++) {
        if (*at == '\\' && at + 1 < end) {
            at++;
        }
    }
    return at < end ? at + 1 : end;
}

/* How often the atom may match. */
struct quantifier {
    bool is_unbounded; /* no upper limit, and it backtracks */
    bool is_optional;  /* the atom may be absent, and has an upper limit */
};

/* Parses a quantifier; returns its end, or `at` if there is none. */
static const char *skip_quantifier(const char *at, const char *end, struct quantifier *out)
{
    const char *start = at;

    *out = (struct quantifier){0};
    if (at == end) {
        return at;
    }
    if (*at == '*' || *at == '+') {
        out->is_unbounded = true;
        at++;
    } else if (*at == '?') {
        out->is_optional = true;
        at++;
    } else if (*at == '{' && at + 1 < end && ascii_is_digit((unsigned char) at[1])) {
        const char *close = str_find_char(str_from(at, end), '}');

        if (close == NULL) {
            return start;
        }
        out->is_unbounded = close[-1] == ',';
        out->is_optional = !out->is_unbounded && at[1] == '0';
        at = close + 1;
    } else {
        return at;
    }
    if (at < end && *at == '+') {
        out->is_unbounded = false; /* possessive */
        at++;
    } else if (at < end && *at == '?') {
        at++;
    }
    return at;
}

static void end_alternative(struct group *group)
{
    group->has_loops_alternative |= group->is_only_loops && group->atoms == 1;
    group->is_only_loops = true;
    group->atoms = 0;
}

/* Opens a group; returns the position after "(" and its type. */
static const char *open_group(const char *at, const char *end, struct group *group)
{
    *group = (struct group){.is_only_loops = true};
    if (at + 1 >= end || *at != '?') {
        return at;
    }
    char kind = at[1];

    group->is_atomic = kind == '>' || kind == '=' || kind == '!';
    if (kind == '<' && at + 2 < end && (at[2] == '=' || at[2] == '!')) {
        group->is_atomic = true;
        return at + 3;
    }
    if (kind == 'P' || kind == '<' || kind == '\'') {
        while (at < end && *at != '>' && *at != '\'') {
            at++;
        }
        return at < end ? at + 1 : end;
    }
    while (at < end && *at != ':' && *at != ')' && *at != '>' && *at != '=' && *at != '!') {
        at++;
    }
    return at < end && *at != ')' ? at + 1 : at;
}

/* Parses an atom that is not a group; returns its end. */
static const char *take_atom(const char *at, const char *end, struct atom *atom)
{
    *atom = (struct atom){.is_dot = *at == '.'};
    if (*at == '[') {
        return skip_class(at, end);
    }
    return *at == '\\' && at + 1 < end ? at + 2 : at + 1;
}

/* Adds the atom with its quantifier to the enclosing group. True: the pattern is slow. */
static bool add_atom(struct group *group, const struct atom *atom, struct quantifier quantifier)
{
    const struct group *inner = &atom->inner;
    bool is_unbounded = quantifier.is_unbounded;

    if (atom->is_group && is_unbounded && !inner->is_atomic &&
        (inner->has_loops_alternative || inner->has_wild)) {
        return true;
    }
    if (quantifier.is_optional) { /* treated as absent */
        group->has_wild |= atom->is_group && inner->has_wild && !inner->is_atomic;
        return false;
    }
    group->atoms++;
    if (!is_unbounded) {
        group->is_only_loops = group->is_only_loops && atom->is_group &&
                               inner->has_loops_alternative && !inner->is_atomic;
    }
    group->has_wild |=
        (atom->is_dot && is_unbounded) || (atom->is_group && inner->has_wild && !inner->is_atomic);
    return false;
}

bool lint_is_slow_regex(struct str pattern)
{
    const char *at = pattern.data, *end = pattern.data + pattern.len;
    struct group stack[DEPTH_MOST];
    unsigned depth = 0;

    stack[0] = (struct group){.is_only_loops = true};
    while (at < end) {
        struct atom atom;
        struct quantifier quantifier;

        if (*at == '(') {
            if (++depth == DEPTH_MOST) {
                return false;
            }
            at = open_group(at + 1, end, &stack[depth]);
            continue;
        }
        if (*at == '|') {
            end_alternative(&stack[depth]);
            at++;
            continue;
        }
        if (*at == '^' || *at == '$') { /* matches no text */
            at++;
            continue;
        }
        if (*at == ')') {
            if (depth == 0) {
                return false;
            }
            end_alternative(&stack[depth]);
            atom = (struct atom){.is_group = true, .inner = stack[depth--]};
            at++;
        } else {
            at = take_atom(at, end, &atom);
        }
        at = skip_quantifier(at, end, &quantifier);
        if (add_atom(&stack[depth], &atom, quantifier)) {
            return true;
        }
    }
    return false;
}
