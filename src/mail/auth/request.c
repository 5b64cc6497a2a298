/* The request to the authentication server. */
#include "base/text.h"
#include "mail/auth/auth.h"
#include "mail/words/sasl.h"

static struct str method_name(unsigned method)
{
    switch (method) {
    case MAIL_APOP:
        return STR("apop");
    case MAIL_CRAM_MD5:
        return STR("cram-md5");
    case MAIL_EXTERNAL:
        return STR("external");
    case MAIL_NONE:
        return STR("none");
    default:
        return STR("plain");
    }
}

static void field(struct buf *out, const char *name, struct str value)
{
    buf_append(out, str_of(name));
    buf_append(out, STR(": "));
    buf_append(out, value);
    buf_append(out, STR("\r\n"));
}

/* A field with a value from the client: spaces, control characters and '%' become %XX. */
static void escaped_field(struct mail_session *session, struct buf *out, const char *name,
                          struct str value)
{
    field(out, name, escape_str(&session->attempt, value, ESCAPE_MEMCACHED));
}

static void put_end(struct buf *out, const char *name, const struct addr *addr)
{
    char text[ADDR_TEXT_MAX];

    if (addr->len != 0) {
        size_t length = addr_format(addr, false, text);

        buf_printf(out, "Proxy-Protocol-%sAddr: %.*s\r\n", name, (int) length, text);
        buf_printf(out, "Proxy-Protocol-%sPort: %u\r\n", name, addr_port(addr));
    }
}

static void put_client(struct mail_session *session, struct buf *out)
{
    field(out, "Client-IP", mail_client_text(session));
    if (session->proxy != NULL) {
        put_end(out, "", &session->proxy->source);
        put_end(out, "Server-", &session->proxy->destination);
    }
    if (session->server->protocol->tells_client_host) {
        field(out, "Client-Host", session->host);
    }
    if (session->method == MAIL_NONE) {
        field(out, "Auth-SMTP-Helo", buf_str(&session->helo));
        field(out, "Auth-SMTP-From", buf_str(&session->from));
        field(out, "Auth-SMTP-To", buf_str(&session->to));
    }
}

static void tls_field(struct mail_session *session, struct buf *out, const char *name,
                      const char *variable)
{
    struct str value;

    if (mail_tls_variable(session, str_of(variable), &value) && value.len != 0) {
        escaped_field(session, out, name, value);
    }
}

static void put_certificate(struct mail_session *session, const struct mail_auth *auth,
                            struct buf *out)
{
    static const char *const texts[][2] = {
        {"Auth-SSL-Subject", "client_s_dn"},
        {"Auth-SSL-Issuer", "client_i_dn"},
        {"Auth-SSL-Serial", "client_serial"},
        {"Auth-SSL-Fingerprint", "client_fingerprint"},
    };
    struct str value;

    if (mail_tls_variable(session, STR("client_verify"), &value)) {
        field(out, "Auth-SSL-Verify", value);
    }
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (mail_tls_variable(session, str_of(texts[i][1]), &value) && value.len != 0) {
            field(out, texts[i][0], escape_str(&session->attempt, value, ESCAPE_CONTROLS));
        }
    }
    if (auth->passes_client_cert) {
        tls_field(session, out, "Auth-SSL-Cert", "client_raw_cert");
    }
}

static void put_tls(struct mail_session *session, const struct mail_auth *auth, struct buf *out)
{
    const struct mail_ssl *ssl = mail_settings(session->server, &mail_ssl_key);

    field(out, "Auth-SSL", STR("on"));
    tls_field(session, out, "Auth-SSL-Protocol", "protocol");
    tls_field(session, out, "Auth-SSL-Cipher", "cipher");
    if (ssl->tls.verify != TLS_VERIFY_OFF) {
        put_certificate(session, auth, out);
    }
}

struct str mail_auth_request(struct mail_session *session, const struct mail_auth *auth)
{
    struct buf out = {0};

    buf_printf(&out, "GET %.*s HTTP/1.0\r\nHost: %.*s\r\n", STR_ARG(auth->uri),
               STR_ARG(auth->host));
    field(&out, "Auth-Method", method_name(session->method));
    escaped_field(session, &out, "Auth-User", session->login);
    escaped_field(session, &out, "Auth-Pass", session->password);
    if ((session->method & (MAIL_PLAIN | MAIL_LOGIN)) == 0 && session->salt.len != 0) {
        field(&out, "Auth-Salt", session->salt);
    }
    field(&out, "Auth-Protocol", session->server->protocol->name);
    buf_printf(&out, "Auth-Login-Attempt: %u\r\n", session->attempts);
    put_client(session, &out);
    if (mail_is_secure(session)) {
        put_tls(session, auth, &out);
    }
    buf_append(&out, auth->headers);
    buf_append(&out, STR("\r\n"));
    struct str request = arena_dup(&session->attempt, buf_str(&out));
    buf_free(&out);
    return request;
}
