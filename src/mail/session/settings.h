/* What a configuration says about mail: the main level, servers, and the addresses they listen on.
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

/* ngx_mail_core_module, mail level alone. */
extern struct settings_key mail_main_key;
struct mail_main {
    struct vec servers;            /* struct mail_server *, in order */
    struct vec listens;            /* struct mail_listen * */
    struct vec protocols;          /* const struct mail_protocol *, of all modules */
    struct str hostname;           /* of the machine, lower case */
    struct generation *generation; /* of this reading */
};

/* ngx_mail_core_module, server level. A member without a comment is the value of the directive of
 * its name. */
extern struct settings_key mail_server_key;
struct mail_server {
    const struct mail_protocol *protocol; /* named, or guessed from a port; NULL = not known */
    struct str server_name;               /* the machine's, where none is written */
    uint64_t timeout_ms;
    int64_t max_errors;
    bool so_keepalive;
    const struct resolver_settings *resolver; /* or NULL */
    uint64_t resolver_timeout_ms;
    struct log_sink *error_log;     /* main's, when it has none of its own */
    enum log_level error_log_level; /* derived: the least important that any sink takes */
    struct vec listens;             /* struct mail_listen * it is on */
    void **settings;                /* by table index: every module's settings */
    const struct conf_node *node;   /* the block */
    struct mail_main *main;         /* above it */
};

/* ngx_mail_ssl_module. */
enum mail_starttls { STARTTLS_OFF, STARTTLS_ON, STARTTLS_ONLY };
extern struct settings_key mail_ssl_key;
struct mail_ssl {
    struct tls_server_settings tls; /* first: the rows that all protocols have fill it */
    bool ssl;
    unsigned starttls; /* enum mail_starttls */
};

/* ngx_mail_realip_module: who is believed when the PROXY protocol tells of a client. */
extern struct settings_key mail_realip_key;
struct mail_realip {
    struct forwarded forwarded;
};

/* An address, and the one server behind it: hangs on struct listener.user. */
struct mail_listen {
    struct listen_address address; /* first: what all protocols have of one */
    const struct mail_server *server;
    struct log log; /* for lines about connections without a session */
};

/* Main of the reading; NULL where there is no mail block. */
struct mail_main *mail_main_of(struct conf *conf);
void mail_main_set(struct conf *conf, struct mail_main *main);

/* What a module's table says for a server. */
static inline void *mail_settings(const struct mail_server *server, const struct settings_key *key)
{
    return server->settings[key->number];
}

/* struct module.hooks of a mail module; every member is optional. */
struct mail_module {
    const struct mail_protocol *protocol; /* that it brings */
    /* When a server's block was read. False after conf_error. */
    bool (*check)(struct conf_scope *scope, struct mail_server *server);
};

/* `listen` of a server block. */
bool mail_listen_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings);

#endif
