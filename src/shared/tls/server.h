/* TLS on the side of clients: the settings of a server, their rows, and the context. */
#ifndef SHARED_TLS_SERVER_H
#define SHARED_TLS_SERVER_H

#include "conf/directive.h"
#include "net/tls/tls.h"
#include "shared/tls/options.h"

/* The settings of a server. A module's struct begins with them. */
struct tls_server_settings {
    /* As written. */
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
    struct vec ticket_keys;   /* struct str: full names */
    uint64_t ticket_period_s; /* of automatic keys; 0 = session_timeout_s */
    bool has_session_cache;
    struct zone *session_zone;
    const struct tls_session_sharing *session_sharing; /* NULL: sessions of this node only */
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
    struct tls_context *context; /* NULL: the server has no certificate */
    bool has_variables;          /* certificates are known only in the handshake */
};

/* To be called after the block of a server was read that has certificates, or rejects handshakes:
 * creates the context. False after conf_error. */
bool tls_server_finish(struct conf_scope *scope, struct tls_server_settings *settings,
                       const struct resolver_settings *resolver, uint64_t resolver_timeout_ms,
                       struct log_sink *const *error_log);

/* In a handshake, if names of certificates have variables: loads the certificates. False:
   logged. */
bool tls_server_certify(const struct tls_server_settings *settings, struct conn *conn,
                        struct variable_env *env);

extern const struct directive_word tls_verify_words[];
extern const struct directive_word tls_ocsp_words[];

/* Rows that parse their arguments themselves (server_values.c); settings begin with struct
 * tls_server_settings. */
typedef bool tls_server_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *settings);
tls_server_apply tls_server_password_file_apply, tls_server_key_log_apply,
    tls_server_pass_phrase_dialog_apply, tls_server_ticket_key_apply, tls_server_ech_file_apply,
    tls_server_conf_command_apply, tls_server_session_cache_apply, tls_server_ocsp_cache_apply,
    tls_server_certificate_cache_apply;

#define TLS_SERVER_S struct tls_server_settings

/* The rows of an ssl module, for blocks of this context. */
#define TLS_SERVER_ROWS(CONTEXT)                                                                   \
    {"ssl_certificate",                                                                            \
     CONTEXT,                                                                                      \
     TEMPLATES(TLS_SERVER_S, certificates),                                                        \
     ARGS(1, 1),                                                                                   \
     .repeat = REPEAT_APPEND,                                                                      \
     .syntax = "file",                                                                             \
     .doc = "PEM file with the server's certificate, followed by intermediate certificates; "      \
            "or \"data:\" and the PEM text. Several certificates may be given, for example "       \
            "RSA and ECDSA. A name with variables is evaluated for each handshake."},              \
        {"ssl_certificate_key",                                                                    \
         CONTEXT,                                                                                  \
         TEMPLATES(TLS_SERVER_S, keys),                                                            \
         ARGS(1, 1),                                                                               \
         .repeat = REPEAT_APPEND,                                                                  \
         .syntax = "file",                                                                         \
         .doc = "PEM file with the private key of the certificate; or data:TEXT, "                 \
                "engine:NAME:ID, store:URI."},                                                     \
        {"ssl_certificate_cache",                                                                  \
         CONTEXT,                                                                                  \
         CUSTOM_FIELD(TLS_SERVER_S, certificate_cache, tls_server_certificate_cache_apply),        \
         ARGS(1, 3),                                                                               \
         .initial = "off",                                                                         \
         .syntax = "off | max=N [inactive=time] [valid=time]",                                     \
         .doc = "Cache for certificates and keys whose names contain variables. `max` is the "     \
                "largest number of entries; an entry that is not used for `inactive` (10s) is "    \
                "removed; the files are checked for changes after `valid` (60s)."},                \
        {"ssl_certificate_watch", CONTEXT, FLAG(TLS_SERVER_S, watches_files), .initial = "off",    \
         .doc = "Reloads certificates, keys and lists when their files change, without a reload "  \
                "of the configuration. The worker's user must be able to read them. nginx does "   \
                "not have this directive."},                                                       \
        {"ssl_certificate_compression", CONTEXT, FLAG(TLS_SERVER_S, compresses_certificates),      \
         .initial = "off",                                                                         \
         .doc = "Enables certificate compression (RFC 8879); it requires OpenSSL 3.2 or later."},  \
        {"ssl_password_file",                                                                      \
         CONTEXT,                                                                                  \
         CUSTOM_FIELD(TLS_SERVER_S, passwords, tls_server_password_file_apply),                    \
         ARGS(1, 1),                                                                               \
         .syntax = "file",                                                                         \
         .doc = "File with passphrases of private keys, one per line; they are tried in turn."},   \
        {"ssl_pass_phrase_dialog",                                                                 \
         CONTEXT,                                                                                  \
         CUSTOM(tls_server_pass_phrase_dialog_apply),                                              \
         ARGS(1, 1),                                                                               \
         .syntax = "builtin | exec:program",                                                       \
         .doc = "Source of passphrases: the terminal, or a program that prints one. From "         \
                "Tengine."},                                                                       \
        {"ssl_protocols",                                                                          \
         CONTEXT,                                                                                  \
         BITS(TLS_SERVER_S, protocols, tls_protocol_words),                                        \
         .repeat = REPEAT_APPEND,                                                                  \
         .initial = "TLSv1.2 TLSv1.3",                                                             \
         .doc = "TLS versions that are enabled."},                                                 \
        {"ssl_ciphers", CONTEXT, STRING(TLS_SERVER_S, ciphers), .initial = "HIGH:!aNULL:!MD5",     \
         .doc = "Ciphers for TLS 1.2 and older, in OpenSSL's format."},                            \
        {"ssl_prefer_server_ciphers", CONTEXT, FLAG(TLS_SERVER_S, prefer_server_ciphers),          \
         .initial = "off",                                                                         \
         .doc = "Whether the server's order of ciphers takes precedence over the client's."},      \
        {"ssl_ecdh_curve", CONTEXT, STRING(TLS_SERVER_S, curves), .initial = "auto",               \
         .doc = "Groups for the key exchange, separated by colons."},                              \
        {"ssl_dhparam", CONTEXT, CONF_PATH(TLS_SERVER_S, dhparam),                                 \
         .doc = "File with the parameters of DHE ciphers."},                                       \
        {"ssl_conf_command",                                                                       \
         CONTEXT,                                                                                  \
         CUSTOM_FIELD(TLS_SERVER_S, commands, tls_server_conf_command_apply),                      \
         ARGS(2, 2),                                                                               \
         .repeat = REPEAT_APPEND,                                                                  \
         .syntax = "name value",                                                                   \
         .doc = "Sets an OpenSSL configuration command, as in SSL_CONF_cmd(3)."},                  \
        {"ssl_verify_client", CONTEXT, ENUM(TLS_SERVER_S, verify, tls_verify_words),               \
         .initial = "off",                                                                         \
         .doc = "Whether client certificates are requested and verified. `on`: a valid "           \
                "certificate is required; `optional`: clients without a certificate are "          \
                "accepted; `optional_no_ca`: certificates of unknown authorities are accepted "    \
                "as well."},                                                                       \
        {"ssl_verify_depth", CONTEXT, NUMBER(TLS_SERVER_S, verify_depth), .initial = "1",          \
         .doc = "Largest number of intermediate certificates between a client's certificate and "  \
                "a trusted one."},                                                                 \
        {"ssl_client_certificate", CONTEXT, CONF_PATH(TLS_SERVER_S, client_certificate),           \
         .doc = "PEM file with the CA certificates that client certificates are verified with; "   \
                "their names are sent to clients."},                                               \
        {"ssl_trusted_certificate", CONTEXT, CONF_PATH(TLS_SERVER_S, trusted_certificate),         \
         .doc = "PEM file with CA certificates that client certificates and OCSP responses are "   \
                "verified with; their names are not sent to clients."},                            \
        {"ssl_crl", CONTEXT, CONF_PATH(TLS_SERVER_S, crl),                                         \
         .doc = "PEM file with certificate revocation lists (CRLs) for client certificates. "      \
                "After a reload a new list applies to existing sessions as well: they are not "    \
                "resumed."},                                                                       \
        {"ssl_ocsp", CONTEXT, ENUM(TLS_SERVER_S, ocsp, tls_ocsp_words), .initial = "off",          \
         .doc = "Whether client certificates are validated with OCSP; `leaf`: only the client's "  \
                "own certificate is."},                                                            \
        {"ssl_ocsp_responder", CONTEXT, STRING(TLS_SERVER_S, ocsp_responder),                      \
         .doc = "URL of the OCSP responder, instead of the one in the certificate; for client "    \
                "certificates."},                                                                  \
        {"ssl_ocsp_cache",                                                                         \
         CONTEXT,                                                                                  \
         CUSTOM_FIELD(TLS_SERVER_S, ocsp_zone, tls_server_ocsp_cache_apply),                       \
         ARGS(1, 1),                                                                               \
         .initial = "off",                                                                         \
         .syntax = "off | shared:name:size",                                                       \
         .doc = "Cache of OCSP responses for client certificates, shared between the workers."},   \
        {"ssl_stapling", CONTEXT, FLAG(TLS_SERVER_S, stapling), .initial = "off",                  \
         .doc = "Enables OCSP stapling: an OCSP response is sent with the server's certificate."}, \
        {"ssl_stapling_file", CONTEXT, CONF_PATH(TLS_SERVER_S, stapling_file),                     \
         .doc = "File with the OCSP response in DER format, which is sent instead of requesting "  \
                "one from the responder."},                                                        \
        {"ssl_stapling_responder", CONTEXT, STRING(TLS_SERVER_S, stapling_responder),              \
         .doc = "URL of the OCSP responder for stapling, instead of the one in the certificate."}, \
        {"ssl_stapling_verify", CONTEXT, FLAG(TLS_SERVER_S, stapling_verify), .initial = "off",    \
         .doc = "Whether OCSP responses are verified before they are sent."},                      \
        {"ssl_session_cache",                                                                      \
         CONTEXT,                                                                                  \
         CUSTOM(tls_server_session_cache_apply),                                                   \
         ARGS(1, 4),                                                                               \
         .initial = "none",                                                                        \
         .repeat = REPEAT_CUSTOM,                                                                  \
         .syntax = "off | none | [builtin[:size]] [shared:name:size "                              \
                   "[sync[=store]] [sync_interval=time]]",                                         \
         .doc = "Cache of TLS sessions that clients resume by session ID. All servers of an "      \
                "address use the cache of its default server. With `sync` all nodes that share "   \
                "a `redis_store` share the sessions."},                                            \
        {"ssl_session_timeout", CONTEXT, SEC(TLS_SERVER_S, session_timeout_s), .initial = "5m",    \
         .doc = "Time during which a session may be resumed. Ticket keys that do not come from "   \
                "files are replaced at the same interval."},                                       \
        {"ssl_session_tickets", CONTEXT, FLAG(TLS_SERVER_S, tickets), .initial = "on",             \
         .doc = "Enables session resumption by tickets."},                                         \
        {"ssl_session_ticket_key",                                                                 \
         CONTEXT,                                                                                  \
         CUSTOM_FIELD(TLS_SERVER_S, ticket_keys, tls_server_ticket_key_apply),                     \
         ARGS(1, 4),                                                                               \
         .repeat = REPEAT_APPEND,                                                                  \
         .syntax = "file | auto [time] [sync[=store]]",                                            \
         .doc = "File with 80 or 48 random bytes: a key for session tickets. The first key "       \
                "encrypts, all of them decrypt. Files are read again when they change. `auto`: "   \
                "the server generates keys for all workers; each key encrypts for the given "      \
                "time (by default ssl_session_timeout) and decrypts for the same time after "      \
                "that. `sync`: all nodes that share a `redis_store` share the keys. All servers "  \
                "of an address use the keys of its default server."},                              \
        {"ssl_early_data", CONTEXT, FLAG(TLS_SERVER_S, early_data), .initial = "off",              \
         .doc = "Accepts requests in TLS 1.3 early data, which can be replayed: see "              \
                "`$ssl_early_data`. Both the default server of the address and the named server "  \
                "must enable it."},                                                                \
        {"ssl_reject_handshake", CONTEXT, FLAG(TLS_SERVER_S, rejects_handshake), .initial = "off", \
         .doc = "Whether TLS handshakes for this server are rejected, with the alert "             \
                "unrecognized_name."},                                                             \
        {"ssl_ech_file",                                                                           \
         CONTEXT,                                                                                  \
         CUSTOM_FIELD(TLS_SERVER_S, ech_files, tls_server_ech_file_apply),                         \
         ARGS(1, 1),                                                                               \
         .repeat = REPEAT_APPEND,                                                                  \
         .syntax = "file",                                                                         \
         .doc = "File with keys for Encrypted Client Hello (ECH); requires an OpenSSL that "       \
                "supports it."},                                                                   \
        {"ssl_buffer_size", CONTEXT, SIZE(TLS_SERVER_S, buffer_size), .initial = "16k",            \
         .doc = "Largest size of a TLS record."},                                                  \
    {                                                                                              \
        "ssl_key_log", CONTEXT, CUSTOM_FIELD(TLS_SERVER_S, key_log, tls_server_key_log_apply),     \
            ARGS(1, 1),                                                                            \
            .syntax = "file",                                                                      \
            .doc = "File to which the secrets of connections are logged, in the SSLKEYLOGFILE "    \
                   "format, for programs that decrypt captured traffic. It is reopened with the "  \
                   "other logs and readable by its owner only."                                    \
    }

#endif
