/* The settings that http and stream have in common for Lua: what lua_* directives say of a place.
 */
#ifndef LUA_VM_SETTINGS_H
#define LUA_VM_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

struct resolver_settings;
struct log_file;
struct tls_context;

/* What lua_ssl_* say of a place: TLS of sockets. */
struct script_tls_settings {
    unsigned protocols; /* enum tls_protocol */
    struct str ciphers;
    struct vec certificates, keys;  /* struct str: files, in pairs */
    struct str trusted_certificate; /* full path, or empty */
    struct str crl;                 /* likewise */
    int64_t verify_depth;
    struct vec commands;      /* struct str pairs: lua_ssl_conf_command */
    struct log_file *key_log; /* gets the secrets of connections; NULL = none */
    struct tls_context
        *context; /* derived; NULL: that of the defaults, which is made when it is needed */
};

struct script_settings {
    uint64_t connect_timeout_ms; /* lua_socket_connect_timeout, and so on */
    uint64_t send_timeout_ms;
    uint64_t read_timeout_ms;
    uint64_t keepalive_timeout_ms;
    uint64_t buffer_size; /* bytes of the first buffer for what a cosocket reads */
    int64_t pool_size;    /* idle connections in a pool of one worker */
    uint64_t send_lowat;  /* lua_socket_send_lowat; no effect on Linux */
    bool log_errors;      /* lua_socket_log_errors */
    bool check_client_abort;
    bool code_cache;
    struct script_tls_settings tls;

    /* Derived, by who has the place. */
    const struct resolver_settings *resolver; /* finds names that sockets connect to; or NULL */
    uint64_t resolver_timeout_ms;
};

#endif
