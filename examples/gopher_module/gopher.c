/*
 * ngx_http_gopher_module, an example of a protocol towards backends (RFC 1436): all that the exchange has to know to pass
 * requests on in it. The answer is what comes until the server closes the connection.
 *
 *     location / {
 *         gopher_pass gopher.example.org:70;
 *         gopher_read_timeout 5s;
 *     }
 */
#include "http/exchange/cache/rows.h"
#include "http/exchange/exchange.h"
#include "http/exchange/options/rows.h"
#include "server/module.h"

/* What the directives of one place say, besides the options that all protocols share. */
struct gopher_settings {
    struct pass_target target;
};

static struct settings_key gopher_key;
static struct settings_key gopher_options_key;
static const struct exchange_family gopher_family;

/* ---- the protocol: a line is the request, and all that comes is the answer ---- */

static bool gopher_make_request(struct exchange *x)
{
    const struct str line[] = {x->url_tail, STR("\r\n")};

    if (memchr(x->url_tail.data, '\n', x->url_tail.len) != NULL) {
        x->request->response.status = 400; /* it would be two requests */
        return false;
    }
    x->head = arena_join(&x->request->arena, line, 2);
    return true;
}

static enum head_result gopher_read_head(struct exchange *x)
{
    if (exchange_input(x).len == 0) {
        return HEAD_MORE; /* who closes without a word has failed */
    }
    x->response.status = 200;
    x->response.version = HTTP_1_0;
    response_set_type(x->request); /* by the name, as with files */
    return HEAD_DONE;
}

static enum body_result gopher_read_body(struct exchange *x, struct str *data)
{
    *data = exchange_input(x);
    exchange_consume(x, data->len);
    return data->len != 0 ? BODY_DATA : BODY_MORE;
}

static enum body_result gopher_body_ended(struct exchange *x)
{
    return x->connection->conn->is_broken ? BODY_BAD : BODY_END;
}

static const struct protocol gopher_protocol = {
    .family = &gopher_family,
    .name = STR_INIT("gopher"),
    .channel = &whole_connection,
    .make_request = gopher_make_request,
    .read_head = gopher_read_head,
    .read_body = gopher_read_body,
    .body_ended = gopher_body_ended,
};

/* ---- the handler ---- */

static enum handler_result gopher_answer(struct request *request)
{
    const struct gopher_settings *own = location_settings(request->location, &gopher_key);

    if (request->method != METHOD_GET) {
        return request_fail(request, 405);
    }
    struct exchange *x =
        exchange_new(request, &gopher_protocol,
                     location_settings(request->location, &gopher_options_key), own);
    x->group = own->target.group;
    x->default_port = own->target.default_port;
    if (x->group == NULL) {
        x->target_text = template_text(own->target.text, &request->env);
    }
    x->url_tail = request->uri; /* the selector */
    x->body_mode = SENT_BODY_NONE;
    return exchange_run(x);
}

static bool gopher_pass_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *settings)
{
    struct gopher_settings *own = settings;

    (void) row;
    return pass_target_read(scope, node, node->args[1], 70, &own->target) &&
           pass_handler_set(scope, node, gopher_answer);
}

/* ---- the rows: its own, and the families of options that it takes ---- */

static const struct directive gopher_rows[] = {
    {"gopher_pass", IN_LOCATION | IN_LOCATION_IF,
     CUSTOM_FIELD(struct gopher_settings, target, gopher_pass_apply), ARGS(1, 1),
     .syntax = "address", .doc = "The gopher server, or group of them, that answers."},
    {0},
};

static const struct directive_table gopher_table = {
    .key = &gopher_key,
    .rows = gopher_rows,
    .contexts = IN_HTTP_LOCATION_SETTINGS,
    .size = sizeof(struct gopher_settings),
};

static const struct directive gopher_options[] = {
    EXCHANGE_CONNECT_ROWS("gopher", next_upstream_words),
    EXCHANGE_BODY_ROWS("gopher"),
    EXCHANGE_CACHE_ROWS("gopher", cache_use_stale_words),
    {0},
};

/* What of a protocol has to be known when the configuration is read. */
static const struct exchange_family gopher_family = {
    .prefix = "gopher",
    .table = EXCHANGE_TABLE(gopher_options_key, gopher_options, exchange_settings_finish),
    .temp_path = STR_INIT("gopher_temp"),
    .hidden_ids = HIDDEN_OF_CGI,
    .cache_hook = &response_cache_hook,
};

static const struct directive_table *const gopher_tables[] = {&gopher_table, &gopher_family.table,
                                                              NULL};

const struct module ngx_http_gopher_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_gopher_module",
    .kind = MODULE_HTTP,
    .tables = gopher_tables,
};
