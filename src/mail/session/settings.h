/* The configuration of mail: the main level, servers, and the addresses that they listen on.
 * Implemented in listen.c. */
#ifndef MAIL_SESSION_SETTINGS_H
#define MAIL_SESSION_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/log.h"
#include "conf/directive.h"
#include "net/resolver/resolver.h"
#include "server/generation.h"
#include "shared/access/forwarded.h"
#include "shared/listen/address.h"
#include "shared/tls/server.h"

struct mail_protocol;
struct mail_session;

#define IN_MAIL_ALL (IN_MAIL | IN_MAIL_SERVER)

/* ngx_mail_core_module, mail level only. */
extern struct settings_key mail_main_key;
struct mail_main {
    struct vec servers;            /* struct mail_server *, in order */
    struct vec listens;            /* struct mail_listen * */
    struct vec protocols;          /* const struct mail_protocol *, of all modules */
    struct str hostname;           /* of the machine, lower case */
    struct generation *generation; /* of this reading */
};

/* ngx_mail_core_module, server level. A member without a comment is the value of the directive of
 * that name. */
extern struct settings_key mail_server_key;
struct mail_server {
    const struct mail_protocol *protocol; /* set, or guessed from a port; NULL = unknown */
    struct str server_name;               /* the machine's, if it is not set */
    uint64_t timeout_ms;
    int64_t max_errors;
    bool so_keepalive;
    const struct resolver_settings *resolver; /* or NULL */
    uint64_t resolver_timeout_ms;
    struct log_sink *error_log;     /* the main level's, if it has none of its own */
    enum log_level error_log_level; /* derived: the lowest level of all sinks */
    struct vec listens;             /* struct mail_listen *: its addresses */
    void **settings;                /* by table index: every module's settings */
    const struct conf_node *node;   /* the block */
    struct mail_main *main;         /* of the mail block */
};

/* ngx_mail_ssl_module. */
enum mail_starttls { STARTTLS_OFF, STARTTLS_ON, STARTTLS_ONLY };
extern struct settings_key mail_ssl_key;
struct mail_ssl {
    struct tls_server_settings tls; /* first member: filled by the rows that all protocols share */
    bool ssl;
    unsigned starttls; /* enum mail_starttls */
};

/* ngx_mail_realip_module: trusted senders of PROXY headers. */
extern struct settings_key mail_realip_key;
struct mail_realip {
    struct forwarded forwarded;
};

/* An address and its one server: listener->user. */
struct mail_listen {
    struct listen_address address; /* first member; common to all protocols */
    const struct mail_server *server;
    struct log log; /* for connections without a session */
};

/* The main settings of this reading; NULL without a mail block. */
struct mail_main *mail_main_of(struct conf *conf);
void mail_main_set(struct conf *conf, struct mail_main *main);

/* A module's settings in a server. */
static inline void *mail_settings(const struct mail_server *server, const struct settings_key *key)
{
    return server->settings[key->number];
}

/* struct module.hooks of a mail module; every member is optional. */
struct mail_module {
    const struct mail_protocol *protocol; /* that the module implements */
    /* Called after a server's block was read. False after conf_error. */
    bool (*check)(struct conf_scope *scope, struct mail_server *server);
};

/* `listen` of a server block. */
bool mail_listen_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings);

#endif
