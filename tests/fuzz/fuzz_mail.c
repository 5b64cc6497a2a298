/* Fuzz target: what clients and authentication servers of mail say. The first byte chooses the
 * parser. Slices that come out lie in what went in; commands and answers are the same whole and
 * byte by byte. */
#include <stdint.h>
#include <stdlib.h>

#include "mail/words/auth_response.h"
#include "mail/words/commands.h"
#include "mail/words/sasl.h"

static void check_inside(struct str part, struct str whole)
{
    if (part.len != 0 &&
        (part.data < whole.data || part.data + part.len > whole.data + whole.len)) {
        abort();
    }
}

static void take_line(struct str input, bool (*read)(struct str, struct mail_command *))
{
    struct mail_command command;

    if (!read(input, &command)) {
        return;
    }
    if (command.count > MAIL_ARGS_MAX || command.name.len == 0) {
        abort();
    }
    check_inside(command.name, input);
    for (unsigned i = 0; i < command.count; i++) {
        check_inside(command.args[i], input);
    }
}

/* How far a command of IMAP goes when so many bytes come at first, then one by one. 0: it is not
 * whole. */
static size_t extent(struct str input, size_t at_first)
{
    struct imap_seen seen = {0};

    for (size_t size = at_first; size <= input.len; size++) {
        enum imap_extent found;

        do {
            found = imap_command_extent(str_head(input, size), &seen);
        } while (found == IMAP_LITERAL);
        if (found == IMAP_ENDLESS) {
            return 0;
        }
        if (found == IMAP_WHOLE) {
            if (seen.size > size) {
                abort();
            }
            return seen.size;
        }
    }
    return 0;
}

static void take_imap(struct str input)
{
    struct mail_command command;
    struct arena arena;
    size_t size = extent(input, input.len);

    if (size != extent(input, 0)) {
        abort();
    }
    arena_init(&arena);
    bool is_good = imap_command_read(str_head(input, size), &arena, &command);
    if (command.count > MAIL_FEW_ARGS_MAX || command.tag.len > IMAP_TAG_MAX ||
        command.tag.len == 0 || (is_good && command.name.len == 0)) {
        abort();
    }
    arena_free(&arena);
}

static enum auth_reading answer(struct str input, size_t at_first, struct auth_response *out)
{
    size_t seen = 0;

    for (size_t size = at_first; size <= input.len; size++) {
        enum auth_reading found = auth_response_read(str_head(input, size), &seen, out);

        if (found != AUTH_MORE) {
            return found;
        }
    }
    return AUTH_MORE;
}

static void take_answer(struct str input)
{
    struct auth_response whole, pieces;

    if (answer(input, input.len, &whole) != answer(input, 0, &pieces)) {
        abort();
    }
    if (answer(input, input.len, &whole) == AUTH_DONE) {
        check_inside(whole.status, input);
        check_inside(whole.server, input);
        check_inside(whole.port, input);
        check_inside(whole.user, input);
        check_inside(whole.password, input);
        check_inside(whole.error_code, input);
    }
}

static void take_sasl(struct str input)
{
    struct str login = STR_NONE, password = STR_NONE;
    struct arena arena;

    if (sasl_plain_read(input, &login, &password) == NULL) {
        check_inside(login, input);
        check_inside(password, input);
    }
    if (sasl_cram_md5_read(input, &login, &password) == NULL && password.len != 32) {
        abort();
    }
    sasl_method_named(input);
    arena_init(&arena);
    struct str text = xtext_encode(&arena, input);
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char) text.data[i];
        if (c <= ' ' || c >= 0x7f || c == '=') {
            abort();
        }
    }
    arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    struct str input = {(const char *) data + 1, size - 1};

    switch (data[0] % 5) {
    case 0:
        take_line(input, smtp_command_read);
        break;
    case 1:
        take_line(input, pop3_command_read);
        break;
    case 2:
        take_imap(input);
        break;
    case 3:
        take_answer(input);
        break;
    default:
        take_sasl(input);
        break;
    }
    return 0;
}
