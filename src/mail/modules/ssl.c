/* ngx_mail_ssl_module: TLS with clients. */
#include "mail/session/session.h"
#include "server/module.h"

static bool check_together(struct conf *conf, const struct conf_node *node,
                           const struct mail_ssl *ssl, const char *text)
{
    return !ssl->ssl || ssl->starttls == STARTTLS_OFF || conf_error(conf, node, "%s", text);
}

static bool ssl_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings)
{
    return check_together(scope->conf, node, settings,
                          "\"starttls\" directive conflicts with \"ssl on\"");
}

static bool starttls_apply(struct conf_scope *scope, const struct directive *row,
                           struct conf_node *node, void *settings)
{
    return check_together(scope->conf, node, settings,
                          "\"ssl\" directive conflicts with \"starttls\"");
}

static const struct directive_word starttls_words[] = {
    {"off", STARTTLS_OFF},
    {"on", STARTTLS_ON},
    {"only", STARTTLS_ONLY},
    {NULL, 0},
};

static const struct directive rows[] = {
    {"ssl", IN_MAIL_ALL, FLAG(struct mail_ssl, ssl), .initial = "off", .apply = ssl_apply,
     .replaced_by = "listen ... ssl",
     .doc = "Old form of the `ssl` parameter of listen, for all addresses of a server."},
    {"starttls", IN_MAIL_ALL, ENUM(struct mail_ssl, starttls, starttls_words), .initial = "off",
     .apply = starttls_apply,
     .doc = "Whether clients may switch to TLS by the STARTTLS or STLS command. With `only`, "
            "they can log in only after that."},
    TLS_SERVER_ROWS(IN_MAIL_ALL),
    {0},
};

/* ---- after a server was read ---- */

/* The directive that needs a certificate, or NULL. */
static const char *needs_tls(struct mail_server *server, const struct mail_ssl *ssl)
{
    vec_each(struct mail_listen *, listen, &server->listens) {
        (*listen)->address.is_ssl |= ssl->ssl;
    }
    if (ssl->ssl) {
        return "ssl";
    }
    vec_each(struct mail_listen *, listen, &server->listens) {
        if ((*listen)->address.is_ssl) {
            return "listen ... ssl";
        }
    }
    return ssl->starttls != STARTTLS_OFF ? "starttls" : NULL;
}

static bool lacks(struct conf_scope *scope, const struct mail_server *server, const char *what,
                  const char *why)
{
    return conf_error(scope->conf, server->node, "no \"%s\" is defined for the \"%s\" directive",
                      what, why);
}

static bool mail_ssl_check(struct conf_scope *scope, struct mail_server *server)
{
    struct mail_ssl *ssl = mail_settings(server, &mail_ssl_key);
    const char *why = needs_tls(server, ssl);

    if (why == NULL) {
        return true;
    }
    if (ssl->tls.early_data) {
        return conf_error(scope->conf, server->node,
                          "\"ssl_early_data\" is not for mail: its commands can be replayed");
    }
    if (ssl->tls.certificates.count == 0) {
        return lacks(scope, server, "ssl_certificate", why);
    }
    if (ssl->tls.keys.count == 0) {
        return lacks(scope, server, "ssl_certificate_key", why);
    }
    return tls_server_finish(scope, &ssl->tls, server->resolver, server->resolver_timeout_ms,
                             &server->error_log);
}

static const struct mail_module hooks = {.check = mail_ssl_check};

static bool mail_ssl_worker_start(struct generation *generation)
{
    return tls_worker_start(&generation->log);
}

static void mail_ssl_worker_end(struct generation *generation)
{
    tls_worker_end();
}

const struct module ngx_mail_ssl_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_mail_ssl_module",
    .kind = MODULE_MAIL,
    .table = {.key = &mail_ssl_key,
              .rows = rows,
              .contexts = IN_MAIL_ALL,
              .size = sizeof(struct mail_ssl)},
    .hooks = &hooks,
    .worker_start = mail_ssl_worker_start,
    .worker_end = mail_ssl_worker_end,
};
