/* IMAP (RFC 3501): the dialogue with the client and with the backend. */
#include "mail/modules/imap/imap.h"

#include "mail/backend/sasl.h"
#include "mail/words/commands.h"
#include "mail/words/sasl.h"

static const struct imap_settings *mail_imap_settings_of(const struct mail_session *session)
{
    return mail_settings(session->server, &imap_key);
}

static uint64_t buffer_size(const struct mail_session *session)
{
    return mail_imap_settings_of(session)->client_buffer;
}

static bool greet(struct mail_session *session)
{
    mail_say(session, STR("* OK IMAP4 ready\r\n"));
    return true;
}

static void mail_imap_refuse(struct mail_session *session, enum mail_refusal why, struct str text)
{
    switch (why) {
    case MAIL_REFUSED_LOGIN:
        mail_sayf(session, "%.*s NO %.*s\r\n", STR_ARG(session->tag), STR_ARG(text));
        break;
    case MAIL_REFUSED_INTERNAL:
        mail_say(session, STR("* BAD internal server error\r\n"));
        break;
    case MAIL_REFUSED_CERTIFICATE:
        mail_sayf(session, "* BYE %.*s\r\n", STR_ARG(text));
        break;
    }
}

/* ---- commands ---- */

static enum mail_step completed(struct mail_session *session, struct str untagged)
{
    mail_sayf(session, "%.*s%.*s OK completed\r\n", STR_ARG(untagged), STR_ARG(session->tag));
    return MAIL_GOES_ON;
}

/* Rejects a command that is known, but not allowed here. */
static enum mail_step mail_imap_invalid(struct mail_session *session)
{
    mail_sayf(session, "%.*s BAD invalid command\r\n", STR_ARG(session->tag));
    return MAIL_GOES_ON;
}

/* Rejects an unknown command. */
static enum mail_step unknown(struct mail_session *session)
{
    mail_imap_invalid(session);
    return mail_count_error(session);
}

static enum mail_step capability(struct mail_session *session)
{
    const struct imap_settings *settings = mail_imap_settings_of(session);

    return completed(session, mail_needs_starttls(session)    ? settings->starttls_only_capabilities
                              : mail_offers_starttls(session) ? settings->starttls_capabilities
                                                              : settings->capabilities);
}

static enum mail_step starttls(struct mail_session *session)
{
    if (!mail_offers_starttls(session)) {
        return mail_imap_invalid(session);
    }
    completed(session, STR(""));
    return mail_starttls(session) ? MAIL_GOES_ON : MAIL_OVER;
}

static enum mail_step login(struct mail_session *session, const struct mail_command *command)
{
    if (mail_needs_starttls(session) || command->count != 2 || command->args[0].len == 0) {
        return mail_imap_invalid(session);
    }
    session->method = MAIL_PLAIN;
    session->login = arena_dup(&session->attempt, command->args[0]);
    session->password =
        command->args[1].len == 0 ? STR("") : arena_dup(&session->attempt, command->args[1]);
    return mail_log_in(session);
}

static enum mail_step authenticate(struct mail_session *session, const struct mail_command *command)
{
    unsigned method = command->count == 0 ? 0 : sasl_method_named(command->args[0]);

    if (mail_needs_starttls(session) ||
        !((mail_imap_settings_of(session)->auth | MAIL_ALWAYS) & method) || command->count > 2 ||
        (command->count == 2 && method == MAIL_CRAM_MD5)) {
        return mail_imap_invalid(session);
    }
    session->method = method;
    struct str initial = command->count == 2 ? command->args[1] : STR_NONE;
    switch (sasl_converse(session, method, initial, STR("+ "))) {
    case SASL_KNOWN:
        return mail_log_in(session);
    case SASL_INVALID:
        return mail_imap_invalid(session);
    case SASL_GONE:
        break;
    }
    return MAIL_OVER;
}

static enum mail_step obey(struct mail_session *session, const struct mail_command *command)
{
    if (mail_command_is(command, "NOOP")) {
        return completed(session, STR(""));
    }
    if (mail_command_is(command, "CAPABILITY")) {
        return capability(session);
    }
    if (mail_command_is(command, "LOGOUT")) {
        completed(session, STR("* BYE\r\n"));
        return MAIL_OVER;
    }
    if (mail_command_is(command, "STARTTLS")) {
        return starttls(session);
    }
    if (mail_command_is(command, "LOGIN")) {
        return login(session, command);
    }
    if (mail_command_is(command, "AUTHENTICATE")) {
        return authenticate(session, command);
    }
    return unknown(session);
}

/* Reads a whole command, with its literals. MAY WAIT. */
static enum mail_line read_command(struct mail_session *session, struct str *out)
{
    struct imap_seen seen = {0};

    for (;;) {
        struct str input = mail_input(session);
        if (!mail_is_heard(session)) {
            return MAIL_LINE_NONE;
        }
        enum imap_extent extent = imap_command_extent(input, &seen);

        if (extent == IMAP_WHOLE) {
            *out = str_head(input, seen.size);
            session->taken = seen.size;
            return MAIL_LINE;
        }
        if (extent == IMAP_ENDLESS) {
            return mail_line_too_long(session);
        }
        if (extent == IMAP_LITERAL) {
            mail_say(session, STR("+ OK\r\n"));
            continue;
        }
        enum mail_line more = mail_read_more(session, input.len);
        if (more != MAIL_LINE) {
            return more;
        }
    }
}

/* The response to a command that does not fit into the buffer, with its tag or "*". In the arena of
 * the attempt. */
static struct str long_command_refusal(struct mail_session *session)
{
    struct mail_command command;

    mail_attempt_begin(session, 0);
    imap_command_read(mail_input(session), &session->attempt, &command);
    return arena_printf(&session->attempt, "%.*s BAD invalid command\r\n", STR_ARG(command.tag));
}

static enum mail_step mail_imap_serve(struct mail_session *session)
{
    enum mail_step step = MAIL_GOES_ON;

    while (step == MAIL_GOES_ON) {
        struct mail_command command;
        struct str text;

        enum mail_line read = read_command(session, &text);
        if (!mail_has_command(session, read,
                              read == MAIL_LINE_TOO_LONG ? long_command_refusal(session)
                                                         : STR(""))) {
            return MAIL_OVER;
        }
        mail_attempt_begin(session, 0);
        bool is_good = imap_command_read(text, &session->attempt, &command);
        session->tag = arena_dup(&session->attempt, command.tag);
        step = is_good ? obey(session, &command) : unknown(session);
    }
    return step;
}

/* ---- the backend ---- */

/* Waits for "+ ", which asks for a literal. */
static bool is_continued(struct mail_backend *backend)
{
    return backend_read(backend) &&
           (str_starts(backend->reply, STR("+")) || backend_refuses(backend, backend->reply));
}

/* Waits for "a1 OK …". Passes the untagged lines before it, such as capabilities, to the client. */
static bool is_done(struct mail_backend *backend)
{
    struct mail_session *session = backend->session;

    for (;;) {
        if (!backend_read(backend)) {
            return false;
        }
        struct str rest = backend->reply;

        if (str_starts(rest, session->tag) && rest.len > session->tag.len &&
            rest.data[session->tag.len] == ' ') {
            rest = str_skip(rest, session->tag.len + 1);
            if (!str_starts_nocase(rest, STR("OK"))) {
                return backend_refuses(backend, rest);
            }
            mail_sayf(session, "%.*s\r\n", STR_ARG(backend->reply));
            return true;
        }
        if (!str_starts(rest, STR("* ")) || str_starts_nocase(rest, STR("* BYE"))) {
            return backend_refuses(backend, rest);
        }
        mail_sayf(session, "%.*s\r\n", STR_ARG(rest));
        if (!mail_is_heard(session)) {
            return false;
        }
    }
}

/* Logs in with literals, which can contain any bytes. */
static bool log_in(struct mail_backend *backend)
{
    struct mail_session *session = backend->session;

    if (!backend_read(backend)) {
        return false;
    }
    if (!str_starts(backend->reply, STR("* OK"))) {
        return backend_refuses(backend, backend->reply);
    }
    backend_sayf(backend, "%.*s LOGIN {%zu}\r\n", STR_ARG(session->tag), session->login.len);
    if (!is_continued(backend)) {
        return false;
    }
    backend_say(backend, session->login);
    backend_sayf(backend, " {%zu}\r\n", session->password.len);
    if (!is_continued(backend)) {
        return false;
    }
    backend_say(backend, session->password);
    backend_say(backend, STR("\r\n"));
    return is_done(backend);
}

const struct mail_protocol imap_protocol = {
    .alpn = STR_INIT("\x04imap"),
    .name = STR_INIT("imap"),
    .ports = {143, 993},
    .needs_password = true,
    .greets_at_once = true,
    .buffer_size = buffer_size,
    .greet = greet,
    .serve = mail_imap_serve,
    .refuse = mail_imap_refuse,
    .log_in = log_in,
};
