/* Trims JavaScript. The meaning of white space depends on what a '/' is, which depends on the code
 * before it. If that is uncertain, and after template literals, the remaining script stays as it
 * is. */
#include "http/modules/filters/trim/trimmer.h"

static bool is_word(char c)
{
    unsigned char letter = ascii_lower((unsigned char) c);

    return (letter >= 'a' && letter <= 'z') || ascii_is_digit(letter) || c == '_' || c == '$' ||
           letter >= 0x80;
}

/* After these, white space has no meaning, and a '/' begins a regular expression. */
static bool opens(char c)
{
    return c != '\0' && memchr("(,=:[!&|?;>~*{", c, 14) != NULL;
}

/* ---- code ---- */

static void note_word(struct trimmer *trimmer, char c)
{
    if (!is_word(c)) {
        trimmer->word_length = 0;
        return;
    }
    if (trimmer->pending != '\0' || !is_word(trimmer->before)) {
        trimmer->word_length = 0;
    }
    if (trimmer->word_length < sizeof(trimmer->word)) {
        trimmer->word[trimmer->word_length++] = c;
    }
}

/* Would these two bytes, without the comment between them, form another token or begin a
 * comment? */
static bool would_fuse(char before, char c)
{
    if (is_word(before) || before == '/') {
        return is_word(c) || c == '\\' || (before == '/' && (c == '/' || c == '*')) ||
               (ascii_is_digit((unsigned char) before) && c == '.');
    }
    return before == '.' ? is_word(c) || c == '.'
                         : before != '\0' && strchr("+-<>=!&|*%^?", before) != NULL && c != '\0' &&
                               strchr("+-<>=!&|*?.", c) != NULL;
}

/* Writes a byte of code, after white space if it is needed. */
static void put_code(struct trimmer *trimmer, char c)
{
    if (trimmer->is_glued && trimmer->pending == '\0' && would_fuse(trimmer->before, c)) {
        trimmer->pending = ' ';
    }
    trimmer->is_glued = false;
    note_word(trimmer, c);
    if (trimmer->pending != '\0' && trimmer->before != '\0' && !opens(trimmer->before)) {
        trimmer_put(trimmer, trimmer->pending);
    }
    trimmer->is_doubled = trimmer->pending == '\0' && trimmer->before == c;
    trimmer->pending = '\0';
    trimmer->before = c;
    trimmer_put(trimmer, c);
}

/* Of several white space characters the first is kept; but a line end, which may end a statement,
 * always wins. */
static void note_blank(struct trimmer *trimmer, char c)
{
    if (c == '\n' || c == '\r') {
        trimmer->pending = '\n';
    } else if (trimmer->pending == '\0') {
        trimmer->pending = c;
    }
}

/* Keywords that are followed by a value rather than an operator. */
static bool is_word_before_value(struct str word)
{
    static const struct str words[] = {
        STR_INIT("return"), STR_INIT("typeof"), STR_INIT("case"), STR_INIT("in"),
        STR_INIT("of"),     STR_INIT("delete"), STR_INIT("void"), STR_INIT("throw"),
        STR_INIT("new"),    STR_INIT("else"),   STR_INIT("do"),   STR_INIT("instanceof"),
        STR_INIT("yield"),  STR_INIT("await"),
    };

    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        if (str_equal(word, words[i])) {
            return true;
        }
    }
    return false;
}

enum slash { SLASH_DIVIDES, SLASH_BEGINS_REGEX, SLASH_UNKNOWN };

/* What does a '/' mean after this code, if it does not begin a comment? */
static enum slash what_slash(const struct trimmer *trimmer)
{
    char before = trimmer->before;

    if (before == '\0' || opens(before) || before == '<' || before == '%' || before == '^') {
        return SLASH_BEGINS_REGEX;
    }
    if (is_word(before)) {
        struct str word = {trimmer->word, trimmer->word_length};
        return is_word_before_value(word) ? SLASH_BEGINS_REGEX : SLASH_DIVIDES;
    }
    if (before == ']' || before == '"' || before == '\'') {
        return SLASH_DIVIDES;
    }
    if ((before == '+' || before == '-') && !trimmer->is_doubled) {
        return SLASH_BEGINS_REGEX;
    }
    return SLASH_UNKNOWN;
}

static void feed_code(struct trimmer *trimmer, char c)
{
    if (html_is_space(c)) {
        note_blank(trimmer, c);
    } else if (c == '/') {
        trimmer->code = CODE_SLASH;
    } else {
        put_code(trimmer, c);
        if (c == '"' || c == '\'') {
            trimmer->code = CODE_STRING;
            trimmer->quote = c;
        } else if (c == '`' || (c == '-' && trimmer_ends(trimmer, STR("<!-")))) {
            trimmer->code = CODE_REST;
        }
    }
}

static void feed_slash(struct trimmer *trimmer, char c)
{
    trimmer->code = c == '/' ? CODE_LINE_COMMENT : CODE_COMMENT;
    trimmer->comment_last = '\0';
    if (c == '/' || c == '*') {
        return;
    }
    enum slash slash = what_slash(trimmer);
    put_code(trimmer, '/');
    if (slash == SLASH_DIVIDES) {
        trimmer->code = CODE_PLAIN;
        feed_code(trimmer, c);
        return;
    }
    trimmer->code = slash == SLASH_UNKNOWN ? CODE_REST : CODE_REGEX;
    script_feed(trimmer, c);
}

/* ---- other states ---- */

static void feed_comment(struct trimmer *trimmer, char c)
{
    if (c == '\n' || c == '\r') {
        note_blank(trimmer, c);
    }
    if (trimmer->comment_last == '*' && c == '/') {
        trimmer->is_glued = true;
        trimmer->code = CODE_PLAIN;
    }
    trimmer->comment_last = c;
}

static void feed_string(struct trimmer *trimmer, char c)
{
    trimmer->before = c;
    trimmer_put(trimmer, c);
    if (c == '\\') {
        trimmer->code = CODE_STRING_ESCAPE;
    } else if (c == trimmer->quote || c == '\n') {
        trimmer->code = CODE_PLAIN;
    }
}

static void feed_regex(struct trimmer *trimmer, char c)
{
    bool is_class = trimmer->code == CODE_REGEX_CLASS;

    trimmer->before = c;
    trimmer_put(trimmer, c);
    if (c == '\n' || c == '\r' || (c == '/' && !is_class)) {
        trimmer->code = CODE_PLAIN;
    } else if (c == '\\') {
        trimmer->code = is_class ? CODE_REGEX_CLASS_ESCAPE : CODE_REGEX_ESCAPE;
    } else if (c == '[' || c == ']') {
        trimmer->code = c == '[' ? CODE_REGEX_CLASS : CODE_REGEX;
    }
}

void script_feed(struct trimmer *trimmer, char c)
{
    switch (trimmer->code) {
    case CODE_PLAIN:
        feed_code(trimmer, c);
        return;
    case CODE_SLASH:
        feed_slash(trimmer, c);
        return;
    case CODE_LINE_COMMENT:
        if (c == '\n' || c == '\r') {
            trimmer->code = CODE_PLAIN;
            note_blank(trimmer, c);
        }
        return;
    case CODE_COMMENT:
        feed_comment(trimmer, c);
        return;
    case CODE_STRING:
        feed_string(trimmer, c);
        return;
    case CODE_REGEX:
    case CODE_REGEX_CLASS:
        feed_regex(trimmer, c);
        return;
    case CODE_STRING_ESCAPE: /* an escaped line end may have two bytes */
        trimmer->code = c == '\r' ? CODE_STRING_ESCAPE : CODE_STRING;
        break;
    case CODE_REGEX_ESCAPE:
        trimmer->code = CODE_REGEX;
        break;
    case CODE_REGEX_CLASS_ESCAPE:
        trimmer->code = CODE_REGEX_CLASS;
        break;
    default:
        break;
    }
    trimmer_put(trimmer, c);
}
