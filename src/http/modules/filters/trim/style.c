/* Trims CSS. */
#include "http/modules/filters/trim/trimmer.h"

/* White space after these has no meaning. */
static bool separates(char c)
{
    return c == '\0' || memchr(";>{}:,", c, 6) != NULL;
}

/* Are spaces before this character redundant? Before ':' only in a declaration: it distinguishes `a
 * :hover` from `a:hover`. */
static bool is_separated(const struct trimmer *trimmer, char c)
{
    return c == ':' ? trimmer->is_declaring && trimmer->is_naming : separates(c);
}

/* Determines what follows the code just written: a rule, or a declaration if a block has begun that
 * is not one of an at-rule with nested rules (`@media`). A declaration begins with its name. */
static void note_code(struct trimmer *trimmer, char c)
{
    switch (c) {
    case '{':
        trimmer->is_declaring = !trimmer->is_grouping;
        trimmer->is_naming = true;
        break;
    case '}':
        trimmer->is_declaring = false;
        break;
    case ';':
        trimmer->is_naming = true;
        break;
    case ':':
        trimmer->is_naming = false;
        return;
    default:
        if (trimmer->begins_rule) {
            trimmer->is_grouping = c == '@';
        } else if (trimmer->is_grouping && trimmer->begins_name) {
            trimmer->is_grouping =
                c != 'f' && c != 'F' && c != 'p' && c != 'P'; /* @font-face, @page */
        }
        trimmer->begins_name = trimmer->begins_rule;
        trimmer->begins_rule = false;
        return;
    }
    trimmer->begins_rule = true;
    trimmer->begins_name = trimmer->is_grouping = false;
}

static void put_comment(struct trimmer *trimmer, struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        trimmer_put(trimmer, text.data[i]);
    }
}

static bool trim_style_is_name(char c)
{
    unsigned char letter = ascii_lower((unsigned char) c);

    return (letter >= 'a' && letter <= 'z') || ascii_is_digit(letter) || c == '-' || c == '_' ||
           c == '\\' || letter >= 0x80;
}

/* Would these two bytes, without the comment between them, form another token? If uncertain:
 * yes. */
static bool would_fuse(char before, char c)
{
    if (trim_style_is_name(before)) {
        bool is_number = ascii_is_digit((unsigned char) before);
        return trim_style_is_name(c) || c == '(' || c == '+' ||
               ((c == '.' || c == '%') && is_number);
    }
    return before == ')' || before == ']' ? false : c != '.' && c != '#' && c != '[' && c != '(';
}

/* Writes a byte of code, after white space if it is needed. A comment that is the only separator
 * between words stays, as an empty one. */
static void put_code(struct trimmer *trimmer, char c)
{
    if (!separates(trimmer->before) && !is_separated(trimmer, c)) {
        if (trimmer->pending != '\0') {
            trimmer_put(trimmer, ' ');
        } else if (trimmer->is_glued && would_fuse(trimmer->before, c)) {
            put_comment(trimmer, STR("/**/"));
        }
    }
    trimmer->pending = '\0';
    trimmer->is_glued = false;
    trimmer->before = c;
    note_code(trimmer, c);
    trimmer_put(trimmer, c);
}

static void feed_code(struct trimmer *trimmer, char c)
{
    if (html_is_space(c)) {
        trimmer->pending = ' ';
        return;
    }
    if (c == '/') {
        trimmer->code = CODE_SLASH;
        return;
    }
    put_code(trimmer, c);
    if (c == '"' || c == '\'') {
        trimmer->code = CODE_STRING;
        trimmer->quote = c;
    } else if (c == '\\') {
        trimmer->code = CODE_ESCAPE;
    } else if (c == '(' && trimmer_ends(trimmer, STR("url"))) {
        trimmer->code = CODE_URL;
    }
}

static void feed_slash(struct trimmer *trimmer, char c)
{
    if (c == '*') {
        trimmer->code = CODE_COMMENT;
        trimmer->comment_length = 0;
        trimmer->comment_last = '\0';
        return;
    }
    trimmer->code = CODE_PLAIN;
    put_code(trimmer, '/');
    feed_code(trimmer, c);
}

/* Two kinds of comments are hacks for very old browsers, and stay: an empty one after '>', and one
 * that ends in a backslash, with everything up to the end of the next comment. */
static void end_comment(struct trimmer *trimmer)
{
    trimmer->code = CODE_PLAIN;
    if (trimmer->comment_length == 2 && trimmer->last == '>') {
        put_comment(trimmer, STR("/**/"));
    } else if (trimmer->comment_length == 3 && trimmer->comment[0] == '\\') {
        trimmer->pending = '\0';
        trimmer->before = '}';
        put_comment(trimmer, STR("/*\\*/"));
        trimmer->code = CODE_HACK;
    } else {
        trimmer->is_glued = trimmer->pending == '\0';
    }
    trimmer->comment_last = '\0';
}

static void feed_comment(struct trimmer *trimmer, char c)
{
    if (trimmer->comment_length < sizeof(trimmer->comment)) {
        trimmer->comment[trimmer->comment_length++] = c;
    }
    if (trimmer->comment_last == '*' && c == '/') {
        end_comment(trimmer);
    } else {
        trimmer->comment_last = c;
    }
}

/* Copies up to the end of the next comment. */
static void feed_hack(struct trimmer *trimmer, char c)
{
    trimmer_put(trimmer, c);
    if (trimmer->comment_last == '*' && c == '/') {
        trimmer->code = CODE_PLAIN;
    }
    trimmer->comment_last = c;
}

static void feed_url(struct trimmer *trimmer, char c)
{
    trimmer->before = c;
    trimmer_put(trimmer, c);
    if (c == '"' || c == '\'') {
        trimmer->code = CODE_STRING;
        trimmer->quote = c;
    } else if (c == ')') {
        trimmer->code = CODE_PLAIN;
    }
}

void style_feed(struct trimmer *trimmer, char c)
{
    switch (trimmer->code) {
    case CODE_PLAIN:
        feed_code(trimmer, c);
        return;
    case CODE_SLASH:
        feed_slash(trimmer, c);
        return;
    case CODE_COMMENT:
        feed_comment(trimmer, c);
        return;
    case CODE_HACK:
        feed_hack(trimmer, c);
        return;
    case CODE_URL:
        feed_url(trimmer, c);
        return;
    case CODE_ESCAPE: /* an escaped character is never a separator */
        trimmer->code = CODE_PLAIN;
        trimmer_put(trimmer, c);
        return;
    case CODE_STRING:
        trimmer->code = c == '\\'                          ? CODE_STRING_ESCAPE
                        : c == trimmer->quote || c == '\n' ? CODE_PLAIN
                                                           : CODE_STRING;
        break;
    case CODE_STRING_ESCAPE:
        trimmer->code = c == '\r' ? CODE_STRING_ESCAPE : CODE_STRING;
        break;
    default:
        break;
    }
    trimmer->before = c;
    trimmer_put(trimmer, c);
}
