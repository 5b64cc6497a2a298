/* Rows that http and stream have in common, with the contexts as arguments. */
#ifndef LUA_CONFIG_ROWS_H
#define LUA_CONFIG_ROWS_H

#include "conf/directive.h"
#include "lua/vm/settings.h"
#include "lua/vm/vm.h"
#include "shared/tls/client.h"

/*
 * The three ways to write a Lua text: NAME_block { … }, NAME 'text', NAME_file path; all fill the same member, a
 * struct script_code *. APPLY is script_code_apply, or calls it.
 */
#define SCRIPT_CODE_ROWS(NAME, CONTEXTS, SETTINGS, MEMBER, APPLY, DOC)                             \
    {NAME "_block", CONTEXTS, CUSTOM_FIELD(SETTINGS, MEMBER, APPLY), ARGS(1, 1),                   \
     .repeat = REPEAT_CUSTOM, .syntax = "{ Lua }", .doc = DOC},                                    \
        {NAME, CONTEXTS, CUSTOM_FIELD(SETTINGS, MEMBER, APPLY), ARGS(1, 1),                        \
         .repeat = REPEAT_CUSTOM, .syntax = "Lua", .doc = DOC},                                    \
    {                                                                                              \
        NAME "_file", CONTEXTS, CUSTOM_FIELD(SETTINGS, MEMBER, APPLY), ARGS(1, 1),                 \
            .repeat = REPEAT_CUSTOM, .syntax = "path", .doc = DOC                                  \
    }

/* Those of cosockets and the cache, for each place: SETTINGS has a member `script`, a struct script_settings. */
#define SCRIPT_PLACE_ROWS(CONTEXTS, SETTINGS)                                                      \
    {"lua_socket_connect_timeout", CONTEXTS, MSEC(SETTINGS, script.connect_timeout_ms),            \
     .initial = "60s", .doc = "How long a cosocket tries to connect."},                            \
        {"lua_socket_send_timeout", CONTEXTS, MSEC(SETTINGS, script.send_timeout_ms),              \
         .initial = "60s", .doc = "How long a cosocket waits between two writes."},                \
        {"lua_socket_read_timeout", CONTEXTS, MSEC(SETTINGS, script.read_timeout_ms),              \
         .initial = "60s", .doc = "How long a cosocket waits between two reads."},                 \
        {"lua_socket_keepalive_timeout", CONTEXTS, MSEC(SETTINGS, script.keepalive_timeout_ms),    \
         .initial = "60s", .doc = "How long a cosocket's connection may rest in its pool."},       \
        {"lua_socket_buffer_size", CONTEXTS, SIZE(SETTINGS, script.buffer_size),                   \
         .initial = "4k", .doc = "The first buffer for what a cosocket reads."},                   \
        {"lua_socket_pool_size", CONTEXTS, NUMBER(SETTINGS, script.pool_size), .initial = "30",    \
         .min = 1, .max = 1000000, .doc = "Idle connections that a pool of cosockets keeps."},     \
        {"lua_socket_send_lowat", CONTEXTS, SIZE(SETTINGS, script.send_lowat), .initial = "0",     \
         .doc = "Understood; Linux has no SO_SNDLOWAT."},                                          \
        {"lua_socket_log_errors", CONTEXTS, FLAG(SETTINGS, script.log_errors), .initial = "on",    \
         .doc = "Whether failures of cosockets are logged."},                                      \
        {"lua_check_client_abort", CONTEXTS, FLAG(SETTINGS, script.check_client_abort),            \
         .initial = "off", .doc = "Whether Lua is told of a client that leaves."},                 \
    {                                                                                              \
        "lua_code_cache", CONTEXTS, FLAG(SETTINGS, script.code_cache), .initial = "on",            \
            .doc = "Whether Lua files are read once; off: anew for each request, in a VM of its own." \
    }

/* TLS of cosockets, for each place; SETTINGS as above. script_tls_finish makes a context of it. */
#define SCRIPT_TLS_ROWS(CONTEXTS, SETTINGS)                                                        \
    {"lua_ssl_protocols",                                                                          \
     CONTEXTS,                                                                                     \
     BITS(SETTINGS, script.tls.protocols, tls_protocol_words),                                     \
     .initial = "TLSv1 TLSv1.1 TLSv1.2 TLSv1.3",                                                   \
     .repeat = REPEAT_APPEND,                                                                      \
     .doc = "Versions of TLS that cosockets speak."},                                              \
        {"lua_ssl_ciphers", CONTEXTS, STRING(SETTINGS, script.tls.ciphers),                        \
         .initial = "DEFAULT", .doc = "Ciphers up to TLS 1.2, in OpenSSL's words."},               \
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
        {"lua_ssl_verify_depth", CONTEXTS, NUMBER(SETTINGS, script.tls.verify_depth),              \
         .initial = "1", .max = INT32_MAX, .doc = "Longest chain of certificates."},               \
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
            CUSTOM_FIELD(SETTINGS, script.tls.key_log, tls_client_key_log_apply), ARGS(1, 1),      \
            .syntax = "file",                                                                      \
            .doc = "Log of the secrets of connections in NSS's format."                            \
    }

bool script_tls_file_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                           void *settings);
/* The place was read: makes its context, one for all places that say the same. False after conf_error. */
bool script_tls_finish(struct conf_scope *scope, struct script_tls_settings *tls);

/* Main level: SETTINGS has a member `options`, a struct script_vm_options. */
#define SCRIPT_MAIN_ROWS(CONTEXTS, SETTINGS)                                                       \
    {"lua_package_path", CONTEXTS, STRING(SETTINGS, options.package_path),                         \
     .doc = "Where require looks for modules in Lua; \";;\" stands for the default."},             \
    {                                                                                              \
        "lua_package_cpath", CONTEXTS, STRING(SETTINGS, options.package_cpath),                    \
            .doc = "Where require looks for modules in C; \";;\" stands for the default."          \
    }

/* Reads a row of SCRIPT_CODE_ROWS. Several ways at one place are a duplicate. */
bool script_code_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings);

/* A text in an argument of the node; `name` is the directive's without _block and _file. NULL after conf_error. */
struct script_code *script_code_new(struct conf_scope *scope, const struct conf_node *node, struct str name,
                                    struct str text);

/* So many chunks the subsystem of this scope has: for script_vm_options. */
unsigned script_code_count(struct conf *conf, const char *subsystem);

#endif
