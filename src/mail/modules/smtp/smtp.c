/* SMTP (RFC 5321, 4954, 3207): the dialogue with the client. */
#include "mail/modules/smtp/smtp.h"

#include <errno.h>

#include "base/clock.h"
#include "mail/backend/sasl.h"
#include "mail/words/commands.h"
#include "mail/words/sasl.h"
#include "server/generation.h"

#define OK STR("250 2.0.0 OK\r\n")
#define INVALID STR("500 5.5.1 Invalid command\r\n")
#define INVALID_ARGUMENT STR("501 5.5.4 Invalid argument\r\n")
#define BAD_SEQUENCE STR("503 5.5.1 Bad sequence of commands\r\n")

static const struct smtp_settings *mail_smtp_settings_of(const struct mail_session *session)
{
    return mail_settings(session->server, &smtp_key);
}

static uint64_t buffer_size(const struct mail_session *session)
{
    return mail_smtp_settings_of(session)->client_buffer;
}

static void mail_smtp_refuse(struct mail_session *session, enum mail_refusal why, struct str text)
{
    struct str code = session->error_code.len != 0 ? session->error_code : STR("535 5.7.0");

    switch (why) {
    case MAIL_REFUSED_LOGIN:
        mail_sayf(session, "%.*s %.*s\r\n", STR_ARG(code), STR_ARG(text));
        break;
    case MAIL_REFUSED_INTERNAL:
        mail_say(session, STR("451 4.3.2 Internal server error\r\n"));
        break;
    case MAIL_REFUSED_CERTIFICATE:
        mail_sayf(session, "421 4.7.1 %.*s\r\n", STR_ARG(text));
        break;
    }
}

/* ---- the greeting ---- */

#define UNAVAILABLE STR("[UNAVAILABLE]") /* the address has no name */
#define TEMPUNAVAIL STR("[TEMPUNAVAIL]") /* the lookup failed */

static struct str no_name(struct mail_session *session, struct str what, enum resolve_result why)
{
    log_error(&session->log, 0, "%.*s could not be resolved (%s)", STR_ARG(what),
              resolve_result_text(why));
    return why == RESOLVE_NOT_FOUND ? UNAVAILABLE : TEMPUNAVAIL;
}

/* The name of the client's address, if the name resolves to that address again. MAY WAIT. */
static struct str client_host(struct mail_session *session, struct arena *arena)
{
    const struct mail_server *server = session->server;
    struct dns_lookup lookup = {.settings = server->resolver,
                                .deadline_ms = clock_now.now_ms + server->resolver_timeout_ms,
                                .log = &session->log,
                                .arena = arena};
    struct addr client;
    struct resolved found;
    struct str name;

    mail_client(session, &client);
    session->log.action = "in resolving client address state";
    enum resolve_result result = resolver_name_of(&lookup, &client, &name);
    if (result != RESOLVE_OK) {
        return no_name(session, mail_client_text(session), result);
    }
    lookup.name = name;
    lookup.deadline_ms = clock_now.now_ms + server->resolver_timeout_ms;
    session->log.action = "in resolving client hostname";
    result = resolver_addresses(&lookup, &found);
    if (result != RESOLVE_OK) {
        return no_name(session, name, result);
    }
    for (unsigned i = 0; i < found.count; i++) {
        struct addr *addr = &found.items[i].addr;

        addr_set_port(addr, addr_port(&client));
        if (addr_equal(addr, &client)) {
            return arena_dup(&session->arena, name);
        }
    }
    return UNAVAILABLE;
}

/* Waits for the greeting delay: a client that sends before the greeting is not a mail server. MAY
 * WAIT. False: it was rejected, or has left. */
static bool wait_in_silence(struct mail_session *session, uint64_t delay_ms)
{
    session->log.action = "in delay pipelining state";
    enum wait_result result = mail_wait_input(session, clock_now.now_ms + delay_ms);
    if (result != WAIT_READY) {
        return result == WAIT_TIMED_OUT;
    }
    counters_mine->limited++;
    log_info(&session->log, 0, "client was rejected before greeting");
    mail_say(session, STR("503 5.5.0 Improper use of SMTP command pipelining\r\n"));
    return false;
}

static bool greet(struct mail_session *session)
{
    const struct smtp_settings *settings = mail_smtp_settings_of(session);
    const struct mail_server *server = session->server;

    session->host = UNAVAILABLE;
    if (server->resolver != NULL) {
        struct arena arena;

        arena_init(&arena);
        session->host = client_host(session, &arena);
        arena_free(&arena);
    }
    if (settings->greeting_delay_ms != 0 &&
        !wait_in_silence(session, settings->greeting_delay_ms)) {
        return false;
    }
    session->log.action = "in auth state";
    session->deadline_ms = clock_now.now_ms + server->timeout_ms;
    mail_sayf(session, "220 %.*s ESMTP ready\r\n", STR_ARG(server->server_name));
    return true;
}

/* ---- commands ---- */

static enum mail_step mail_smtp_say(struct mail_session *session, struct str text)
{
    mail_say(session, text);
    return MAIL_GOES_ON;
}

/* Rejects an unknown command. */
static enum mail_step unknown(struct mail_session *session)
{
    mail_say(session, INVALID);
    return mail_count_error(session);
}

/* Is it a command that only a backend accepts? */
static bool is_for_backend(const struct mail_command *command)
{
    return mail_command_is(command, "DATA") || mail_command_is(command, "VRFY") ||
           mail_command_is(command, "EXPN") || mail_command_is(command, "HELP");
}

static void mail_smtp_keep(struct buf *out, struct str text)
{
    out->len = 0;
    buf_append(out, text);
}

static enum mail_step hello(struct mail_session *session, const struct mail_command *command)
{
    const struct smtp_settings *settings = mail_smtp_settings_of(session);

    if (command->count != 1) {
        return mail_smtp_say(session, INVALID_ARGUMENT);
    }
    mail_smtp_keep(&session->helo, command->args[0]);
    session->from.len = session->to.len = 0;
    session->is_esmtp = mail_command_is(command, "EHLO");
    if (!session->is_esmtp) {
        mail_sayf(session, "250 %.*s\r\n", STR_ARG(session->server->server_name));
        return MAIL_GOES_ON;
    }
    return mail_smtp_say(session, mail_needs_starttls(session)
                                      ? settings->starttls_only_capabilities
                                  : mail_offers_starttls(session) ? settings->starttls_capabilities
                                                                  : settings->capabilities);
}

static enum mail_step auth(struct mail_session *session, const struct mail_command *command)
{
    if (mail_needs_starttls(session)) {
        return mail_smtp_say(session, INVALID);
    }
    if (command->count == 0) {
        return mail_smtp_say(session, INVALID_ARGUMENT);
    }
    unsigned method = sasl_method_named(command->args[0]);
    if (!((mail_smtp_settings_of(session)->auth | MAIL_ALWAYS) & method) || command->count > 2 ||
        (command->count == 2 && method == MAIL_CRAM_MD5)) {
        return mail_smtp_say(session, INVALID);
    }
    struct str initial = command->count == 2 ? command->args[1] : STR_NONE;
    mail_attempt_begin(session, method);
    switch (sasl_converse(session, method, initial, STR("334 "))) {
    case SASL_KNOWN:
        return mail_log_in(session);
    case SASL_INVALID:
        return mail_smtp_say(session, INVALID);
    case SASL_GONE:
        break;
    }
    return MAIL_OVER;
}

static struct str without_blanks(struct str line)
{
    while (str_ends(line, STR(" "))) {
        line.len--;
    }
    return line;
}

static enum mail_step mail_from(struct mail_session *session, const struct mail_command *command,
                                struct str line)
{
    if (!(mail_smtp_settings_of(session)->auth & MAIL_NONE)) {
        log_info(&session->log, 0, "client was rejected: \"%.*s\"", STR_ARG(line));
        return mail_smtp_say(session, STR("530 5.7.1 Authentication required\r\n"));
    }
    if (session->from.len != 0) {
        return mail_smtp_say(session, BAD_SEQUENCE);
    }
    if (command->count == 0) {
        return mail_smtp_say(session, INVALID_ARGUMENT);
    }
    mail_smtp_keep(&session->from, without_blanks(line));
    return mail_smtp_say(session, OK);
}

/* The first recipient determines the backend. */
static enum mail_step rcpt_to(struct mail_session *session, const struct mail_command *command,
                              struct str line)
{
    if (session->from.len == 0) {
        return mail_smtp_say(session, BAD_SEQUENCE);
    }
    if (command->count == 0) {
        return mail_smtp_say(session, INVALID_ARGUMENT);
    }
    mail_smtp_keep(&session->to, without_blanks(line));
    mail_attempt_begin(session, MAIL_NONE);
    session->login = session->password = STR("");
    return mail_log_in(session);
}

static enum mail_step starttls(struct mail_session *session)
{
    if (!mail_offers_starttls(session)) {
        return mail_smtp_say(session, INVALID);
    }
    mail_say(session, STR("220 2.0.0 Start TLS\r\n"));
    return mail_starttls(session) ? MAIL_GOES_ON : MAIL_OVER;
}

static enum mail_step obey(struct mail_session *session, const struct mail_command *command,
                           struct str line)
{
    if (mail_command_is(command, "HELO") || mail_command_is(command, "EHLO")) {
        return hello(session, command);
    }
    if (mail_command_is(command, "AUTH")) {
        return auth(session, command);
    }
    if (mail_command_is(command, "MAIL")) {
        return mail_from(session, command, line);
    }
    if (mail_command_is(command, "RCPT")) {
        return rcpt_to(session, command, line);
    }
    if (mail_command_is(command, "RSET")) {
        session->from.len = session->to.len = 0;
        return mail_smtp_say(session, OK);
    }
    if (mail_command_is(command, "NOOP")) {
        return mail_smtp_say(session, OK);
    }
    if (mail_command_is(command, "STARTTLS")) {
        return starttls(session);
    }
    if (mail_command_is(command, "QUIT")) {
        mail_smtp_say(session, STR("221 2.0.0 Bye\r\n"));
        return MAIL_OVER;
    }
    return is_for_backend(command) ? mail_smtp_say(session, INVALID) : unknown(session);
}

static enum mail_step mail_smtp_serve(struct mail_session *session)
{
    enum mail_step step = MAIL_GOES_ON;

    while (step == MAIL_GOES_ON) {
        struct mail_command command;
        struct str line;

        if (!mail_has_command(session, mail_read_line(session, &line), INVALID)) {
            return MAIL_OVER;
        }
        step = smtp_command_read(line, &command) ? obey(session, &command, line) : unknown(session);
    }
    return step;
}

const struct mail_protocol smtp_protocol = {
    .alpn = STR_INIT("\x04smtp"),
    .name = STR_INIT("smtp"),
    .ports = {25, 587, 465},
    .tells_client_host = true,
    .buffer_size = buffer_size,
    .greet = greet,
    .serve = mail_smtp_serve,
    .refuse = mail_smtp_refuse,
    .log_in = smtp_log_in,
};
