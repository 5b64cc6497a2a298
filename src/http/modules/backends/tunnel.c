/* ngx_http_tunnel_module: CONNECT (RFC 9110, 9.3.6): relays bytes between a client and its
 * target. */
#include "http/exchange/options/rows.h"
#include "http/exchange/exchange.h"
#include "server/module.h"

static struct settings_key tunnel_key;
static struct settings_key tunnel_exchange_key;
static const struct exchange_family tunnel_family;

struct tunnel_settings {
    const struct pass_target *target; /* NULL: no tunnel_pass here */
};

/* ---- the protocol: nothing is sent, and an established connection is the response ---- */

static enum head_result tunnel_read_head(struct exchange *x)
{
    x->response.status = 200;
    x->response.version = HTTP_1_1;
    x->response.is_upgrade = true;
    return HEAD_DONE;
}

static const struct protocol tunnel_protocol = {
    .family = &tunnel_family,
    .name = STR_INIT("tunnel"),
    .channel = &whole_connection,
    .read_head = tunnel_read_head,
};

/* ---- the handler ---- */

static enum handler_result tunnel_handle(struct request *request)
{
    const struct tunnel_settings *settings = location_settings(request->location, &tunnel_key);

    if (request->method != METHOD_CONNECT) {
        return request_fail(request, 405);
    }
    struct exchange *x =
        exchange_new(request, &tunnel_protocol,
                     location_settings(request->location, &tunnel_exchange_key), settings);
    exchange_set_target(x, settings->target);
    x->head = STR("");
    x->body_mode = SENT_BODY_NONE;
    return exchange_run(x);
}

/* ---- when the configuration is read ---- */

static bool tunnel_pass_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *settings)
{
    struct pass_target *target = arena_new(scope->conf->arena, struct pass_target);
    struct str address = node->count == 2 ? node->args[1] : STR("$host:$request_port");

    if (!pass_target_read(scope, node, address, 0, target)) {
        return false;
    }
    ((struct tunnel_settings *) settings)->target = target;
    scope_server(scope)->accepts_connect = true;
    return pass_handler_set(scope, node, tunnel_handle);
}

static const struct directive tunnel_rows[] = {
    {"tunnel_pass", IN_SERVER | IN_LOCATION | IN_LOCATION_IF, CUSTOM(tunnel_pass_apply), ARGS(0, 1),
     .syntax = "[address]",
     .doc = "Opens a tunnel for CONNECT requests to this address or group; by default to "
            "the host and port that the client requests."},
    {0},
};

static const struct directive_table tunnel_table = {.key = &tunnel_key,
                                                    .rows = tunnel_rows,
                                                    .contexts = IN_HTTP_LOCATION_SETTINGS,
                                                    .size = sizeof(struct tunnel_settings)};

static const struct directive_word next_words[] = {{"error", NEXT_ERROR},
                                                   {"timeout", NEXT_TIMEOUT},
                                                   {"denied", NEXT_DENIED},
                                                   {"off", NEXT_OFF},
                                                   {NULL, 0}};

static const struct directive tunnel_exchange_rows[] = {
    EXCHANGE_CONNECT_ROWS("tunnel", next_words),
    EXCHANGE_ALLOW_ROW("tunnel"),
    EXCHANGE_SOCKET_ROWS("tunnel"),
    {0},
};

static const struct exchange_family tunnel_family = {
    .prefix = "tunnel",
    .table = EXCHANGE_TABLE(tunnel_exchange_key, tunnel_exchange_rows, exchange_settings_finish),
};

static const struct directive_table *const tunnel_tables[] = {&tunnel_table, &tunnel_family.table,
                                                              NULL};

const struct module ngx_http_tunnel_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_tunnel_module",
    .kind = MODULE_HTTP,
    .tables = tunnel_tables,
};
