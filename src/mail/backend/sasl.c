/* SASL exchanges. */
#include "mail/backend/sasl.h"

#include "base/text.h"
#include "mail/words/sasl.h"

static const char *command_name(unsigned method)
{
    switch (method) {
    case MAIL_PLAIN:
        return "PLAIN";
    case MAIL_LOGIN:
        return "LOGIN";
    case MAIL_CRAM_MD5:
        return "CRAM-MD5";
    default:
        return "EXTERNAL";
    }
}

static enum sasl_outcome mail_sasl_invalid(struct mail_session *session, unsigned method,
                                           const char *what)
{
    log_info(&session->log, 0, "client sent %s in AUTH %s command", what, command_name(method));
    return SASL_INVALID;
}

/* Decodes base64 into session->attempt; the data of the result is never NULL. */
static enum sasl_outcome mail_sasl_decode(struct mail_session *session, unsigned method,
                                          struct str text, struct str *out)
{
    if (str_is(text, "=")) { /* RFC 4954, 4: an empty response */
        text = STR("");
    }
    if (!base64_decode(&session->attempt, text, false, out)) {
        return mail_sasl_invalid(session, method, "invalid base64 encoding");
    }
    if (out->len == 0) {
        *out = STR("");
    }
    return SASL_KNOWN;
}

/* Sends a challenge and reads the client's response. MAY WAIT. */
static enum sasl_outcome mail_sasl_ask(struct mail_session *session, unsigned method,
                                       struct str prefix, struct str challenge, struct str *out)
{
    struct str line;

    mail_sayf(session, "%.*s%.*s\r\n", STR_ARG(prefix), STR_ARG(challenge));
    if (mail_read_line(session, &line) != MAIL_LINE) {
        return SASL_GONE;
    }
    return mail_sasl_decode(session, method, line, out);
}

static enum sasl_outcome plain(struct mail_session *session, struct str text)
{
    const char *wrong = sasl_plain_read(text, &session->login, &session->password);

    if (wrong != NULL) {
        session->login = session->password = STR_NONE;
        return mail_sasl_invalid(session, MAIL_PLAIN, wrong);
    }
    if (session->password.len == 0) {
        session->password = STR("");
    }
    return SASL_KNOWN;
}

static enum sasl_outcome cram_md5(struct mail_session *session, struct str text)
{
    const char *wrong = sasl_cram_md5_read(text, &session->login, &session->password);

    return wrong == NULL ? SASL_KNOWN : mail_sasl_invalid(session, MAIL_CRAM_MD5, wrong);
}

/* "Username:" and "Password:", in base64, as all clients expect them. */
#define ASK_USER STR("VXNlcm5hbWU6")
#define ASK_PASSWORD STR("UGFzc3dvcmQ6")

enum sasl_outcome sasl_converse(struct mail_session *session, unsigned method, struct str initial,
                                struct str prefix)
{
    struct str challenge = STR("");
    enum sasl_outcome outcome;
    struct str text;

    if (method == MAIL_CRAM_MD5) {
        challenge = base64_encode(&session->attempt, mail_salt(session), false);
    } else if (method != MAIL_PLAIN) {
        challenge = ASK_USER;
    }
    outcome = initial.data != NULL ? mail_sasl_decode(session, method, initial, &text)
                                   : mail_sasl_ask(session, method, prefix, challenge, &text);
    if (outcome != SASL_KNOWN) {
        return outcome;
    }
    switch (method) {
    case MAIL_PLAIN:
        return plain(session, text);
    case MAIL_CRAM_MD5:
        return cram_md5(session, text);
    default:
        session->login = text;
        session->password = STR("");
        return method == MAIL_LOGIN
                   ? mail_sasl_ask(session, method, prefix, ASK_PASSWORD, &session->password)
                   : SASL_KNOWN;
    }
}
