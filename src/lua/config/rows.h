/* Rows that http and stream share, with the contexts as arguments.
 * Implemented in code.c, dict.c, main.c and tls.c. */
#ifndef LUA_CONFIG_ROWS_H
#define LUA_CONFIG_ROWS_H

#include "conf/directive.h"
#include "lua/vm/settings.h"
#include "lua/vm/vm.h"
#include "shared/tls/client.h"

/*
 * The three ways to write Lua code: NAME_block { … }, NAME 'text', NAME_file path; all fill the
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

/* SCRIPT_CODE_ROWS without the row for code in a string. */
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
        "Runs Lua code when the ClientHello message is received, before the server is selected."), \
        SCRIPT_CODE_BLOCK_ROWS(                                                                    \
            "ssl_certificate_by_lua", CONTEXTS, SETTINGS, tls.certificate, script_code_apply,      \
            "Runs Lua code that selects the certificate for the TLS handshake.")

/* Rows of the scripts about TLS sessions. */
#define SCRIPT_TLS_SESSION_ROWS(CONTEXTS, SETTINGS)                                                \
    SCRIPT_CODE_BLOCK_ROWS("ssl_session_fetch_by_lua", CONTEXTS, SETTINGS, tls.fetch,              \
                           script_code_apply,                                                      \
                           "Runs Lua code that looks up a TLS session by its ID."),                \
        SCRIPT_CODE_BLOCK_ROWS("ssl_session_store_by_lua", CONTEXTS, SETTINGS, tls.store,          \
                               script_code_apply, "Runs Lua code that stores a new TLS session.")

/* Rows of the scripts in handshakes with backends: SETTINGS has a member `backend`, a struct
 * script_backend_codes. */
#define SCRIPT_BACKEND_ROWS(CONTEXTS, SETTINGS)                                                    \
    SCRIPT_CODE_BLOCK_ROWS(                                                                        \
        "proxy_ssl_certificate_by_lua", CONTEXTS, SETTINGS, backend.certificate,                   \
        script_code_apply,                                                                         \
        "Runs Lua code that selects the client certificate for a connection to a "                 \
        "backend."),                                                                               \
        SCRIPT_CODE_BLOCK_ROWS(                                                                    \
            "proxy_ssl_verify_by_lua", CONTEXTS, SETTINGS, backend.verify, script_code_apply,      \
            "Runs Lua code that decides whether the certificate of a backend is "                  \
            "accepted."),                                                                          \
    {                                                                                              \
        "lua_upstream_skip_openssl_default_verify", CONTEXTS,                                      \
            FLAG(SETTINGS, backend.skips_default),                                                 \
            .initial = "off",                                                                      \
            .doc = "Whether OpenSSL's own verification is skipped before "                         \
                   "proxy_ssl_verify_by_lua."                                                      \
    }

/* Rows of cosockets and the code cache, for each location or server: SETTINGS has a member
 * `script`, a struct script_settings. */
#define SCRIPT_PLACE_ROWS(CONTEXTS, SETTINGS)                                                      \
    {"lua_socket_connect_timeout", CONTEXTS, MSEC(SETTINGS, script.connect_timeout_ms),            \
     .initial = "60s", .doc = "Timeout for connecting a cosocket."},                               \
        {"lua_socket_send_timeout", CONTEXTS, MSEC(SETTINGS, script.send_timeout_ms),              \
         .initial = "60s", .doc = "Timeout between two successive writes to a cosocket."},         \
        {"lua_socket_read_timeout", CONTEXTS, MSEC(SETTINGS, script.read_timeout_ms),              \
         .initial = "60s", .doc = "Timeout between two successive reads from a cosocket."},        \
        {"lua_socket_keepalive_timeout", CONTEXTS, MSEC(SETTINGS, script.keepalive_timeout_ms),    \
         .initial = "60s",                                                                         \
         .doc = "Time after which an idle connection in a cosocket pool is closed."},              \
        {"lua_socket_buffer_size", CONTEXTS, SIZE(SETTINGS, script.buffer_size), .initial = "4k",  \
         .doc = "Initial size of the read buffer of a cosocket."},                                 \
        {"lua_socket_pool_size",                                                                   \
         CONTEXTS,                                                                                 \
         NUMBER(SETTINGS, script.pool_size),                                                       \
         .initial = "30",                                                                          \
         .min = 1,                                                                                 \
         .max = 1000000,                                                                           \
         .doc = "Largest number of idle connections in a cosocket pool."},                         \
        {"lua_socket_send_lowat", CONTEXTS, SIZE(SETTINGS, script.send_lowat), .initial = "0",     \
         .doc = "Accepted and ignored: Linux has no SO_SNDLOWAT."},                                \
        {"lua_socket_log_errors", CONTEXTS, FLAG(SETTINGS, script.log_errors), .initial = "on",    \
         .doc = "Whether errors of cosockets are logged."},                                        \
        {"lua_check_client_abort", CONTEXTS, FLAG(SETTINGS, script.check_client_abort),            \
         .initial = "off",                                                                         \
         .doc = "Whether Lua code is notified (ngx.on_abort) when a client closes the "            \
                "connection."},                                                                    \
    {                                                                                              \
        "lua_code_cache", CONTEXTS, FLAG(SETTINGS, script.code_cache),                             \
            .initial = "on", .apply = script_cache_apply,                                          \
            .doc = "Whether Lua files are loaded once. When off, they are loaded again for "       \
                   "each request, in a Lua VM of its own."                                         \
    }

/* Rows of the TLS settings of cosockets: SETTINGS has a member `script`, a struct script_settings.
 * script_tls_finish creates the TLS context. */
#define SCRIPT_SOCKET_TLS_ROWS(CONTEXTS, SETTINGS)                                                 \
    {"lua_ssl_protocols",                                                                          \
     CONTEXTS,                                                                                     \
     BITS(SETTINGS, script.tls.protocols, tls_protocol_words),                                     \
     .initial = "TLSv1 TLSv1.1 TLSv1.2 TLSv1.3",                                                   \
     .repeat = REPEAT_APPEND,                                                                      \
     .doc = "TLS versions of cosockets."},                                                         \
        {"lua_ssl_ciphers", CONTEXTS, STRING(SETTINGS, script.tls.ciphers), .initial = "DEFAULT",  \
         .doc = "Ciphers of cosockets for TLS 1.2 and earlier, in OpenSSL's cipher list format."}, \
        {"lua_ssl_certificate",                                                                    \
         CONTEXTS,                                                                                 \
         CUSTOM_FIELD(SETTINGS, script.tls.certificates, script_tls_file_apply),                   \
         ARGS(1, 1),                                                                               \
         .repeat = REPEAT_APPEND,                                                                  \
         .syntax = "file",                                                                         \
         .doc = "PEM file with the client certificate of cosockets, for servers that request "     \
                "one."},                                                                           \
        {"lua_ssl_certificate_key",                                                                \
         CONTEXTS,                                                                                 \
         CUSTOM_FIELD(SETTINGS, script.tls.keys, script_tls_file_apply),                           \
         ARGS(1, 1),                                                                               \
         .repeat = REPEAT_APPEND,                                                                  \
         .syntax = "file",                                                                         \
         .doc = "PEM file with the key of the client certificate."},                               \
        {"lua_ssl_verify_depth",                                                                   \
         CONTEXTS,                                                                                 \
         NUMBER(SETTINGS, script.tls.verify_depth),                                                \
         .initial = "1",                                                                           \
         .max = INT32_MAX,                                                                         \
         .doc = "Largest depth of a server's certificate chain."},                                 \
        {"lua_ssl_trusted_certificate", CONTEXTS,                                                  \
         CONF_PATH(SETTINGS, script.tls.trusted_certificate),                                      \
         .doc = "PEM file with trusted CA certificates."},                                         \
        {"lua_ssl_crl", CONTEXTS, CONF_PATH(SETTINGS, script.tls.crl),                             \
         .doc = "PEM file with certificate revocation lists (CRL)."},                              \
        {"lua_ssl_conf_command",                                                                   \
         CONTEXTS,                                                                                 \
         CUSTOM_FIELD(SETTINGS, script.tls.commands, tls_client_conf_command_apply),               \
         ARGS(2, 2),                                                                               \
         .repeat = REPEAT_APPEND,                                                                  \
         .syntax = "name value",                                                                   \
         .doc = "Sets an OpenSSL configuration command (SSL_CONF_cmd)."},                          \
    {                                                                                              \
        "lua_ssl_key_log", CONTEXTS,                                                               \
            CUSTOM_FIELD(SETTINGS, script.tls.key_log, script_tls_key_log_apply), ARGS(1, 1),      \
            .syntax = "file",                                                                      \
            .doc = "File to which the TLS secrets of cosockets are logged, in NSS key log "        \
                   "format."                                                                       \
    }

bool script_tls_key_log_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *settings);
bool script_tls_file_apply(struct conf_scope *scope, const struct directive *row,
                           struct conf_node *node, void *settings);
/* Creates the TLS context after a location or server was read; equal settings share one. False
 * after conf_error. */
bool script_tls_finish(struct conf_scope *scope, struct script_tls_settings *tls);

/* Main level: SETTINGS has a member `script`, a struct script_main. */
#define SCRIPT_MAIN_ROWS(CONTEXTS, SETTINGS)                                                       \
    {"lua_package_path", CONTEXTS, STRING(SETTINGS, script.options.package_path),                  \
     .doc = "Search path of `require` for Lua modules. \";;\" stands for the default path."},      \
        {"lua_package_cpath", CONTEXTS, STRING(SETTINGS, script.options.package_cpath),            \
         .doc = "Search path of `require` for C modules. \";;\" stands for the default path."},    \
        {"lua_load_resty_core",                                                                    \
         CONTEXTS,                                                                                 \
         FLAG(SETTINGS, script.options.loads_core),                                                \
         .initial = "on",                                                                          \
         .apply = script_core_apply,                                                               \
         .doc = "Accepted and ignored: the functions of lua-resty-core are built in."},            \
        {"lua_sa_restart", CONTEXTS, FLAG(SETTINGS, script.options.restarts_calls),                \
         .initial = "on", .doc = "Accepted and ignored: signals do not interrupt system calls."},  \
        {"lua_malloc_trim", CONTEXTS, NUMBER(SETTINGS, script.options.trim_requests),              \
         .initial = "1000",                                                                        \
         .doc = "Accepted and ignored: a worker returns unused memory to the system every "        \
                "few seconds."},                                                                   \
        {"lua_thread_cache_max_entries",                                                           \
         CONTEXTS,                                                                                 \
         NUMBER(SETTINGS, script.options.idle_threads),                                            \
         .initial = "1024",                                                                        \
         .min = 0,                                                                                 \
         .max = 1000000,                                                                           \
         .doc = "Largest number of idle Lua threads (coroutines) that a worker keeps for reuse."}, \
        {"lua_max_pending_timers",                                                                 \
         CONTEXTS,                                                                                 \
         NUMBER(SETTINGS, script.options.pending_timers),                                          \
         .initial = "1024",                                                                        \
         .min = 0,                                                                                 \
         .max = 100000000,                                                                         \
         .doc = "Largest number of pending timers of a worker. ngx.timer.at fails when there "     \
                "are more."},                                                                      \
        {"lua_max_running_timers",                                                                 \
         CONTEXTS,                                                                                 \
         NUMBER(SETTINGS, script.options.running_timers),                                          \
         .initial = "256",                                                                         \
         .min = 0,                                                                                 \
         .max = 100000000,                                                                         \
         .doc = "Largest number of running timers of a worker. A timer that exceeds it is "        \
                "dropped, which is logged."},                                                      \
        {"lua_time_limit", CONTEXTS, MSEC(SETTINGS, script.options.time_limit_ms),                 \
         .initial = "1s",                                                                          \
         .doc = "Time for which a script may run without yielding before a message with a "        \
                "traceback is logged. 0: no limit."},                                              \
        {"lua_memory_limit", CONTEXTS, SIZE(SETTINGS, script.options.memory_limit),                \
         .initial = "0",                                                                           \
         .doc = "Largest amount of memory for the Lua VM of a worker. A script that needs "        \
                "more fails. 0: no limit."},                                                       \
        {"lua_shared_dict",                                                                        \
         CONTEXTS,                                                                                 \
         CUSTOM_FIELD(SETTINGS, script.options.dicts, script_dict_apply),                          \
         ARGS(2, 2),                                                                               \
         .repeat = REPEAT_CUSTOM,                                                                  \
         .syntax = "name size",                                                                    \
         .doc = "Defines a dictionary shared by all workers, `ngx.shared.name`. Its content "      \
                "survives a reload."},                                                             \
        {"lua_capture_error_log",                                                                  \
         CONTEXTS,                                                                                 \
         CUSTOM_FIELD(SETTINGS, script.options.capture, script_capture_apply),                     \
         ARGS(1, 1),                                                                               \
         .syntax = "size",                                                                         \
         .doc = "Size of the memory for the latest lines of the error log, which Lua code "        \
                "can read with ngx.errlog."},                                                      \
        {"lua_regex_cache_max_entries", CONTEXTS,                                                  \
         NUMBER(SETTINGS, script.options.regex_cache_max), .initial = "1024",                      \
         .doc = "Largest number of compiled regular expressions that a worker caches for the "     \
                "`o` option of ngx.re."},                                                          \
        {"lua_regex_match_limit", CONTEXTS, NUMBER(SETTINGS, script.options.regex_match_limit),    \
         .initial = "0",                                                                           \
         .doc = "Match limit of PCRE for ngx.re; a match that exceeds it fails. 0: the default "   \
                "of PCRE2."},                                                                      \
        SCRIPT_CODE_ROWS("init_by_lua", CONTEXTS, SETTINGS, script.options.init,                   \
                         script_code_apply,                                                        \
                         "Runs Lua code in the master process after the configuration is read."),  \
        SCRIPT_CODE_ROWS("init_worker_by_lua", CONTEXTS, SETTINGS, script.options.init_worker,     \
                         script_code_apply,                                                        \
                         "Runs Lua code when a worker starts, before it accepts connections."),    \
        SCRIPT_CODE_ROWS("exit_worker_by_lua", CONTEXTS, SETTINGS, script.options.exit_worker,     \
                         script_code_apply, "Runs Lua code when a worker exits.")

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

/* Completes the options after the configuration was read: chunks, paths, generation. `subsystem` is
 * already set. */
void script_options_end(struct conf *conf, struct script_vm_options *options);

#endif
