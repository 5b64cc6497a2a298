/* What a module adds to stream: variables, phase handlers, TLS. */
#ifndef STREAM_SESSION_HOOKS_H
#define STREAM_SESSION_HOOKS_H

#include "net/tls/tls.h"
#include "stream/session/settings.h"

/* A row: run in a phase. Of one phase, handlers of later modules run first, as in nginx. */
struct session_hook {
    enum stream_phase phase;
    bool is_early; /* before those of all modules that do not say so */
    session_handler run;
    /* Servers that need it: those where the setting is set, and for which is_active (may be NULL)
     * is true. Asked when the configuration is read. */
    struct settings_condition when;
    bool (*is_active)(const struct stream_server *server);
};

/* TLS with clients, of the module that has it. */
struct stream_handshake {
    /* As far as the handshake goes now; on the loop's stack, before the first of it has come, too.
     */
    enum tls_progress (*go_on)(struct session *session);
    uint64_t (*timeout_ms)(const struct stream_server *server);
    /* Of an address that is not TLS's from the first byte: can a script begin a handshake in the
     * middle of a session? */
    bool (*is_possible)(const struct session *session);
    /* After a handshake: is the client's certificate what the server asks for? False is logged. */
    bool (*accepts_client)(struct session *session);
};

/* struct module.hooks of a stream module; every member is optional. */
struct stream_module {
    const struct variable *variables; /* ended by an empty name */
    const struct session_hook *hooks; /* ended by a NULL run */
    const struct stream_handshake *handshake;
    /* Before the rows of the stream block are applied. */
    bool (*begin)(struct conf *conf, struct stream_main *main);
    /* After the whole block was applied. False after conf_error. */
    bool (*end)(struct conf *conf, struct stream_main *main);
};

/* Collects the hooks of all stream modules (a NULL-ended list), adds their variables. */
void stream_hooks_collect(struct conf *conf, struct stream_main *main);
/* Fills the lists of all servers, when all blocks have been read. */
void stream_hooks_link(struct conf *conf, struct stream_main *main);

#endif
