/* ngx_http_ssl_module: what its files share. */
#ifndef HTTP_MODULES_SSL_SSL_H
#define HTTP_MODULES_SSL_SSL_H

#include "conf/directive.h"
#include "http/connection.h"
#include "http/settings.h"
#include "net/tls/tls.h"

/* Settings of a server. */
struct ssl_settings {
    /* As written. */
    bool ssl;                /* the old directive: all addresses of the server speak TLS */
    struct vec certificates; /* struct template *: files, "data:…", or text with variables */
    struct vec keys;         /* struct template *: one for each certificate */
    struct vec passwords;    /* struct str */
    unsigned protocols;      /* enum tls_protocol bits */
    struct str ciphers;
    struct str curves;
    struct str dhparam;
    bool prefer_server_ciphers;
    struct vec commands; /* struct str pairs */
    struct str client_certificate;
    struct str trusted_certificate;
    struct str crl;
    unsigned verify; /* enum tls_verify */
    int64_t verify_depth;
    bool rejects_handshake;
    bool early_data;
    bool compresses_certificates;
    struct vec ech_files; /* struct str */
    bool tickets;
    struct vec ticket_keys; /* struct str: full names */
    bool has_session_cache;
    struct zone *session_zone;
    unsigned builtin_sessions;
    uint64_t session_timeout_s;
    bool stapling, stapling_verify;
    struct str stapling_file, stapling_responder;
    unsigned ocsp; /* 0 off, 1 on, 2 leaf */
    struct str ocsp_responder;
    struct zone *ocsp_zone;
    uint64_t buffer_size;
    bool watches_files;
    struct log_file *key_log;                        /* NULL = none */
    struct tls_certificate_cache *certificate_cache; /* NULL = off */

    /* Derived. */
    struct tls_context *context; /* NULL: the server has no certificate of its own */
    bool has_variables;          /* certificates are known in the handshake only */
    bool has_exceptions;         /* some location takes clients without a certificate */
};

/* Settings of a location. */
struct ssl_place_settings {
    bool is_exempt; /* from the server's ssl_verify_client */
};

extern struct directive_table ssl_table, ssl_place_table;

static inline const struct ssl_settings *ssl_settings_of(const struct http_server *server)
{
    return server->settings[ssl_table.index];
}

static inline const struct ssl_place_settings *ssl_place_of(const struct http_location *location)
{
    return location->settings[ssl_place_table.index];
}

/* handshake.c: `accepted` of listeners that speak TLS. */
void ssl_accepted(struct listener *listener, int fd, const struct addr *peer);
/* The worker ends at once: connections in their handshake go. */
void ssl_abort(void);

/* context.c: makes the server's context, when its block was read; false after conf_error. */
bool ssl_finish(struct conf_scope *scope, void *settings);
/* A location was read; tells its server that it is exempt. */
bool ssl_place_finish(struct conf_scope *scope, void *settings);
/* When all servers are read: which listeners speak TLS, and whether they can. */
bool ssl_end(struct conf *conf, struct http_main *main);

/* values.c: rows that read their arguments themselves. */
bool ssl_password_file_apply(struct conf_scope *scope, const struct directive *row,
                             struct conf_node *node, void *settings);
bool ssl_session_cache_apply(struct conf_scope *scope, const struct directive *row,
                             struct conf_node *node, void *settings);
bool ssl_ticket_key_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings);
bool ssl_ech_file_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings);
bool ssl_conf_command_apply(struct conf_scope *scope, const struct directive *row,
                            struct conf_node *node, void *settings);
bool ssl_certificate_cache_apply(struct conf_scope *scope, const struct directive *row,
                                 struct conf_node *node, void *settings);
bool ssl_ocsp_cache_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings);
bool ssl_key_log_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings);
bool ssl_pass_phrase_dialog_apply(struct conf_scope *scope, const struct directive *row,
                                  struct conf_node *node, void *settings);

/* variables.c */
extern const struct variable ssl_variables[];

/* check.c: is the request allowed over this connection? For every request. */
enum flow ssl_check(struct request *request);
/* The same of the client's certificate at each place that a request comes to, where some are exempt. */
enum flow ssl_check_place(struct request *request);

#endif
