/* Commands of IMAP (RFC 3501): a tag, a name, and words that may be quoted or literals. */
#include "base/parse.h"
#include "mail/words/commands.h"

/*
 * Parses the number in the braces of a literal. A plus after it means that the client does not wait
 * (RFC 7888). A number that is too large gives UINT64_MAX.
 */
static bool read_length(struct str text, uint64_t *length, bool *is_awaited)
{
    *is_awaited = !str_ends(text, STR("+"));
    text.len -= !*is_awaited;
    *length = UINT64_MAX;
    for (size_t i = 0; i < text.len; i++) {
        if (!ascii_is_digit((unsigned char) text.data[i])) {
            return false;
        }
    }
    return text.len != 0 && (parse_uint(text, length) || *length == UINT64_MAX);
}

/*
 * The length of the literal that the line announces at its end ("… {5}"). False: none. If the
 * client does not wait, the bytes follow whatever is before the brace, and must not be read as
 * commands.
 */
static bool announced(struct str line, uint64_t *length, bool *is_awaited)
{
    if (!str_ends(line, STR("}"))) {
        return false;
    }
    const char *open = str_find_last_char(line, '{');

    return open != NULL && open > line.data &&
           read_length(str_from(open + 1, line.data + line.len - 1), length, is_awaited) &&
           (!*is_awaited || open[-1] == ' ');
}

/* The line without its line feed, and the carriage return before it. */
static struct str without_end(struct str line)
{
    line.len -= str_ends(line, STR("\n"));
    line.len -= str_ends(line, STR("\r"));
    return line;
}

enum imap_extent imap_command_extent(struct str input, struct imap_seen *seen)
{
    for (;;) {
        size_t begin = seen->size + seen->expected;
        size_t looked = seen->looked > begin ? seen->looked : begin;
        bool is_awaited;
        uint64_t length;

        if (input.len <= looked) {
            return IMAP_MORE;
        }
        const char *end = str_find_char(str_skip(input, looked), '\n');
        if (end == NULL) {
            seen->looked = input.len;
            return IMAP_MORE;
        }
        struct str line = str_from(input.data + begin, end + 1);
        seen->size = (size_t) (end + 1 - input.data);
        seen->expected = 0;
        if (!announced(without_end(line), &length, &is_awaited)) {
            return IMAP_WHOLE;
        }
        if (length > INT32_MAX) {
            return is_awaited ? IMAP_WHOLE : IMAP_ENDLESS;
        }
        seen->expected = (size_t) length;
        if (is_awaited) {
            return IMAP_LITERAL;
        }
    }
}

static bool is_tag_byte(unsigned char c)
{
    return c > ' ' && c < 0x7f && memchr("\"%()*+\\{}", c, 9) == NULL;
}

/* A backslash escapes the next byte (RFC 3501, 9: quoted). CR and LF are not allowed inside. */
static bool read_quoted(struct str *text, struct arena *arena, struct str *out)
{
    char *copy = arena_text(arena, text->len);
    size_t used = 0;

    for (size_t i = 1; i < text->len; i++) {
        char c = text->data[i];

        if (c == '"') {
            *text = str_skip(*text, i + 1);
            *out = (struct str){copy, used};
            return true;
        }
        if (c == '\\' && i + 1 < text->len) {
            c = text->data[++i];
        }
        if (c == '\r' || c == '\n') {
            return false;
        }
        copy[used++] = c;
    }
    return false;
}

/* Reads "{5}" or "{5+}", a line end, and as many bytes. */
static bool read_literal(struct str *text, struct str *out)
{
    const char *close = str_find_char(*text, '}');
    uint64_t length;
    bool is_awaited;

    if (close == NULL || !read_length(str_from(text->data + 1, close), &length, &is_awaited)) {
        return false;
    }
    struct str rest = str_from(close + 1, text->data + text->len);
    rest = str_skip(rest, str_starts(rest, STR("\r")));
    if (!str_starts(rest, STR("\n")) || rest.len - 1 < length) {
        return false;
    }
    *out = (struct str){rest.data + 1, (size_t) length};
    *text = str_skip(rest, 1 + (size_t) length);
    return true;
}

static void read_atom(struct str *text, struct str *out)
{
    size_t n = 0;

    while (n < text->len && text->data[n] != ' ' && text->data[n] != '\r' &&
           text->data[n] != '\n') {
        n++;
    }
    *out = str_head(*text, n);
    *text = str_skip(*text, n);
}

static void mail_imap_skip_blanks(struct str *text)
{
    while (text->len != 0 && text->data[0] == ' ') {
        *text = str_skip(*text, 1);
    }
}

/* Reads the words after the name, to the end of the command. */
static bool read_words(struct str text, struct arena *arena, struct mail_command *out)
{
    for (;;) {
        struct str word;
        bool is_good = true;
        bool is_separate = str_starts(text, STR(" "));

        mail_imap_skip_blanks(&text);
        if (without_end(text).len == 0) {
            return true;
        }
        if (!is_separate || out->count == MAIL_FEW_ARGS_MAX) {
            return false;
        }
        if (text.data[0] == '"') {
            is_good = read_quoted(&text, arena, &word);
        } else if (text.data[0] == '{') {
            is_good = read_literal(&text, &word);
        } else {
            read_atom(&text, &word);
        }
        if (!is_good) {
            return false;
        }
        out->args[out->count++] = word;
    }
}

bool imap_command_read(struct str text, struct arena *arena, struct mail_command *out)
{
    struct str tag;

    *out = (struct mail_command){.tag = STR("*")};
    read_atom(&text, &tag);
    for (size_t i = 0; i < tag.len; i++) {
        if (!is_tag_byte((unsigned char) tag.data[i])) {
            return false;
        }
    }
    if (tag.len == 0 || tag.len > IMAP_TAG_MAX || !str_starts(text, STR(" "))) {
        return false;
    }
    out->tag = tag;
    mail_imap_skip_blanks(&text);
    read_atom(&text, &out->name);
    return out->name.len != 0 && read_words(text, arena, out);
}
