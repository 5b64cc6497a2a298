/* POP3 (RFC 1939, 2449, 5034): the dialogue with the client and with the backend. */
#include "mail/modules/pop3/pop3.h"

#include "mail/backend/sasl.h"
#include "mail/words/commands.h"
#include "mail/words/sasl.h"

enum {
    COMMAND_MAX = 4096
}; /* bytes of a line; more than RFC 2449, 4 requires, for long responses to AUTH */

#define OK STR("+OK\r\n")
#define INVALID STR("-ERR invalid command\r\n")

static const struct pop3_settings *mail_pop3_settings_of(const struct mail_session *session)
{
    return mail_settings(session->server, &pop3_key);
}

static uint64_t buffer_size(const struct mail_session *session)
{
    return COMMAND_MAX;
}

static bool greet(struct mail_session *session)
{
    if (mail_pop3_settings_of(session)->auth & (MAIL_APOP | MAIL_CRAM_MD5)) {
        struct str salt = mail_salt(session);

        mail_sayf(session, "+OK POP3 ready %.*s\r\n", STR_ARG(salt));
    } else {
        mail_say(session, STR("+OK POP3 ready\r\n"));
    }
    return true;
}

static void mail_pop3_refuse(struct mail_session *session, enum mail_refusal why, struct str text)
{
    if (why == MAIL_REFUSED_INTERNAL) {
        mail_say(session, STR("-ERR internal server error\r\n"));
    } else {
        mail_sayf(session, "-ERR %.*s\r\n", STR_ARG(text));
    }
}

/* ---- commands ---- */

static enum mail_step mail_pop3_say(struct mail_session *session, struct str text)
{
    mail_say(session, text);
    return MAIL_GOES_ON;
}

/* Rejects a command that is known, but not allowed here. */
static enum mail_step mail_pop3_invalid(struct mail_session *session)
{
    return mail_pop3_say(session, INVALID);
}

/* Rejects an unknown command. */
static enum mail_step unknown(struct mail_session *session)
{
    mail_say(session, INVALID);
    return mail_count_error(session);
}

static bool is_known(const struct mail_command *command)
{
    static const char *const names[] = {"USER", "PASS", "APOP", "AUTH",
                                        "QUIT", "CAPA", "NOOP", "STLS"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (mail_command_is(command, names[i])) {
            return true;
        }
    }
    return false;
}

static enum mail_step capa(struct mail_session *session)
{
    const struct pop3_settings *settings = mail_pop3_settings_of(session);

    return mail_pop3_say(session, mail_is_secure(session) ? settings->capabilities
                                  : mail_needs_starttls(session)
                                      ? settings->starttls_only_capabilities
                                  : mail_offers_starttls(session) ? settings->starttls_capabilities
                                                                  : settings->capabilities);
}

/* RFC 2595, 4. */
static enum mail_step stls(struct mail_session *session)
{
    if (!mail_offers_starttls(session)) {
        return mail_pop3_invalid(session);
    }
    mail_say(session, OK);
    return mail_starttls(session) ? MAIL_GOES_ON : MAIL_OVER;
}

static enum mail_step apop(struct mail_session *session, const struct mail_command *command)
{
    if (command->count != 2 || !(mail_pop3_settings_of(session)->auth & MAIL_APOP)) {
        return mail_pop3_invalid(session);
    }
    mail_attempt_begin(session, MAIL_APOP);
    session->login = arena_dup(&session->attempt, command->args[0]);
    session->password = arena_dup(&session->attempt, command->args[1]);
    return mail_log_in(session);
}

/* RFC 5034, 4. */
static enum mail_step auth(struct mail_session *session, const struct mail_command *command)
{
    const struct pop3_settings *settings = mail_pop3_settings_of(session);
    unsigned method;

    if (command->count == 0) {
        return mail_pop3_say(session, settings->methods);
    }
    method = sasl_method_named(command->args[0]);
    if (!((settings->auth | MAIL_ALWAYS) & method) || command->count > 2 ||
        (command->count == 2 && method == MAIL_CRAM_MD5)) {
        return mail_pop3_invalid(session);
    }
    struct str initial = command->count == 2 ? command->args[1] : STR_NONE;
    mail_attempt_begin(session, method);
    switch (sasl_converse(session, method, initial, STR("+ "))) {
    case SASL_KNOWN:
        return mail_log_in(session);
    case SASL_INVALID:
        return mail_pop3_invalid(session);
    case SASL_GONE:
        break;
    }
    return MAIL_OVER;
}

/* Handles the command after USER: PASS, CAPA or NOOP. Another USER is rejected, as in nginx. */
static enum mail_step after_user(struct mail_session *session, const struct mail_command *command,
                                 bool *has_user)
{
    if (mail_command_is(command, "PASS") && command->count == 1) {
        *has_user = false;
        session->password = arena_dup(&session->attempt, command->args[0]);
        return mail_log_in(session);
    }
    if (mail_command_is(command, "CAPA")) {
        return capa(session);
    }
    if (mail_command_is(command, "NOOP")) {
        return mail_pop3_say(session, OK);
    }
    *has_user = false;
    return mail_pop3_invalid(session);
}

static enum mail_step authorization(struct mail_session *session,
                                    const struct mail_command *command, bool *has_user)
{
    if (mail_command_is(command, "CAPA")) {
        return capa(session);
    }
    if (mail_command_is(command, "STLS")) {
        return stls(session);
    }
    if (mail_command_is(command, "NOOP")) {
        return mail_pop3_say(session, OK);
    }
    if (mail_needs_starttls(session)) {
        return mail_pop3_invalid(session);
    }
    if (mail_command_is(command, "USER") && command->count == 1) {
        *has_user = true;
        mail_attempt_begin(session, MAIL_PLAIN);
        session->login = arena_dup(&session->attempt, command->args[0]);
        return mail_pop3_say(session, OK);
    }
    if (mail_command_is(command, "APOP")) {
        return apop(session, command);
    }
    if (mail_command_is(command, "AUTH")) {
        return auth(session, command);
    }
    return mail_pop3_invalid(session);
}

static enum mail_step mail_pop3_serve(struct mail_session *session)
{
    enum mail_step step = MAIL_GOES_ON;
    bool has_user = false;

    while (step == MAIL_GOES_ON) {
        struct mail_command command;
        struct str line;

        if (!mail_has_command(session, mail_read_line(session, &line), INVALID)) {
            return MAIL_OVER;
        }
        if (!pop3_command_read(line, &command) || !is_known(&command)) {
            has_user = false;
            step = unknown(session);
        } else if (mail_command_is(&command, "QUIT")) {
            mail_say(session, OK);
            return MAIL_OVER;
        } else if (has_user) {
            step = after_user(session, &command, &has_user);
        } else {
            step = authorization(session, &command, &has_user);
        }
    }
    return step;
}

/* ---- the backend ---- */

/* Is it a single line? Otherwise a part of the client's value would become a command. */
static bool is_one_line(struct str text)
{
    return str_find_char(text, '\r') == NULL && str_find_char(text, '\n') == NULL &&
           (text.len == 0 || memchr(text.data, '\0', text.len) == NULL);
}

/* Reads a reply, which has to be +OK. */
static bool agreed(struct mail_backend *backend)
{
    return backend_read(backend) &&
           (str_starts(backend->reply, STR("+OK")) || backend_refuses(backend, backend->reply));
}

static bool log_in(struct mail_backend *backend)
{
    struct mail_session *session = backend->session;

    if (!is_one_line(session->login) || !is_one_line(session->password)) {
        log_error(&session->log, 0,
                  "login or password contains a line end, which POP3 does not allow");
        return false;
    }
    if (!agreed(backend)) {
        return false;
    }
    backend_sayf(backend, "USER %.*s\r\n", STR_ARG(session->login));
    if (!agreed(backend)) {
        return false;
    }
    backend_sayf(backend, "PASS %.*s\r\n", STR_ARG(session->password));
    if (!agreed(backend)) {
        return false;
    }
    mail_sayf(session, "%.*s\r\n", STR_ARG(backend->reply));
    return true;
}

const struct mail_protocol pop3_protocol = {
    .alpn = STR_INIT("\x04pop3"),
    .name = STR_INIT("pop3"),
    .ports = {110, 995},
    .needs_password = true,
    .greets_at_once = true,
    .buffer_size = buffer_size,
    .greet = greet,
    .serve = mail_pop3_serve,
    .refuse = mail_pop3_refuse,
    .log_in = log_in,
};
