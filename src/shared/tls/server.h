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
#define TLS_SERVER_ROWS(CONTEXT)                                                                     \
    {"ssl_certificate",                                                                              \
     CONTEXT,                                                                                        \
     TEMPLATES(TLS_SERVER_S, certificates),                                                          \
     ARGS(1, 1),                                                                                     \
     .repeat = REPEAT_APPEND,                                                                        \
     .syntax = "file",                                                                               \
     .doc =                                                                                          \
         "PEM file with the server's certificate, then those of its authorities; or \"data:\" "      \
         "and the PEM text. There may be several, for RSA and ECDSA. With variables it is loaded "   \
         "in each handshake."},                                                                      \
        {"ssl_certificate_key",                                                                      \
         CONTEXT,                                                                                    \
         TEMPLATES(TLS_SERVER_S, keys),                                                              \
         ARGS(1, 1),                                                                                 \
         .repeat = REPEAT_APPEND,                                                                    \
         .syntax = "file",                                                                           \
         .doc = "PEM file with the secret key of the certificate; or data:TEXT, engine:NAME:ID, "    \
                "store:URI."},                                                                       \
        {"ssl_certificate_cache",                                                                    \
         CONTEXT,                                                                                    \
         CUSTOM_FIELD(TLS_SERVER_S, certificate_cache, tls_server_certificate_cache_apply),          \
         ARGS(1, 3),                                                                                 \
         .initial = "off",                                                                           \
         .syntax = "off | max=N [inactive=time] [valid=time]",                                       \
         .doc = "Keeps certificates and keys whose names have variables."},                          \
        {"ssl_certificate_watch", CONTEXT, FLAG(TLS_SERVER_S, watches_files), .initial = "off",      \
         .doc =                                                                                      \
             "Takes certificates, keys and lists up when their files change, without a reload. The " \
             "worker's user must be able to read them. Of Portunus."},                               \
        {"ssl_certificate_compression", CONTEXT, FLAG(TLS_SERVER_S, compresses_certificates),        \
         .initial = "off",                                                                           \
         .doc = "Compresses certificates (RFC 8879), with OpenSSL 3.2 and later."},                  \
        {"ssl_password_file",                                                                        \
         CONTEXT,                                                                                    \
         CUSTOM_FIELD(TLS_SERVER_S, passwords, tls_server_password_file_apply),                      \
         ARGS(1, 1),                                                                                 \
         .syntax = "file",                                                                           \
         .doc = "File with pass phrases of secret keys, one a line, tried in turn."},                \
        {"ssl_pass_phrase_dialog",                                                                   \
         CONTEXT,                                                                                    \
         CUSTOM(tls_server_pass_phrase_dialog_apply),                                                \
         ARGS(1, 1),                                                                                 \
         .syntax = "builtin | exec:program",                                                         \
         .doc = "Where pass phrases come from: the terminal, or a program that prints one. Of "      \
                "Tengine."},                                                                         \
        {"ssl_protocols",                                                                            \
         CONTEXT,                                                                                    \
         BITS(TLS_SERVER_S, protocols, tls_protocol_words),                                          \
         .repeat = REPEAT_APPEND,                                                                    \
         .initial = "TLSv1.2 TLSv1.3",                                                               \
         .doc = "Versions that are spoken."},                                                        \
        {"ssl_ciphers", CONTEXT, STRING(TLS_SERVER_S, ciphers), .initial = "HIGH:!aNULL:!MD5",       \
         .doc = "Ciphers of TLS 1.2 and older, as OpenSSL lists them."},                             \
        {"ssl_prefer_server_ciphers", CONTEXT, FLAG(TLS_SERVER_S, prefer_server_ciphers),            \
         .initial = "off", .doc = "Our order of ciphers counts, not the client's."},                 \
        {"ssl_ecdh_curve", CONTEXT, STRING(TLS_SERVER_S, curves), .initial = "auto",                 \
         .doc = "Groups for the exchange of keys, separated by colons."},                            \
        {"ssl_dhparam", CONTEXT, CONF_PATH(TLS_SERVER_S, dhparam),                                   \
         .doc = "File with parameters of DHE ciphers."},                                             \
        {"ssl_conf_command",                                                                         \
         CONTEXT,                                                                                    \
         CUSTOM_FIELD(TLS_SERVER_S, commands, tls_server_conf_command_apply),                        \
         ARGS(2, 2),                                                                                 \
         .repeat = REPEAT_APPEND,                                                                    \
         .syntax = "name value",                                                                     \
         .doc = "A command of OpenSSL's configuration, as SSL_CONF_cmd(3) lists them."},             \
        {"ssl_verify_client", CONTEXT, ENUM(TLS_SERVER_S, verify, tls_verify_words),                 \
         .initial = "off",                                                                           \
         .doc =                                                                                      \
             "Asks clients for certificates: on needs a good one, optional takes requests without, " \
             "optional_no_ca those of any authority, too."},                                         \
        {"ssl_verify_depth", CONTEXT, NUMBER(TLS_SERVER_S, verify_depth), .initial = "1",            \
         .doc = "Most certificates between a client's and its root."},                               \
        {"ssl_client_certificate", CONTEXT, CONF_PATH(TLS_SERVER_S, client_certificate),             \
         .doc =                                                                                      \
             "PEM file of authorities for client certificates; their names are sent to clients."},   \
        {"ssl_trusted_certificate", CONTEXT, CONF_PATH(TLS_SERVER_S, trusted_certificate),           \
         .doc = "The same, and for OCSP responses; names are not sent to clients."},                 \
        {"ssl_crl", CONTEXT, CONF_PATH(TLS_SERVER_S, crl),                                           \
         .doc = "PEM file of lists of revoked certificates. A new list counts after a reload for "   \
                "old sessions, too: they are not resumed."},                                         \
        {"ssl_ocsp", CONTEXT, ENUM(TLS_SERVER_S, ocsp, tls_ocsp_words), .initial = "off",            \
         .doc =                                                                                      \
             "Asks the authorities whether clients' certificates are good still; leaf: about the "   \
             "client's own only."},                                                                  \
        {"ssl_ocsp_responder", CONTEXT, STRING(TLS_SERVER_S, ocsp_responder),                        \
         .doc = "URL of the responder, instead of the one in the certificate."},                     \
        {"ssl_ocsp_cache",                                                                           \
         CONTEXT,                                                                                    \
         CUSTOM_FIELD(TLS_SERVER_S, ocsp_zone, tls_server_ocsp_cache_apply),                         \
         ARGS(1, 1),                                                                                 \
         .initial = "off",                                                                           \
         .syntax = "off | shared:name:size",                                                         \
         .doc = "Keeps the answers, for all workers."},                                              \
        {"ssl_stapling", CONTEXT, FLAG(TLS_SERVER_S, stapling), .initial = "off",                    \
         .doc = "Sends an OCSP response with the certificate: proof that it was not revoked."},      \
        {"ssl_stapling_file", CONTEXT, CONF_PATH(TLS_SERVER_S, stapling_file),                       \
         .doc = "File with the OCSP response (DER), in place of asking for it."},                    \
        {"ssl_stapling_responder", CONTEXT, STRING(TLS_SERVER_S, stapling_responder),                \
         .doc = "URL of the responder, instead of the one in the certificate."},                     \
        {"ssl_stapling_verify", CONTEXT, FLAG(TLS_SERVER_S, stapling_verify), .initial = "off",      \
         .doc = "Verifies the OCSP response before it is sent."},                                    \
        {"ssl_session_cache",                                                                        \
         CONTEXT,                                                                                    \
         CUSTOM(tls_server_session_cache_apply),                                                     \
         ARGS(1, 4),                                                                                 \
         .initial = "none",                                                                          \
         .repeat = REPEAT_CUSTOM,                                                                    \
         .syntax = "off | none | [builtin[:size]] [shared:name:size "                                \
                   "[sync[=store]] [sync_interval=time]]",                                           \
         .doc =                                                                                      \
             "Where sessions are kept that clients resume by identifier. For all servers of an "     \
             "address that of its default server counts. `sync`: for all nodes that share a "        \
             "`redis_store`."},                                                                      \
        {"ssl_session_timeout", CONTEXT, SEC(TLS_SERVER_S, session_timeout_s), .initial = "5m",      \
         .doc =                                                                                      \
             "How long a session may be resumed; keys of tickets that are not from files change as " \
             "often."},                                                                              \
        {"ssl_session_tickets", CONTEXT, FLAG(TLS_SERVER_S, tickets), .initial = "on",               \
         .doc = "Lets clients keep their sessions themselves, in tickets."},                         \
        {"ssl_session_ticket_key",                                                                   \
         CONTEXT,                                                                                    \
         CUSTOM_FIELD(TLS_SERVER_S, ticket_keys, tls_server_ticket_key_apply),                       \
         ARGS(1, 4),                                                                                 \
         .repeat = REPEAT_APPEND,                                                                    \
         .syntax = "file | auto [time] [sync[=store]]",                                              \
         .doc =                                                                                      \
             "File of 80 or 48 random bytes: a key of tickets. The first encrypts, all decrypt. "    \
             "Files that change are read again. auto: keys are made here, for all workers; each "    \
             "encrypts for this time (ssl_session_timeout) and decrypts for as long again. "         \
             "sync: for all nodes that share a `redis_store`. "                                      \
             "Those of the default server of an address are used."},                                 \
        {"ssl_early_data", CONTEXT, FLAG(TLS_SERVER_S, early_data), .initial = "off",                \
         .doc =                                                                                      \
             "Takes requests of TLS 1.3's early data, which can be replayed: see "                   \
             "$ssl_early_data. The default server of the address and the one that is named must "    \
             "both allow it."},                                                                      \
        {"ssl_reject_handshake", CONTEXT, FLAG(TLS_SERVER_S, rejects_handshake), .initial = "off",   \
         .doc = "Ends handshakes for this server with unrecognized_name."},                          \
        {"ssl_ech_file",                                                                             \
         CONTEXT,                                                                                    \
         CUSTOM_FIELD(TLS_SERVER_S, ech_files, tls_server_ech_file_apply),                           \
         ARGS(1, 1),                                                                                 \
         .repeat = REPEAT_APPEND,                                                                    \
         .syntax = "file",                                                                           \
         .doc = "Keys of encrypted ClientHellos, with an OpenSSL that has them."},                   \
        {"ssl_buffer_size", CONTEXT, SIZE(TLS_SERVER_S, buffer_size), .initial = "16k",              \
         .doc = "Most bytes of a record."},                                                          \
    {                                                                                                \
        "ssl_key_log", CONTEXT, CUSTOM_FIELD(TLS_SERVER_S, key_log, tls_server_key_log_apply),       \
            ARGS(1, 1),                                                                              \
            .syntax = "file",                                                                        \
            .doc = "Log of the secrets of connections in NSS's format, for programs that read "      \
                   "along. It is "                                                                   \
                   "reopened with the other logs; made for its owner alone."                         \
    }

#endif
