/* ngx_http_ssl_module: TLS on the side of clients. */
#include "http/hooks.h"
#include "http/modules/ssl/ssl.h"
#include "http/request.h"
#include "http/tls_options.h"
#include "server/module.h"

static const struct directive_word verify_words[] = {
    {"off", TLS_VERIFY_OFF},
    {"on", TLS_VERIFY_ON},
    {"optional", TLS_VERIFY_OPTIONAL},
    {"optional_no_ca", TLS_VERIFY_OPTIONAL_NO_CA},
    {NULL, 0},
};

static const struct directive_word ocsp_words[] = {
    {"off", 0},
    {"on", 1},
    {"leaf", 2},
    {NULL, 0},
};

#define S struct ssl_settings
#define IN_SSL IN_HTTP | IN_SERVER
static const struct directive rows[] = {
    {"ssl", IN_SSL, FLAG(S, ssl), .initial = "off", .replaced_by = "listen ... ssl",
     .doc = "Old form of the ssl parameter of listen, for all addresses of a server."},
    {"ssl_certificate", IN_SSL, TEMPLATES(S, certificates), ARGS(1, 1), .repeat = REPEAT_APPEND,
     .syntax = "file",
     .doc =
         "PEM file with the server's certificate, then those of its authorities; or \"data:\" and "
         "the PEM text. Several, of RSA and of ECDSA, may stand side by side. With variables it is "
         "loaded in each handshake."},
    {"ssl_certificate_key", IN_SSL, TEMPLATES(S, keys), ARGS(1, 1), .repeat = REPEAT_APPEND,
     .syntax = "file",
     .doc = "PEM file with the secret key of the certificate; or data:TEXT, engine:NAME:ID, "
            "store:URI."},
    {"ssl_certificate_cache", IN_SSL,
     CUSTOM_FIELD(S, certificate_cache, ssl_certificate_cache_apply), ARGS(1, 3), .initial = "off",
     .syntax = "off | max=N [inactive=time] [valid=time]",
     .doc = "Keeps certificates and keys whose names have variables."},
    {"ssl_certificate_watch", IN_SSL, FLAG(S, watches_files), .initial = "off",
     .doc = "Takes certificates, keys and lists up when their files change, without a reload. The "
            "worker's user must be able to read them. Of Portunus."},
    {"ssl_certificate_compression", IN_SSL, FLAG(S, compresses_certificates), .initial = "off",
     .doc = "Compresses certificates (RFC 8879), with OpenSSL 3.2 and later."},
    {"ssl_password_file", IN_SSL, CUSTOM_FIELD(S, passwords, ssl_password_file_apply), ARGS(1, 1),
     .syntax = "file", .doc = "File with pass phrases of secret keys, one a line, tried in turn."},
    {"ssl_pass_phrase_dialog", IN_SSL, CUSTOM(ssl_pass_phrase_dialog_apply), ARGS(1, 1),
     .syntax = "builtin | exec:program",
     .doc =
         "Where pass phrases come from: the terminal, or a program that prints one. Of Tengine."},
    {"ssl_protocols", IN_SSL, BITS(S, protocols, tls_protocol_words), .repeat = REPEAT_APPEND,
     .initial = "TLSv1.2 TLSv1.3", .doc = "Versions that are spoken."},
    {"ssl_ciphers", IN_SSL, STRING(S, ciphers), .initial = "HIGH:!aNULL:!MD5",
     .doc = "Ciphers of TLS 1.2 and older, as OpenSSL lists them."},
    {"ssl_prefer_server_ciphers", IN_SSL, FLAG(S, prefer_server_ciphers), .initial = "off",
     .doc = "Our order of ciphers counts, not the client's."},
    {"ssl_ecdh_curve", IN_SSL, STRING(S, curves), .initial = "auto",
     .doc = "Groups for the exchange of keys, separated by colons."},
    {"ssl_dhparam", IN_SSL, CONF_PATH(S, dhparam), .doc = "File with parameters of DHE ciphers."},
    {"ssl_conf_command", IN_SSL, CUSTOM_FIELD(S, commands, ssl_conf_command_apply), ARGS(2, 2),
     .repeat = REPEAT_CUSTOM, .syntax = "name value",
     .doc = "A command of OpenSSL's configuration, as SSL_CONF_cmd(3) lists them."},
    {"ssl_verify_client", IN_SSL, ENUM(S, verify, verify_words), .initial = "off",
     .doc = "Asks clients for certificates: on needs a good one, optional takes requests without, "
            "optional_no_ca those of any authority, too."},
    {"ssl_verify_depth", IN_SSL, NUMBER(S, verify_depth), .initial = "1",
     .doc = "Most certificates between a client's and its root."},
    {"ssl_client_certificate", IN_SSL, CONF_PATH(S, client_certificate),
     .doc = "PEM file of authorities that clients' certificates may come from; clients are told."},
    {"ssl_trusted_certificate", IN_SSL, CONF_PATH(S, trusted_certificate),
     .doc = "The same, and for OCSP answers; clients are not told."},
    {"ssl_crl", IN_SSL, CONF_PATH(S, crl),
     .doc =
         "PEM file of lists of revoked certificates. A new list counts after a reload for old sessions, too: they are not resumed."},
    {"ssl_ocsp", IN_SSL, ENUM(S, ocsp, ocsp_words), .initial = "off",
     .doc = "Asks the authorities whether clients' certificates are good still; leaf: about the "
            "client's own only."},
    {"ssl_ocsp_responder", IN_SSL, STRING(S, ocsp_responder),
     .doc = "URL that is asked, in place of the one in the certificate."},
    {"ssl_ocsp_cache", IN_SSL, CUSTOM_FIELD(S, ocsp_zone, ssl_ocsp_cache_apply), ARGS(1, 1),
     .initial = "off", .syntax = "off | shared:name:size",
     .doc = "Keeps the answers, for all workers."},
    {"ssl_stapling", IN_SSL, FLAG(S, stapling), .initial = "off",
     .doc = "Sends the authority's word on our certificate along (OCSP)."},
    {"ssl_stapling_file", IN_SSL, CONF_PATH(S, stapling_file),
     .doc = "File with that word (DER), in place of asking for it."},
    {"ssl_stapling_responder", IN_SSL, STRING(S, stapling_responder),
     .doc = "URL that is asked, in place of the one in the certificate."},
    {"ssl_stapling_verify", IN_SSL, FLAG(S, stapling_verify), .initial = "off",
     .doc = "Verifies the authority's word before it is sent."},
    {"ssl_session_cache", IN_SSL, CUSTOM(ssl_session_cache_apply), ARGS(1, 2), .initial = "none",
     .repeat = REPEAT_CUSTOM, .syntax = "off | none | [builtin[:size]] [shared:name:size]",
     .doc =
         "Where sessions are kept that clients resume by identifier. For all servers of an address that of its default server counts."},
    {"ssl_session_timeout", IN_SSL, SEC(S, session_timeout_s), .initial = "5m",
     .doc = "How long a session may be resumed; keys of tickets that are not from files change as "
            "often."},
    {"ssl_session_tickets", IN_SSL, FLAG(S, tickets), .initial = "on",
     .doc = "Lets clients keep their sessions themselves, in tickets."},
    {"ssl_session_ticket_key", IN_SSL, CUSTOM_FIELD(S, ticket_keys, ssl_ticket_key_apply),
     ARGS(1, 1), .repeat = REPEAT_CUSTOM, .syntax = "file",
     .doc =
         "File of 80 or 48 random bytes: a key of tickets. The first encrypts, all decrypt. Those of the default server of an address are used."},
    {"ssl_early_data", IN_SSL, FLAG(S, early_data), .initial = "off",
     .doc =
         "Takes requests of TLS 1.3's early data, which can be replayed: see $ssl_early_data. The default server of the address and the one that is named must both allow it."},
    {"ssl_reject_handshake", IN_SSL, FLAG(S, rejects_handshake), .initial = "off",
     .doc = "Ends handshakes for this server with unrecognized_name."},
    {"ssl_ech_file", IN_SSL, CUSTOM_FIELD(S, ech_files, ssl_ech_file_apply), ARGS(1, 1),
     .repeat = REPEAT_CUSTOM, .syntax = "file",
     .doc = "Keys of encrypted ClientHellos, with an OpenSSL that has them."},
    {"ssl_buffer_size", IN_SSL, SIZE(S, buffer_size), .initial = "16k",
     .doc = "Most bytes of a record."},
    {"ssl_key_log", IN_SSL, CUSTOM_FIELD(S, key_log, ssl_key_log_apply), ARGS(1, 1),
     .syntax = "file",
     .doc =
         "Log of the secrets of connections in NSS's format, for programs that read along. It is "
         "reopened with the other logs; made for its owner alone."},
    {0},
};

#define P struct ssl_place_settings
static const struct directive place_rows[] = {
    {"ssl_verify_client_exception", IN_LOCATION, FLAG(P, is_exempt), .initial = "off",
     .doc = "Takes requests for this place whatever ssl_verify_client says. Of Tengine."},
    {0},
};

struct directive_table ssl_table = {
    .rows = rows,
    .contexts = IN_SSL,
    .size = sizeof(struct ssl_settings),
    .finish = ssl_finish,
};
struct directive_table ssl_place_table = {
    .rows = place_rows,
    .contexts = IN_HTTP_LOCATION_SETTINGS,
    .size = sizeof(struct ssl_place_settings),
    .finish = ssl_place_finish,
};
static struct directive_table *const tables[] = {&ssl_table, &ssl_place_table, NULL};

/* ---- hooks ---- */

static bool begin(struct conf *conf, struct http_main *main)
{
    (void) conf;
    (void) main;
    http_secure_accepted = ssl_accepted;
    return true;
}

/* Some address of the server speaks TLS, or the old directive says so. */
static bool is_active(const struct http_location *location)
{
    const struct http_server *server = location->server;

    if (ssl_settings_of(server)->ssl) {
        return true;
    }
    vec_each(struct http_listen *, listen, &server->listens) {
        if ((*listen)->is_ssl) {
            return true;
        }
    }
    return false;
}

/* Does the place belong to a server that verifies clients? The http block belongs to none. */
static bool verifies(const struct http_location *location)
{
    return location->server != NULL && ssl_settings_of(location->server)->verify != TLS_VERIFY_OFF;
}

static const struct phase_hook phases[] = {
    {.phase = PHASE_POST_READ, .order = 0, .run = ssl_check, .is_active = is_active},
    {.phase = PHASE_REWRITE, .order = -10, .run = ssl_check_place, .is_active = verifies},
    {.run = NULL},
};

static const struct http_module hooks = {
    .variables = ssl_variables,
    .phases = phases,
    .begin = begin,
    .end = ssl_end,
};

static bool worker_start(struct generation *generation)
{
    return tls_worker_start(&generation->log);
}

static void worker_abort(struct generation *generation)
{
    (void) generation;
    ssl_abort();
}

static void worker_end(struct generation *generation)
{
    (void) generation;
    tls_worker_end();
}

const struct module ngx_http_ssl_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_ssl_module",
    .kind = MODULE_HTTP,
    .tables = tables,
    .hooks = &hooks,
    .worker_start = worker_start,
    .worker_abort = worker_abort,
    .worker_end = worker_end,
};
