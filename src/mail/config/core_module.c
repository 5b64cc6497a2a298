/* ngx_mail_module and ngx_mail_core_module: the blocks mail and server, and the directives of the
 * core. */
#include "mail/session/session.h"
#include "server/module.h"
#include "shared/variables/give.h"
#include "upstream/settings/resolver_rows.h"

static const struct module *const *modules_of(const struct conf *conf)
{
    return ((struct generation *) conf->generation)->modules;
}

/* ---- mail ---- */

static void mail_prepare(struct conf_scope *scope, void *arg)
{
    struct conf *conf = scope->conf;
    struct mail_main *main = conf_settings(scope, &mail_main_key);
    struct mail_server *defaults = conf_settings(scope, &mail_server_key);

    mail_main_set(conf, main);
    main->generation = conf->generation;
    main->hostname = variable_machine_name(conf->arena);
    defaults->main = main;
    for (const struct module *const *module = modules_of(conf); *module != NULL; module++) {
        const struct mail_module *mail = (*module)->hooks;

        if ((*module)->kind == MODULE_MAIL && mail != NULL && mail->protocol != NULL) {
            *vec_add(&main->protocols, conf->arena, const struct mail_protocol *) = mail->protocol;
        }
    }
}

static bool mail_enter(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    return conf_enter(scope, node, IN_MAIL, mail_prepare, NULL) != NULL;
}

/* ---- server ---- */

static void server_prepare(struct conf_scope *scope, void *arg)
{
    struct mail_server *server = conf_settings(scope, &mail_server_key);
    struct mail_main *main = mail_main_of(scope->conf);

    server->main = main;
    server->node = scope->node;
    server->settings = scope->settings;
    *vec_add(&main->servers, scope->conf->arena, struct mail_server *) = server;
}

/* The protocol that usually has this port, or NULL. */
static const struct mail_protocol *protocol_of_port(const struct mail_main *main, uint16_t port)
{
    vec_each(const struct mail_protocol *, protocol, &main->protocols) {
        for (const uint16_t *usual = (*protocol)->ports; *usual != 0; usual++) {
            if (*usual == port) {
                return *protocol;
            }
        }
    }
    return NULL;
}

static void guess_protocol(struct mail_server *server)
{
    vec_each(struct mail_listen *, listen, &server->listens) {
        if (server->protocol == NULL) {
            server->protocol =
                protocol_of_port(server->main, addr_port(&(*listen)->address.listener->addr));
        }
    }
}

static bool check_server(struct conf_scope *scope, struct mail_server *server)
{
    struct conf *conf = scope->conf;

    if (server->listens.count == 0) {
        return conf_error(conf, server->node, "no \"listen\" is defined for server");
    }
    guess_protocol(server);
    if (server->protocol == NULL) {
        return conf_error(conf, server->node, "unknown mail protocol for server");
    }
    for (const struct module *const *module = modules_of(conf); *module != NULL; module++) {
        const struct mail_module *mail = (*module)->hooks;

        if ((*module)->kind == MODULE_MAIL && mail != NULL && mail->check != NULL &&
            !mail->check(scope, server)) {
            return false;
        }
    }
    return true;
}

static bool server_enter(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    unsigned errors = scope->conf->error_count;
    struct conf_scope *inner = conf_enter(scope, node, IN_MAIL_SERVER, server_prepare, NULL);

    return inner != NULL && scope->conf->error_count == errors &&
           check_server(inner, conf_settings(inner, &mail_server_key));
}

/* ---- rows ---- */

static bool protocol_apply(struct conf_scope *scope, const struct directive *row,
                           struct conf_node *node, void *settings)
{
    const struct mail_main *main = mail_main_of(scope->conf);

    vec_each(const struct mail_protocol *, protocol, &main->protocols) {
        if (str_equal((*protocol)->name, node->args[1])) {
            ((struct mail_server *) settings)->protocol = *protocol;
            return true;
        }
    }
    return conf_error(scope->conf, node, "unknown protocol \"%.*s\"", STR_ARG(node->args[1]));
}

static const struct directive block_rows[] = {
    {"mail", IN_MAIN, BLOCK(mail_enter), ARGS(0, 0),
     .doc = "Contains the configuration of mail servers."},
    {"imap", IN_MAIN, BLOCK(mail_enter), ARGS(0, 0), .doc = "Old name of mail. From Tengine.",
     .replaced_by = "mail"},
    {0},
};

static const struct directive main_rows[] = {
    {"server", IN_MAIL, BLOCK(server_enter), ARGS(0, 0), .repeat = REPEAT_APPEND,
     .doc = "Configures a mail server: its addresses and its protocol."},
    {0},
};

#define S struct mail_server
static const struct directive server_rows[] = {
    {"listen", IN_MAIL_SERVER, CUSTOM(mail_listen_apply), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_APPEND, .syntax = "address:port | port | unix:path [parameters]",
     .doc = "Address and port on which the server accepts connections."},
    {"protocol", IN_MAIL_SERVER, CUSTOM(protocol_apply), ARGS(1, 1), .repeat = REPEAT_CUSTOM,
     .syntax = "imap | pop3 | smtp",
     .doc = "Protocol of the server. By default, it follows from the port: 143 and 993 for IMAP, "
            "110 and 995 for POP3, 25, 587 and 465 for SMTP."},
    {"server_name", IN_MAIL_ALL, STRING(S, server_name),
     .doc = "Name of the server, in greetings and in commands to backends. By default, the host "
            "name."},
    {"timeout", IN_MAIL_ALL, MSEC(S, timeout_ms), .initial = "60s",
     .doc = "Timeout for a command of a client, and for a response of a backend, before the "
            "login is complete."},
    {"max_errors", IN_MAIL_ALL, NUMBER(S, max_errors), .initial = "5",
     .doc = "Number of invalid commands after which the connection is closed."},
    {"so_keepalive", IN_MAIL_ALL, FLAG(S, so_keepalive), .initial = "off",
     .doc = "Whether TCP keepalive is enabled on connections to backends, and on client "
            "connections whose `listen` has no `so_keepalive`. From Tengine.",
     .replaced_by = "listen ... so_keepalive"},
    {"resolver", IN_MAIL_ALL, CUSTOM_FIELD(S, resolver, resolver_or_off_row_apply),
     ARGS(1, ARGS_ANY), .syntax = "off | " RESOLVER_SYNTAX,
     .doc = "Name servers that are used to find the host names of SMTP clients. `off` disables "
            "the lookup."},
    RESOLVER_TIMEOUT_ROW(IN_MAIL_ALL, S),
    {"error_log", IN_MAIL_ALL, CUSTOM_FIELD(S, error_log, error_log_apply), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_APPEND,
     .syntax = "file | stderr | syslog:parameters | pipe:command [level] [json]",
     .doc = "Destination of the error log for sessions."},
    {0},
};
#undef S

static void server_fresh(void *settings)
{
    ((struct mail_server *) settings)->listens = (struct vec){0};
    ((struct mail_server *) settings)->protocol = NULL;
}

static bool server_finish(struct conf_scope *scope, void *settings)
{
    struct mail_server *server = settings;
    const struct mail_main *main = mail_main_of(scope->conf);

    if (server->server_name.len == 0 && main != NULL) {
        server->server_name = main->hostname;
    }
    return true;
}

static const struct directive_table main_table = {.key = &mail_main_key,
                                                  .rows = main_rows,
                                                  .contexts = IN_MAIL,
                                                  .size = sizeof(struct mail_main)};
static const struct directive_table server_table = {.key = &mail_server_key,
                                                    .rows = server_rows,
                                                    .contexts = IN_MAIL_ALL,
                                                    .size = sizeof(struct mail_server),
                                                    .fresh = server_fresh,
                                                    .finish = server_finish};
static const struct directive_table *const core_tables[] = {&main_table, &server_table, NULL};

/* ---- the modules ---- */

/* Sets the logs of servers and of their addresses, when that of the main level is known. */
static bool mail_core_configured(struct conf *conf, struct generation *generation)
{
    struct mail_main *main = mail_main_of(conf);

    if (main == NULL) {
        return true;
    }
    vec_each(struct mail_server *, server, &main->servers) {
        if ((*server)->error_log == NULL) {
            (*server)->error_log = generation->core->error_log;
        }
        (*server)->error_log_level = log_chain_level((*server)->error_log);
    }
    vec_each(struct mail_listen *, listen, &main->listens) {
        struct listen_address *address = &(*listen)->address;

        (*listen)->log = (struct log){.sinks = (*listen)->server->error_log,
                                      .level = (*listen)->server->error_log_level};
        address->listener->opening =
            (uint32_t) address->is_ssl << 1 | (uint32_t) address->is_proxy_protocol;
        if ((*listen)->server->so_keepalive && address->listener->options.keepalive == 0) {
            address->listener->options.keepalive = 1;
        }
    }
    return true;
}

static void mail_core_worker_abort(struct generation *generation)
{
    mail_sessions_abort();
}

const struct module ngx_mail_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_mail_module",
    .kind = MODULE_CORE,
    .table = {.rows = block_rows},
};

const struct module ngx_mail_core_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_mail_core_module",
    .kind = MODULE_MAIL,
    .tables = core_tables,
    .configured = mail_core_configured,
    .worker_abort = mail_core_worker_abort,
};

/* ---- ngx_mail_realip_module: trusted senders of PROXY headers ---- */

static bool trust_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    return forwarded_trust(scope->conf, node, &((struct mail_realip *) settings)->forwarded);
}

static const struct directive rows[] = {
    {"set_real_ip_from", IN_MAIL_ALL, CUSTOM_FIELD(struct mail_realip, forwarded, trust_apply),
     ARGS(1, 1), .repeat = REPEAT_APPEND, .syntax = "address | CIDR | unix: | host",
     .doc = "Address of a trusted proxy, whose PROXY protocol header sets the client's address."},
    {0},
};

const struct module ngx_mail_realip_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_mail_realip_module",
    .kind = MODULE_MAIL,
    .table = {.key = &mail_realip_key,
              .rows = rows,
              .contexts = IN_MAIL_ALL,
              .size = sizeof(struct mail_realip)},
};
