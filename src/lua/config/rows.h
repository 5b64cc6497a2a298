/* Rows that http and stream have in common, with the contexts as arguments.
 * Implemented in code.c, dict.c, main.c and tls.c. */
#ifndef LUA_CONFIG_ROWS_H
#define LUA_CONFIG_ROWS_H

#include "conf/directive.h"
#include "lua/vm/settings.h"
#include "lua/vm/vm.h"
#include "shared/tls/client.h"

/*
 * The three ways to write a Lua text: NAME_block { … }, NAME 'text', NAME_file path; all fill the
 * same member, a struct script_code *. APPLY is script_code_apply, or calls it.
 */
#define SCRIPT_CODE_ROWS(NAME, CONTEXTS, SETTINGS, MEMBER, APPLY, DOC)                             \
    {NAME "_block",                                                                                \
     CONTEXTS,                                                                                     \
     CUSTOM_FIELD(SETTINGS, MEMBER, APPLY),                                                        \
     ARGS(1, 1),                                                                                   \
     .repeat = REPEAT_CUSTOM,                                                                      \
     .syntax = "{ Lua }",                                                                          \
     .doc = DOC},                                                                                  \
        {NAME,                                                                                     \
         CONTEXTS,                                                                                 \
         CUSTOM_FIELD(SETTINGS, MEMBER, APPLY),                                                    \
         ARGS(1, 1),                                                                               \
         .repeat = REPEAT_CUSTOM,                                                                  \
         .syntax = "Lua",                                                                          \
         .doc = DOC},                                                                              \
    {                                                                                              \
        NAME "_file", CONTEXTS, CUSTOM_FIELD(SETTINGS, MEMBER, APPLY), ARGS(1, 1),                 \
            .repeat = REPEAT_CUSTOM, .syntax = "path", .doc = DOC                                  \
    }

/* The same without the text as a string. */
#define SCRIPT_CODE_BLOCK_ROWS(NAME, CONTEXTS, SETTINGS, MEMBER, APPLY, DOC)                       \
    {NAME "_block",                                                                                \
     CONTEXTS,                                                                                     \
     CUSTOM_FIELD(SETTINGS, MEMBER, APPLY),                                                        \
     ARGS(1, 1),                                                                                   \
     .repeat = REPEAT_CUSTOM,                                                                      \
     .syntax = "{ Lua }",                                                                          \
     .doc = DOC},                                                                                  \
    {                                                                                              \
        NAME "_file", CONTEXTS, CUSTOM_FIELD(SETTINGS, MEMBER, APPLY), ARGS(1, 1),                 \
            .repeat = REPEAT_CUSTOM, .syntax = "path", .doc = DOC                                  \
    }

/* Scripts in handshakes with clients: SETTINGS has a member `tls`, a struct script_tls_codes. */
#define SCRIPT_TLS_ROWS(CONTEXTS, SETTINGS)                                                        \
    SCRIPT_CODE_BLOCK_ROWS(                                                                        \
        "ssl_client_hello_by_lua", CONTEXTS, SETTINGS, tls.hello, script_code_apply,               \
        "Lua that sees what a client says first, before its server is chosen."),                   \
        SCRIPT_CODE_BLOCK_ROWS("ssl_certificate_by_lua", CONTEXTS, SETTINGS, tls.certificate,      \
                               script_code_apply,                                                  \
                               "Lua that chooses the certificate of a handshake.")

/* Rows of the scripts about TLS sessions. */
#define SCRIPT_TLS_SESSION_ROWS(CONTEXTS, SETTINGS)                                                \
    SCRIPT_CODE_BLOCK_ROWS("ssl_session_fetch_by_lua", CONTEXTS, SETTINGS, tls.fetch,              \
                           script_code_apply, "Lua that finds a session by its identifier."),      \
        SCRIPT_CODE_BLOCK_ROWS("ssl_session_store_by_lua", CONTEXTS, SETTINGS, tls.store,          \
                               script_code_apply, "Lua that keeps a new session.")

/* Rows of the scripts in handshakes with backends: SETTINGS has a member `backend`, a struct
 * script_backend_codes. */
#define SCRIPT_BACKEND_ROWS(CONTEXTS, SETTINGS)                                                    \
    SCRIPT_CODE_BLOCK_ROWS("proxy_ssl_certificate_by_lua", CONTEXTS, SETTINGS,                     \
                           backend.certificate, script_code_apply,                                 \
                           "Lua that chooses the certificate for a backend."),                     \
        SCRIPT_CODE_BLOCK_ROWS("proxy_ssl_verify_by_lua", CONTEXTS, SETTINGS, backend.verify,      \
                               script_code_apply, "Lua that judges a backend's certificate."),     \
    {                                                                                              \
        "lua_upstream_skip_openssl_default_verify", CONTEXTS,                                      \
            FLAG(SETTINGS, backend.skips_default),                                                 \
            .initial = "off",                                                                      \
            .doc = "Whether OpenSSL does not verify before proxy_ssl_verify_by_lua."               \
    }

/* Those of cosockets and the cache, for each place: SETTINGS has a member `script`, a struct
 * script_settings. */
#define SCRIPT_PLACE_ROWS(CONTEXTS, SETTINGS)                                                       \
    {"lua_socket_connect_timeout", CONTEXTS, MSEC(SETTINGS, script.connect_timeout_ms),             \
     .initial = "60s", .doc = "How long a cosocket tries to connect."},                             \
        {"lua_socket_send_timeout", CONTEXTS, MSEC(SETTINGS, script.send_timeout_ms),               \
         .initial = "60s", .doc = "How long a cosocket waits between two writes."},                 \
        {"lua_socket_read_timeout", CONTEXTS, MSEC(SETTINGS, script.read_timeout_ms),               \
         .initial = "60s", .doc = "How long a cosocket waits between two reads."},                  \
        {"lua_socket_keepalive_timeout", CONTEXTS, MSEC(SETTINGS, script.keepalive_timeout_ms),     \
         .initial = "60s", .doc = "How long a cosocket's connection may rest in its pool."},        \
        {"lua_socket_buffer_size", CONTEXTS, SIZE(SETTINGS, script.buffer_size), .initial = "4k",   \
         .doc = "The first buffer for what a cosocket reads."},                                     \
        {"lua_socket_pool_size",                                                                    \
         CONTEXTS,                                                                                  \
         NUMBER(SETTINGS, script.pool_size),                                                        \
         .initial = "30",                                                                           \
         .min = 1,                                                                                  \
         .max = 1000000,                                                                            \
         .doc = "Idle connections that a pool of cosockets keeps."},                                \
        {"lua_socket_send_lowat", CONTEXTS, SIZE(SETTINGS, script.send_lowat), .initial = "0",      \
         .doc = "Accepted and ignored: Linux has no SO_SNDLOWAT."},                                 \
        {"lua_socket_log_errors", CONTEXTS, FLAG(SETTINGS, script.log_errors), .initial = "on",     \
         .doc = "Whether failures of cosockets are logged."},                                       \
        {"lua_check_client_abort", CONTEXTS, FLAG(SETTINGS, script.check_client_abort),             \
         .initial = "off", .doc = "Whether Lua is notified when a client closes the connection."},  \
    {                                                                                               \
        "lua_code_cache", CONTEXTS, FLAG(SETTINGS, script.code_cache),                              \
            .initial = "on", .apply = script_cache_apply,                                           \
            .doc =                                                                                  \
                "Whether Lua files are read once; off: again for each request, in a VM of its own." \
    }

/* TLS of cosockets, for each place; SETTINGS as above. script_tls_finish makes a context of it. */
#define SCRIPT_SOCKET_TLS_ROWS(CONTEXTS, SETTINGS)                                                 \
    {"lua_ssl_protocols",                                                                          \
     CONTEXTS,                                                                                     \
     BITS(SETTINGS, script.tls.protocols, tls_protocol_words),                                     \
     .initial = "TLSv1 TLSv1.1 TLSv1.2 TLSv1.3",                                                   \
     .repeat = REPEAT_APPEND,                                                                      \
     .doc = "Versions of TLS that cosockets speak."},                                              \
        {"lua_ssl_ciphers", CONTEXTS, STRING(SETTINGS, script.tls.ciphers), .initial = "DEFAULT",  \
         .doc = "Ciphers up to TLS 1.2, in OpenSSL's words."},                                     \
        {"lua_ssl_certificate",                                                                    \
         CONTEXTS,                                                                                 \
         CUSTOM_FIELD(SETTINGS, script.tls.certificates, script_tls_file_apply),                   \
         ARGS(1, 1),                                                                               \
         .repeat = REPEAT_APPEND,                                                                  \
         .syntax = "file",                                                                         \
         .doc = "Our certificate, for peers that ask for one."},                                   \
        {"lua_ssl_certificate_key",                                                                \
         CONTEXTS,                                                                                 \
         CUSTOM_FIELD(SETTINGS, script.tls.keys, script_tls_file_apply),                           \
         ARGS(1, 1),                                                                               \
         .repeat = REPEAT_APPEND,                                                                  \
         .syntax = "file",                                                                         \
         .doc = "Its key."},                                                                       \
        {"lua_ssl_verify_depth", CONTEXTS,         NUMBER(SETTINGS, script.tls.verify_depth),      \
         .initial = "1",         .max = INT32_MAX, .doc = "Longest chain of certificates."},       \
        {"lua_ssl_trusted_certificate", CONTEXTS,                                                  \
         CONF_PATH(SETTINGS, script.tls.trusted_certificate),                                      \
         .doc = "PEM file of authorities that are trusted."},                                      \
        {"lua_ssl_crl", CONTEXTS, CONF_PATH(SETTINGS, script.tls.crl),                             \
         .doc = "PEM file of revoked certificates."},                                              \
        {"lua_ssl_conf_command",                                                                   \
         CONTEXTS,                                                                                 \
         CUSTOM_FIELD(SETTINGS, script.tls.commands, tls_client_conf_command_apply),               \
         ARGS(2, 2),                                                                               \
         .repeat = REPEAT_APPEND,                                                                  \
         .syntax = "name value",                                                                   \
         .doc = "A command of OpenSSL's SSL_CONF_cmd()."},                                         \
    {                                                                                              \
        "lua_ssl_key_log", CONTEXTS,                                                               \
            CUSTOM_FIELD(SETTINGS, script.tls.key_log, script_tls_key_log_apply), ARGS(1, 1),      \
            .syntax = "file", .doc = "Log of the secrets of connections in NSS's format."          \
    }

bool script_tls_key_log_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *settings);
bool script_tls_file_apply(struct conf_scope *scope, const struct directive *row,
                           struct conf_node *node, void *settings);
/* The place was read: makes its context, one for all places that say the same. False after
 * conf_error. */
bool script_tls_finish(struct conf_scope *scope, struct script_tls_settings *tls);

/* Main level: SETTINGS has a member `script`, a struct script_main. */
#define SCRIPT_MAIN_ROWS(CONTEXTS, SETTINGS)                                                                         \
    {"lua_package_path", CONTEXTS, STRING(SETTINGS, script.options.package_path),                                    \
     .doc = "Where require looks for modules in Lua; \";;\" means the default."},                                    \
        {"lua_package_cpath", CONTEXTS, STRING(SETTINGS, script.options.package_cpath),                              \
         .doc = "Where require looks for modules in C; \";;\" means the default."},                                  \
        {"lua_load_resty_core",                                                                                      \
         CONTEXTS,                                                                                                   \
         FLAG(SETTINGS, script.options.loads_core),                                                                  \
         .initial = "on",                                                                                            \
         .apply = script_core_apply,                                                                                 \
         .doc = "Has no effect: what lua-resty-core offers is built in."},                                           \
        {"lua_sa_restart", CONTEXTS, FLAG(SETTINGS, script.options.restarts_calls),                                  \
         .initial = "on", .doc = "Has no effect: signals do not interrupt system calls here."},                      \
        {"lua_malloc_trim", CONTEXTS, NUMBER(SETTINGS, script.options.trim_requests),                                \
         .initial = "1000",                                                                                          \
         .doc =                                                                                                      \
             "Has no effect: a worker gives back what memory it does not use every few seconds."},                   \
        {"lua_thread_cache_max_entries",                                                                             \
         CONTEXTS,                                                                                                   \
         NUMBER(SETTINGS, script.options.idle_threads),                                                              \
         .initial = "1024",                                                                                          \
         .min = 0,                                                                                                   \
         .max = 1000000,                                                                                             \
         .doc = "Lua threads of requests that a worker keeps for others."},                                          \
        {"lua_max_pending_timers",                                                                                   \
         CONTEXTS,                                                                                                   \
         NUMBER(SETTINGS, script.options.pending_timers),                                                            \
         .initial = "1024",                                                                                          \
         .min = 0,                                                                                                   \
         .max = 100000000,                                                                                           \
         .doc = "Timers of one worker that may wait; more of them ngx.timer.at refuses."},                           \
        {"lua_max_running_timers",                                                                                   \
         CONTEXTS,                                                                                                   \
         NUMBER(SETTINGS, script.options.running_timers),                                                            \
         .initial = "256",                                                                                           \
         .min = 0,                                                                                                   \
         .max = 100000000,                                                                                           \
         .doc =                                                                                                      \
             "Timers of one worker that may run at one time; others are dropped, which is logged."},                 \
        {"lua_time_limit", CONTEXTS, MSEC(SETTINGS, script.options.time_limit_ms),                                   \
         .initial = "1s",                                                                                            \
         .doc =                                                                                                      \
             "How long a script may compute without a wait before the log says so, with a traceback. 0: no limit."}, \
        {"lua_memory_limit", CONTEXTS, SIZE(SETTINGS, script.options.memory_limit),                                  \
         .initial = "0",                                                                                             \
         .doc =                                                                                                      \
             "Memory that the Lua of one worker may take; a script that needs more fails. 0: no "                    \
             "limit."},                                                                                              \
        {"lua_shared_dict",                                                                                          \
         CONTEXTS,                                                                                                   \
         CUSTOM_FIELD(SETTINGS, script.options.dicts, script_dict_apply),                                            \
         ARGS(2, 2),                                                                                                 \
         .repeat = REPEAT_CUSTOM,                                                                                    \
         .syntax = "name size",                                                                                      \
         .doc = "A dictionary that all workers share, as ngx.shared.name; it outlives a reload."},                   \
        {"lua_capture_error_log",                                                                                    \
         CONTEXTS,                                                                                                   \
         CUSTOM_FIELD(SETTINGS, script.options.capture, script_capture_apply),                                       \
         ARGS(1, 1),                                                                                                 \
         .syntax = "size",                                                                                           \
         .doc =                                                                                                      \
             "Memory for the newest lines of the error log, which ngx.errlog gives to scripts."},                    \
        {"lua_regex_cache_max_entries", CONTEXTS,                                                                    \
         NUMBER(SETTINGS, script.options.regex_cache_max), .initial = "1024",                                        \
         .doc = "Regular expressions that a worker keeps for ngx.re with the option o."},                            \
        {"lua_regex_match_limit", CONTEXTS, NUMBER(SETTINGS, script.options.regex_match_limit),                      \
         .initial = "0",                                                                                             \
         .doc = "Steps after which a match of ngx.re is abandoned; 0: the limit of PCRE2."},                         \
        SCRIPT_CODE_ROWS("init_by_lua", CONTEXTS, SETTINGS, script.options.init,                                     \
                         script_code_apply,                                                                          \
                         "Lua that runs in the master when the configuration was read."),                            \
        SCRIPT_CODE_ROWS("init_worker_by_lua", CONTEXTS, SETTINGS, script.options.init_worker,                       \
                         script_code_apply, "Lua that runs in each worker before it serves."),                       \
        SCRIPT_CODE_ROWS("exit_worker_by_lua", CONTEXTS, SETTINGS, script.options.exit_worker,                       \
                         script_code_apply, "Lua that runs in each worker when it ends.")

/* Reads lua_shared_dict into a list of struct script_dict. */
bool script_dict_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings);

/* Reads lua_capture_error_log into a struct script_capture *. */
bool script_capture_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings);

/* Reads a row of SCRIPT_CODE_ROWS. Several ways at one place are a duplicate. */
bool script_code_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings);

/* After lua_load_resty_core and lua_code_cache were stored: what is to be said of them. */
bool script_core_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings);
bool script_cache_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings);

/* A text in an argument of the node; `name` is the directive's without _block and _file. NULL after
 * conf_error. */
struct script_code *script_code_new(struct conf_scope *scope, const struct conf_node *node,
                                    struct str name, struct str text);

/* What the options learn when all has been read, but for `subsystem`, which they have: chunks,
 * paths, generation. */
void script_options_end(struct conf *conf, struct script_vm_options *options);

#endif
