/* SMTP: the dialogue with a backend (RFC 5321, 4954, and Postfix's XCLIENT). */
#include "base/text.h"
#include "mail/modules/smtp/smtp.h"
#include "mail/words/sasl.h"

/* Reads a reply and keeps its last line. MAY WAIT. False: logged. */
static bool read_reply(struct mail_backend *backend)
{
    do {
        if (!backend_read(backend)) {
            return false;
        }
    } while (backend->reply.len > 3 && backend->reply.data[3] == '-');
    return true;
}

/* Reads a reply, which has to have this code. */
static bool agreed(struct mail_backend *backend, const char *code)
{
    return read_reply(backend) &&
           (str_starts(backend->reply, str_of(code)) || backend_refuses(backend, backend->reply));
}

static bool hello(struct mail_backend *backend, bool is_esmtp, struct str name)
{
    backend_sayf(backend, "%s %.*s\r\n", is_esmtp ? "EHLO" : "HELO", STR_ARG(name));
    return agreed(backend, "250");
}

/* Sends the client's address, since the backend sees only ours, and repeats the client's EHLO or
 * HELO. */
static bool xclient(struct mail_backend *backend)
{
    struct mail_session *session = backend->session;
    struct str address = mail_client_text(session);
    /* With smtp_auth the backend gets the login by AUTH. */
    struct str login =
        backend->settings->smtp_auth ? STR("") : xtext_encode(&session->attempt, session->login);
    const char *family = str_find_char(address, ':') != NULL ? "IPV6:" : "";

    if (str_is(address, "unix:")) {
        address = STR("[UNAVAILABLE]");
        family = "";
    }
    backend_sayf(backend, "XCLIENT ADDR=%s%.*s%s%.*s NAME=%.*s\r\n", family, STR_ARG(address),
                 login.len != 0 ? " LOGIN=" : "", STR_ARG(login), STR_ARG(session->host));
    if (!read_reply(backend)) {
        return false;
    }
    if (!str_starts(backend->reply, STR("220")) && !str_starts(backend->reply, STR("250"))) {
        return backend_refuses(backend, backend->reply);
    }
    return session->helo.len == 0 || hello(backend, session->is_esmtp, buf_str(&session->helo));
}

/* Logs in with the client's credentials. */
static bool authenticate(struct mail_backend *backend)
{
    struct mail_session *session = backend->session;

    if (session->password.data == NULL) {
        session->log.action = "sending AUTH to upstream";
        log_error(&session->log, 0, "no password available");
        return false;
    }
    struct str parts[] = {{"", 1}, session->login, {"", 1}, session->password};
    struct str text =
        base64_encode(&session->attempt, arena_join(&session->attempt, parts, 4), false);
    backend_sayf(backend, "AUTH PLAIN %.*s\r\n", STR_ARG(text));
    return agreed(backend, "235");
}

/* Repeats the client's MAIL and RCPT. The backend's reply to RCPT goes to the client. */
static bool begin_mail(struct mail_backend *backend)
{
    struct mail_session *session = backend->session;

    backend_sayf(backend, "%.*s\r\n", STR_ARG(buf_str(&session->from)));
    if (!agreed(backend, "250")) {
        return false;
    }
    backend_sayf(backend, "%.*s\r\n", STR_ARG(buf_str(&session->to)));
    if (!backend_read(backend)) {
        return false;
    }
    mail_sayf(session, "%.*s\r\n", STR_ARG(backend->reply)); /* the relay passes on further lines */
    return true;
}

bool smtp_log_in(struct mail_backend *backend)
{
    struct mail_session *session = backend->session;
    const struct mail_proxy *settings = backend->settings;

    if (!agreed(backend, "220") ||
        !hello(backend, session->is_esmtp || settings->xclient, session->server->server_name)) {
        return false;
    }
    if (settings->xclient && !xclient(backend)) {
        return false;
    }
    if (session->method == MAIL_NONE) {
        return begin_mail(backend);
    }
    if (settings->smtp_auth && !authenticate(backend)) {
        return false;
    }
    mail_say(session, STR("235 2.0.0 OK\r\n"));
    return true;
}
