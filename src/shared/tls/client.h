/* TLS towards backends: the settings of a location, their rows, the context, and the TLS parameters
 * of a connection. */
#ifndef SHARED_TLS_CLIENT_H
#define SHARED_TLS_CLIENT_H

#include "conf/directive.h"
#include "net/tls/tls.h"
#include "shared/tls/options.h"
#include "upstream/connection.h"

/* The CA certificates of the system: PEM. */
#define TLS_SYSTEM_AUTHORITIES "/etc/ssl/certs/ca-certificates.crt"

/* The values of *_ssl_… in one location. */
struct tls_client_settings {
    /* As written. */
    struct template *certificate, *certificate_key;  /* of this server; NULL = none */
    struct vec passwords;                            /* struct str: for the key */
    struct tls_certificate_cache *certificate_cache; /* with variables; NULL = off */
    unsigned protocols;                              /* enum tls_protocol bits */
    struct str ciphers;                              /* for TLS 1.2 and older */
    struct vec commands;                             /* struct str pairs */
    struct template *name;          /* expected name of the server; NULL = the host of *_pass */
    bool server_name;               /* send it (SNI) */
    bool session_reuse;             /* resume sessions of earlier connections */
    bool verify;                    /* the certificate must be trusted, and match the name */
    int64_t verify_depth;           /* most certificates in a chain */
    struct str trusted_certificate; /* full path, or empty */
    struct str crl;                 /* likewise */
    struct log_file *key_log;       /* gets the secrets of connections; NULL = none */

    /* Derived. */
    bool is_needed;              /* a *_pass of the location uses TLS, or may use it */
    bool is_certificate_late;    /* has variables: it is loaded for each handshake */
    struct tls_context *context; /* NULL unless needed */
};

/* A context with these settings; one per reading for the same settings. NULL with *error. */
struct tls_context *tls_client_context(struct conf *conf, const struct tls_settings *made,
                                       struct str *error);

/*
 * To be called after a block was read: creates the context if one is needed; locations with the
 * same settings share it. prefix: of the rows, for messages. False after conf_error.
 */
bool tls_client_finish(struct conf_scope *scope, struct tls_client_settings *own,
                       const char *prefix);

/*
 * Sets the TLS parameters of a connection for one subject. target: the name in *_pass. alpn: in the
 * format of TLS, a byte with the length before each name; or empty. The strings are in env's arena,
 * or live as long as the settings.
 */
void tls_client_link(const struct tls_client_settings *tls, struct variable_env *env,
                     struct str target, struct str alpn, struct upstream_connection_tls *out);
/* The same for connections to a group without a subject, such as health checks: settings with
 * variables are left out. */
const struct upstream_connection_tls *tls_client_group_link(struct arena *arena,
                                                            const struct tls_client_settings *tls,
                                                            const struct upstream_group *group,
                                                            struct str alpn);

/* Rows that parse their arguments themselves, into the field of the row. */
typedef bool tls_client_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *settings);
tls_client_apply tls_client_password_file_apply, tls_client_conf_command_apply,
    tls_client_certificate_cache_apply, tls_client_key_log_apply;

/* The family of rows; SETTINGS is a struct with a struct tls_client_settings as its member
 * `tls`. */
#define TLS_CLIENT_ROWS(PREFIX, CONTEXT, SETTINGS)                                                 \
    {PREFIX "_ssl_certificate", CONTEXT, TEMPLATE(SETTINGS, tls.certificate),                      \
     .doc = "Certificate for backends that request a client certificate: a PEM file, or "          \
            "data:text. If it contains variables, they are evaluated for each handshake."},        \
        {PREFIX "_ssl_certificate_key", CONTEXT, TEMPLATE(SETTINGS, tls.certificate_key),          \
         .doc = "Key of " PREFIX                                                                   \
                "_ssl_certificate: a PEM file, data:text, engine:name:id or store:URI."},          \
        {PREFIX "_ssl_certificate_cache",                                                          \
         CONTEXT,                                                                                  \
         CUSTOM_FIELD(SETTINGS, tls.certificate_cache, tls_client_certificate_cache_apply),        \
         ARGS(1, 3),                                                                               \
         .initial = "off",                                                                         \
         .syntax = "off | max=N [inactive=time] [valid=time]",                                     \
         .doc = "Cache for certificates and keys whose names contain variables. `max` is the "     \
                "largest number of entries; an entry that is not used for `inactive` (10s) is "    \
                "removed; the files are checked for changes after `valid` (60s)."},                \
        {PREFIX "_ssl_password_file",                                                              \
         CONTEXT,                                                                                  \
         CUSTOM_FIELD(SETTINGS, tls.passwords, tls_client_password_file_apply),                    \
         ARGS(1, 1),                                                                               \
         .syntax = "file",                                                                         \
         .doc = "File with passphrases of keys, one per line; they are tried in turn."},           \
        {PREFIX "_ssl_protocols",                                                                  \
         CONTEXT,                                                                                  \
         BITS(SETTINGS, tls.protocols, tls_protocol_words),                                        \
         .initial = "TLSv1.2 TLSv1.3",                                                             \
         .repeat = REPEAT_APPEND,                                                                  \
         .doc = "TLS versions that are enabled for connections to backends."},                     \
        {PREFIX "_ssl_ciphers", CONTEXT, STRING(SETTINGS, tls.ciphers), .initial = "DEFAULT",      \
         .doc = "Ciphers for TLS 1.2 and older, in OpenSSL's format."},                            \
        {PREFIX "_ssl_conf_command",                                                               \
         CONTEXT,                                                                                  \
         CUSTOM_FIELD(SETTINGS, tls.commands, tls_client_conf_command_apply),                      \
         ARGS(2, 2),                                                                               \
         .repeat = REPEAT_APPEND,                                                                  \
         .syntax = "name value",                                                                   \
         .doc = "Sets an OpenSSL configuration command, as in SSL_CONF_cmd(3)."},                  \
        {PREFIX "_ssl_name", CONTEXT, TEMPLATE(SETTINGS, tls.name),                                \
         .doc = "Name that the backend's certificate must contain with " PREFIX                    \
                "_ssl_verify, and that is sent to the backend with " PREFIX                        \
                "_ssl_server_name; by default the host of " PREFIX "_pass."},                      \
        {PREFIX "_ssl_server_name", CONTEXT, FLAG(SETTINGS, tls.server_name), .initial = "off",    \
         .doc =                                                                                    \
             "Whether the name of " PREFIX "_ssl_name is sent to the backend (SNI, RFC 6066)."},   \
        {PREFIX "_ssl_session_reuse", CONTEXT, FLAG(SETTINGS, tls.session_reuse), .initial = "on", \
         .doc = "Whether TLS sessions are resumed on new connections to the backend."},            \
        {PREFIX "_ssl_verify", CONTEXT, FLAG(SETTINGS, tls.verify), .initial = "off",              \
         .doc = "Whether the backend's certificate is verified: it must be trusted and contain "   \
                "the name of " PREFIX "_ssl_name."},                                               \
        {PREFIX "_ssl_verify_depth",                                                               \
         CONTEXT,                                                                                  \
         NUMBER(SETTINGS, tls.verify_depth),                                                       \
         .initial = "1",                                                                           \
         .max = INT32_MAX,                                                                         \
         .doc = "Largest number of intermediate certificates between the backend's certificate "   \
                "and a trusted one."},                                                             \
        {PREFIX "_ssl_trusted_certificate", CONTEXT, CONF_PATH(SETTINGS, tls.trusted_certificate), \
         .doc = "PEM file with the trusted CA certificates that the backend's certificate is "     \
                "verified with."},                                                                 \
        {PREFIX "_ssl_key_log",                                                                    \
         CONTEXT,                                                                                  \
         CUSTOM_FIELD(SETTINGS, tls.key_log, tls_client_key_log_apply),                            \
         ARGS(1, 1),                                                                               \
         .syntax = "file",                                                                         \
         .doc = "File to which the secrets of connections are logged, in the SSLKEYLOGFILE "       \
                "format. It is readable by its owner only."},                                      \
    {                                                                                              \
        PREFIX "_ssl_crl", CONTEXT, CONF_PATH(SETTINGS, tls.crl),                                  \
            .doc = "PEM file with certificate revocation lists (CRLs) for backends' certificates." \
    }

#endif
