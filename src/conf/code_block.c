/* Blocks of Lua in a configuration: `content_by_lua_block { … }`. Lua's grammar determines where
 * such a block ends. */
#include "conf/internal.h"

bool conf_is_code_block(struct str name)
{
    return str_ends(name, STR("_by_lua_block"));
}

/* The text that is being read. */
struct code {
    const char *at;
    const char *end;
};

static bool starts(const struct code *code, const char *word)
{
    size_t len = strlen(word);

    return (size_t) (code->end - code->at) >= len && memcmp(code->at, word, len) == 0;
}

/* At "[": the number of equal signs if a long bracket opens here ("[[", "[=["), else -1. */
static int long_bracket(const struct code *code)
{
    const char *at = code->at + 1;

    while (at < code->end && *at == '=') {
        at++;
    }
    return at < code->end && *at == '[' ? (int) (at - code->at) - 1 : -1;
}

/* Moves past the bracket that closes a long bracket of this level; false: there is none. */
static bool skip_long(struct code *code, int level)
{
    for (code->at += level + 2; code->at < code->end; code->at++) {
        const char *at = code->at + 1;

        if (*code->at != ']') {
            continue;
        }
        while (at < code->end && *at == '=') {
            at++;
        }
        if (at < code->end && *at == ']' && at - code->at - 1 == level) {
            code->at = at + 1;
            return true;
        }
    }
    return false;
}

static bool skip_quoted(struct code *code)
{
    char quote = *code->at++;

    while (code->at < code->end && *code->at != quote) {
        code->at += *code->at == '\\' && code->at + 1 < code->end ? 2 : 1;
    }
    if (code->at >= code->end) {
        return false;
    }
    code->at++;
    return true;
}

static void skip_line(struct code *code)
{
    while (code->at < code->end && *code->at != '\n') {
        code->at++;
    }
}

enum code_end conf_code_block(const char *at, const char *end, const char **close, int *level)
{
    struct code code = {at, end};
    unsigned depth = 1;

    while (code.at < code.end) {
        bool is_comment = starts(&code, "--");

        if (is_comment) {
            code.at += 2;
            if (code.at == code.end || *code.at != '[' || (*level = long_bracket(&code)) < 0) {
                skip_line(&code);
                continue;
            }
        }
        switch (*code.at) {
        case '[':
            *level = long_bracket(&code);
            if (*level >= 0) {
                *close = code.at;
                if (!skip_long(&code, *level)) {
                    return CODE_LONG_BRACKET;
                }
                continue;
            }
            break;
        case '"':
        case '\'':
            *close = code.at;
            if (!skip_quoted(&code)) {
                return CODE_QUOTE;
            }
            continue;
        case '{':
            depth++;
            break;
        case '}':
            if (--depth == 0) {
                *close = code.at;
                return CODE_CLOSED;
            }
            break;
        default:
            break;
        }
        code.at++;
    }
    return CODE_OPEN;
}
