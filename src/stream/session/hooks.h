/* What a module adds to stream: variables, phase handlers, TLS. */
#ifndef STREAM_SESSION_HOOKS_H
#define STREAM_SESSION_HOOKS_H

#include "net/tls/tls.h"
#include "stream/session/settings.h"

/* A handler of a phase. Within a phase, handlers of later modules run first, as in nginx. */
struct session_hook {
    enum stream_phase phase;
    bool is_early; /* runs before the handlers of all modules that are not early */
    session_handler run;
    /* The handler runs in servers where the setting is set and is_active (may be NULL) gives true.
     * Evaluated when the configuration is read. */
    struct settings_condition when;
    bool (*is_active)(const struct stream_server *server);
};

/* TLS with clients, implemented by one module. */
struct stream_handshake {
    /* Runs the handshake as far as possible now; on the loop's stack. Also called before the first
     * bytes have arrived. */
    enum tls_progress (*go_on)(struct session *session);
    uint64_t (*timeout_ms)(const struct stream_server *server);
    /* For an address without `ssl`: may a script start a handshake in the middle of a session? */
    bool (*is_possible)(const struct session *session);
    /* After a handshake: does the client's certificate satisfy the server? False is logged. */
    bool (*accepts_client)(struct session *session);
};

/* struct module.hooks of a stream module; every member is optional. */
struct stream_module {
    const struct variable *variables; /* ends with an empty name */
    const struct session_hook *hooks; /* ends with a NULL run */
    const struct stream_handshake *handshake;
    /* Called before the rows of the stream block are applied. */
    bool (*begin)(struct conf *conf, struct stream_main *main);
    /* Called after the whole block was applied. False after conf_error. */
    bool (*end)(struct conf *conf, struct stream_main *main);
};

/* Collects the hooks of all stream modules, and adds their variables. */
void stream_hooks_collect(struct conf *conf, struct stream_main *main);
/* Fills the handler lists of all servers, after all blocks were read. */
void stream_hooks_link(struct conf *conf, struct stream_main *main);

#endif
