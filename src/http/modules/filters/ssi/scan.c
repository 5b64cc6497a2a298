/* Finds SSI directives ("<!--#command name="value" -->") in a stream. */
#include "http/modules/filters/ssi/scan.h"

static const struct str opening = STR_INIT("<!--#");
static const struct str closing = STR_INIT("-->");

/* Limit for the bytes of a directive: no command has more than five parameters. */
static size_t directive_max(const struct ssi_scanner *scanner)
{
    return 1024 + 5 * scanner->value_max;
}

/* Text up to an opening mark, or up to the possible beginning of one. */
static enum ssi_token scan_text(struct ssi_scanner *scanner, struct str *input, struct str *out)
{
    const char *end = input->data + input->len;
    const char *at = input->data;

    while ((at = memchr(at, '<', (size_t) (end - at))) != NULL) {
        struct str rest = str_from(at, end);
        if (str_starts(rest, str_head(opening, rest.len))) {
            break;
        }
        at++;
    }
    if (at == NULL) {
        at = end;
    } else {
        scanner->state = SSI_IN_OPENING;
        scanner->matched = 0;
    }
    *out = str_from(input->data, at);
    *input = str_from(at, end);
    return out->len != 0 ? SSI_TEXT : SSI_MORE;
}

/* Scans the opening mark byte by byte. An incomplete one turns out to be text. */
static enum ssi_token scan_opening(struct ssi_scanner *scanner, struct str *input, struct str *out)
{
    while (input->len != 0) {
        if (input->data[0] != opening.data[scanner->matched]) {
            *out = str_head(opening, scanner->matched);
            scanner->state = SSI_IN_TEXT;
            return SSI_TEXT;
        }
        *input = str_skip(*input, 1);
        if (++scanner->matched == opening.len) {
            scanner->state = SSI_IN_DIRECTIVE;
            scanner->matched = 0;
            scanner->directive.len = 0;
            scanner->quote = 0;
            scanner->is_escaped = false;
            scanner->expects_value = false;
            scanner->is_cut = false;
            return SSI_MORE;
        }
    }
    return SSI_MORE;
}

/* Does this byte end the directive? `matched` counts the last bytes that belong to the closing
 * mark. */
static bool closes(struct ssi_scanner *scanner, char c)
{
    if (c == closing.data[scanner->matched]) {
        scanner->matched++;
    } else if (c != '-') {
        scanner->matched = 0;
    } /* else "---": its last two bytes may begin the mark */
    return scanner->matched == closing.len;
}

/* Takes a byte of a value. False: the value is too long. */
static bool take_value_byte(struct ssi_scanner *scanner, char c)
{
    if (scanner->is_escaped) {
        scanner->is_escaped = false;
    } else if (c == '\\') {
        scanner->is_escaped = true;
    } else if (c == scanner->quote) {
        scanner->quote = 0;
        scanner->matched = 0;
        return true;
    }
    return ++scanner->value_size <= scanner->value_max;
}

/* Takes a byte outside of values: does a value begin? */
static void watch_for_value(struct ssi_scanner *scanner, char c)
{
    if (scanner->expects_value && (c == '"' || c == '\'')) {
        scanner->quote = c;
        scanner->value_size = 0;
    }
    scanner->expects_value = c == '=' || (scanner->expects_value && ascii_is_space(c));
}

static enum ssi_token scan_directive(struct ssi_scanner *scanner, struct str *input,
                                     struct str *out)
{
    for (size_t i = 0; i < input->len; i++) {
        char c = input->data[i];

        if (scanner->state == SSI_IN_DIRECTIVE) {
            buf_append_char(&scanner->directive, c);
            if (scanner->quote != 0) {
                if (!take_value_byte(scanner, c)) {
                    scanner->state = SSI_IN_REST;
                    scanner->matched = 0;
                }
                continue;
            }
            watch_for_value(scanner, c);
        }
        if (closes(scanner, c)) {
            size_t surplus = scanner->state == SSI_IN_DIRECTIVE ? closing.len : 0;
            *out = (struct str){scanner->directive.data, scanner->directive.len - surplus};
            *input = str_skip(*input, i + 1);
            scanner->state = SSI_IN_TEXT;
            return SSI_DIRECTIVE;
        }
        if (scanner->directive.len > directive_max(scanner)) {
            scanner->state = SSI_IN_REST;
            scanner->is_cut = true;
        }
    }
    *input = str_skip(*input, input->len);
    return SSI_MORE;
}

enum ssi_token ssi_scan(struct ssi_scanner *scanner, struct str *input, struct str *out)
{
    while (input->len != 0) {
        enum ssi_token token = SSI_MORE;

        switch (scanner->state) {
        case SSI_IN_TEXT:
            token = scan_text(scanner, input, out);
            break;
        case SSI_IN_OPENING:
            token = scan_opening(scanner, input, out);
            break;
        case SSI_IN_DIRECTIVE:
        case SSI_IN_REST:
            token = scan_directive(scanner, input, out);
            break;
        }
        if (token == SSI_DIRECTIVE || (token == SSI_TEXT && out->len != 0)) {
            return token;
        }
    }
    return SSI_MORE;
}

struct str ssi_scan_end(struct ssi_scanner *scanner)
{
    struct str rest =
        scanner->state == SSI_IN_OPENING ? str_head(opening, scanner->matched) : STR_NONE;

    scanner->state = SSI_IN_TEXT;
    return rest;
}

void ssi_scanner_free(struct ssi_scanner *scanner)
{
    buf_free(&scanner->directive);
}
