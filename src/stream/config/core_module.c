/* ngx_stream_module and ngx_stream_core_module: the blocks of stream, and the directives of the
 * core. */
#include "net/datagram/ids.h"
#include "server/module.h"
#include "shared/variables/give.h"
#include "stream/session/hooks.h"
#include "stream/session/listen.h"
#include "stream/session/story.h"
#include "upstream/settings/resolver_rows.h"
#include "upstream/upstream.h"

/* ---- the block `stream` ---- */

static bool for_each_module(struct conf *conf, struct stream_main *main, bool is_begin)
{
    bool is_good = true;

    vec_each(const struct stream_module *, module, &main->hooks) {
        bool (*hook)(struct conf *, struct stream_main *) =
            is_begin ? (*module)->begin : (*module)->end;

        is_good &= hook == NULL || hook(conf, main);
    }
    return is_good;
}

/* Runs before any row of the block: sets up the main structure; modules set up theirs in
 * `begin`. */
static void stream_prepare(struct conf_scope *scope, void *arg)
{
    struct conf *conf = scope->conf;
    struct stream_main *main = conf_settings(scope, &stream_main_key);

    main->generation = conf->generation;
    main->generation->stream = main;
    main->hostname = variable_machine_name(conf->arena);
    main->variables.kind = &session_subject;
    conf_set_variables(conf, &main->variables);
    stream_hooks_collect(conf, main);
    for_each_module(conf, main, true);
}

static bool stream_enter(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct conf_scope *inner = conf_enter(scope, node, IN_STREAM, stream_prepare, NULL);

    if (inner == NULL || conf->error_count != 0) {
        return false; /* what follows needs complete settings */
    }
    struct stream_main *main = stream_main_of(conf);
    stream_hooks_link(conf, main);
    bool is_good = stream_listens_finish(conf, main);
    is_good &= for_each_module(conf, main, false);
    is_good = variable_check_all(conf, &main->variables) && is_good;
    conf_set_variables(conf, NULL);
    return is_good;
}

static const struct directive block_rows[] = {
    {"stream", IN_MAIN, BLOCK(stream_enter), ARGS(0, 0),
     .doc = "Contains the configuration of TCP and UDP proxy servers."},
    {0},
};

/* ---- the block `server` ---- */

static void server_prepare(struct conf_scope *scope, void *arg)
{
    struct stream_server *server = scope_stream_server(scope);

    server->node = scope->node;
    server->settings = scope->settings;
    *vec_add(&server->main->servers, scope->conf->arena, struct stream_server *) = server;
}

/* nginx 1.31 accepts a server without a content handler. Its clients connect, complete the
 * handshake and are closed. */
static enum session_step close_without_content(struct session *session)
{
    return session_fail(session, SESSION_INTERNAL_ERROR);
}

static bool server_enter(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    unsigned errors = conf->error_count;
    struct conf_scope *inner = conf_enter(scope, node, IN_STREAM_SERVER, server_prepare, NULL);

    if (inner == NULL || conf->error_count != errors) {
        return false;
    }
    struct stream_server *server = scope_stream_server(inner);
    if (!server->has_listen) {
        return conf_error(conf, NULL, "no \"listen\" is defined for server in %.*s:%u",
                          STR_ARG(node->file->name), node->end_line);
    }
    if (server->content == NULL) {
        conf_warn(conf, NULL, "no handler for server in %.*s:%u", STR_ARG(node->file->name),
                  node->end_line);
        server->content = close_without_content;
    }
    if (server->names.count == 0) {
        struct server_name *name = vec_add(&server->names, conf->arena, struct server_name);

        name->owner = server;
        name->block = server->node;
        name->name = STR("");
    }
    return true;
}

#define M struct stream_main
static const struct directive main_rows[] = {
    {"server", IN_STREAM, BLOCK(server_enter), ARGS(0, 0), .repeat = REPEAT_APPEND,
     .doc = "Configures a server. It is selected by address, and for TLS clients also by server "
            "name."},
    {"server_names_hash_bucket_size", IN_STREAM, NUMBER(M, server_names_hash_bucket_size),
     .initial = "64",
     .doc = "Accepted and ignored: the hash tables of server names are sized automatically."},
    {"server_names_hash_max_size", IN_STREAM, NUMBER(M, server_names_hash_max_size),
     .initial = "512",
     .doc = "Accepted and ignored: the hash tables of server names are sized automatically."},
    {"variables_hash_bucket_size", IN_STREAM, NUMBER(M, variables_hash_bucket_size),
     .apply = conf_hash_size_check, .initial = "64",
     .doc = "Accepted and ignored: the hash table of variables is sized automatically."},
    {"variables_hash_max_size", IN_STREAM, NUMBER(M, variables_hash_max_size),
     .apply = conf_hash_size_check, .initial = "1024",
     .doc = "Accepted and ignored: the hash table of variables is sized automatically."},
    {0},
};
#undef M

static const struct directive_table main_table = {.key = &stream_main_key,
                                                  .rows = main_rows,
                                                  .contexts = IN_STREAM,
                                                  .size = sizeof(struct stream_main)};

/* ---- settings of servers ---- */

static bool server_name_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *settings)
{
    struct stream_server *server = settings;
    const struct server_name owner = {.owner = server, .block = server->node};

    if (!server_names_read(scope->conf, node, server->main->hostname, &owner, &server->names)) {
        return false;
    }
    const struct server_name *first = vec_at(&server->names, struct server_name, 0);
    server->name = first->kind == NAME_BOTH ? first->name : first->written;
    return true;
}

static void server_fresh(void *settings)
{
    struct stream_server *server = settings;

    server->names = (struct vec){0};
    server->listens = (struct vec){0};
    server->has_listen = false;
    server->content = NULL;
    server->group = NULL;
    server->tls = NULL;
}

/* Evaluates udp_flow_key. False after conf_error. */
static bool flow_key_read(struct conf_scope *scope, struct stream_server *server)
{
    const struct template *key = server->udp_flow_key;

    server->flow_ids = DATAGRAM_IDS_NONE;
    if (!key->is_constant || str_is(key->constant, "address")) {
        return true;
    }
    if (str_is(key->constant, "quic")) {
        server->flow_ids = DATAGRAM_IDS_QUIC;
    } else if (str_is(key->constant, "dtls")) {
        server->flow_ids = DATAGRAM_IDS_DTLS;
    } else {
        return conf_error(
            scope->conf, scope->node,
            "invalid value \"%.*s\" in \"udp_flow_key\": it is \"address\", \"quic\", "
            "\"dtls\", or a text with variables",
            STR_ARG(key->constant));
    }
    return true;
}

static bool server_finish(struct conf_scope *scope, void *settings)
{
    struct stream_server *server = settings;

    server->main = conf_settings(scope, &stream_main_key);
    server->settings = scope->settings;
    return flow_key_read(scope, server);
}

#define S struct stream_server
#define IN_BOTH IN_STREAM | IN_STREAM_SERVER
static const struct directive server_rows[] = {
    {"listen", IN_STREAM_SERVER, CUSTOM(stream_listen_apply), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_APPEND,
     .syntax = "address:port [default_server] [ssl] [udp] [proxy_protocol] [socket options]",
     .doc = "Address and port on which the server accepts connections or datagrams."},
    {"server_name", IN_STREAM_SERVER, CUSTOM(server_name_apply), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_APPEND, .syntax = "name ...",
     .doc = "Names of the server, which clients request in the TLS handshake (SNI)."},
    {"preread_buffer_size", IN_BOTH, SIZE(S, preread_buffer_size), .initial = "16k",
     .doc = "Largest size of the data that is read in the preread phase. If it is not enough, "
            "the session ends with status 400."},
    {"preread_timeout", IN_BOTH, MSEC(S, preread_timeout_ms), .initial = "30s",
     .doc = "Timeout for the preread phase."},
    {"proxy_protocol_timeout", IN_BOTH, MSEC(S, proxy_protocol_timeout_ms), .initial = "30s",
     .doc = "Timeout for reading the PROXY protocol header."},
    {"max_self_hops", IN_BOTH, NUMBER(S, max_self_hops), .initial = "10", .min = 0, .max = 250,
     .doc = "Largest number of times a session may reach this server from the server itself, "
            "when one of its backends is the server itself. A session that exceeds it ends with "
            "status 500. nginx does not have this directive."},
    {"tcp_nodelay", IN_BOTH, FLAG(S, tcp_nodelay), .initial = "on",
     .doc = "Whether TCP_NODELAY is enabled on connections with clients and backends."},
    {"udp_flow_key", IN_BOTH, TEMPLATE(S, udp_flow_key), .initial = "address",
     .syntax = "address | quic | dtls | string",
     .doc = "Identifies the session to which a UDP datagram belongs: `address` is the client's "
            "address and port; `quic` and `dtls` add the connection IDs, which a client keeps "
            "when its address changes; a string with variables, such as `$remote_addr`, is "
            "evaluated. The setting of the default server of the address is used. nginx does "
            "not have this directive."},
    {"session_memory_limit", IN_BOTH, SIZE(S, session_memory_limit), .initial = "1m",
     .doc = "Largest amount of memory that a session may use for variables and strings made "
            "from them, without its buffers. A session that exceeds it ends with status 500. 0: "
            "no limit. nginx does not have this directive."},
    RESOLVER_ROWS(IN_BOTH, S),
    {"error_log", IN_BOTH, CUSTOM_FIELD(S, error_log, error_log_apply), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_APPEND,
     .syntax = "file | stderr | syslog:parameters | pipe:command [level] [json]",
     .doc = "Destination of the error log for sessions."},
    {0},
};
#undef S

static const struct directive_table server_table = {.key = &stream_server_key,
                                                    .rows = server_rows,
                                                    .contexts = IN_BOTH,
                                                    .size = sizeof(struct stream_server),
                                                    .fresh = server_fresh,
                                                    .finish = server_finish};

/* ---- modules ---- */

/* Runs after the whole file was read: servers without a log of their own get that of the main
 * level. */
static bool stream_configured(struct conf *conf, struct generation *generation)
{
    struct stream_main *main = generation->stream;

    if (main == NULL) {
        return true;
    }
    vec_each(struct stream_server *, server, &main->servers) {
        if ((*server)->error_log == NULL) {
            (*server)->error_log = generation->core->error_log;
        }
        (*server)->error_log_level = log_chain_level((*server)->error_log);
    }
    vec_each(struct stream_listen *, listen, &main->listens) {
        const struct stream_server *server = (*listen)->default_server;

        (*listen)->log = (struct log){.sinks = server->error_log, .level = server->error_log_level};
        (*listen)->address.listener->opening =
            UINT32_MAX; /* no connection is passed to another listener */
    }
    return true;
}

static void stream_worker_abort(struct generation *generation)
{
    sessions_abort();
}

static const struct directive_table *const core_tables[] = {&main_table, &server_table, NULL};
static const struct stream_module core_hooks = {.variables = session_variables};

static const struct variable *stream_variables_of(const struct module *module, unsigned list)
{
    const struct stream_module *stream = module->hooks;

    return module->kind != MODULE_STREAM || stream == NULL || list > 0 ? NULL : stream->variables;
}

const struct module ngx_stream_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_module",
    .kind = MODULE_CORE,
    .table = {.rows = block_rows},
    .configured = stream_configured,
    .worker_abort = stream_worker_abort,
    .variables_of = stream_variables_of,
};

const struct module ngx_stream_core_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_core_module",
    .kind = MODULE_STREAM,
    .tables = core_tables,
    .hooks = &core_hooks,
};
