/* ngx_http_proxy_connect_module (Tengine's): a server that makes tunnels for CONNECT (RFC 9110,
 * 9.3.6), whatever its locations do with other methods. */
#include <errno.h>

#include "base/clock.h"
#include "base/parse.h"
#include "http/exchange/heads/response_head.h"
#include "http/exchange/options/rows.h"
#include "http/exchange/exchange.h"
#include "http/routing/hooks.h"
#include "http/variables/variables.h"
#include "server/module.h"

static struct settings_key connect_key;

/* Ports that clients may connect to. */
struct port_range {
    uint16_t first, last;
};

struct connect_settings {
    struct exchange_settings exchange; /* must be first: rows of the family fill it */
    bool is_on;
    struct vec allowed;        /* struct port_range */
    struct template *address;  /* where to connect instead of the client's target; NULL = off */
    struct template *response; /* header of the response */
};

/* Timeouts that were assigned to the request by `set`; in milliseconds. */
enum { TIME_CONNECT, TIME_DATA, TIME_SEND, TIMES };
struct connect_times {
    uint64_t ms[TIMES];
    bool is_set[TIMES];
};

/* One tunnel; in the request's arena. */
struct connect_state {
    uint64_t start_ms; /* when the resolution of its target began */
};

TYPED_SETTINGS(proxy_connect_settings_at, struct connect_settings, connect_key,
               struct http_location)

/* ---- the protocol: nothing is sent, and the response comes from the configuration ---- */

/* Parses proxy_connect_response as if the backend had sent it, once the connection is established.
 * HTTP/1 clients get it unchanged, others get its parsed form. */
static enum head_result proxy_connect_read_head(struct exchange *x)
{
    struct str text;
    size_t used = 0;

    variable_get_by_name(&x->request->env, STR("proxy_connect_response"), &text);
    if (upstream_response_parse_status_line(text, &x->response, &used) != HEAD_DONE ||
        upstream_response_parse_fields(x, str_skip(text, used), false, &used) != HEAD_DONE ||
        x->response.status < 200) {
        log_error(&x->request->log, 0, "invalid \"proxy_connect_response\" \"%.*s\"",
                  STR_ARG(text));
        return HEAD_BAD;
    }
    x->response.raw_head = text;
    x->response.is_upgrade = true;
    return HEAD_DONE;
}

static void timed_out(struct exchange *x, bool is_connected)
{
    struct log *log = &x->request->log;

    if (!is_connected) {
        log_error(log, 0, "proxy_connect: upstream connect timed out (peer:%.*s)",
                  STR_ARG(x->attempt->peer));
        return;
    }
    log->action = "proxying connection";
    log_info(log, ETIMEDOUT, "proxy_connect: connection timed out");
}

static const struct protocol connect_protocol = {
    .name = STR_INIT("connect"),
    .channel = &whole_connection,
    .read_head = proxy_connect_read_head,
    .timed_out = timed_out,
};

/* ---- the handler ---- */

static bool is_allowed(const struct connect_settings *settings, struct str port)
{
    uint64_t number;

    if (!parse_uint(port, &number)) {
        return false;
    }
    vec_each(const struct port_range, range, &settings->allowed) {
        if (number >= range->first && number <= range->last) {
            return true;
        }
    }
    return false;
}

/* A timeout: the one assigned to the request, else the configured one. */
static uint64_t proxy_connect_time_of(struct request *request, unsigned which)
{
    const struct connect_times *times = request_data(request, &connect_key, 0);
    const struct exchange_settings *settings =
        &proxy_connect_settings_at(request->location)->exchange;

    if (times != NULL && times->is_set[which]) {
        return times->ms[which];
    }
    return which == TIME_CONNECT ? settings->connect_timeout_ms : settings->read_timeout_ms;
}

static struct str target_of(struct request *request, const struct connect_settings *settings)
{
    const struct str parts[] = {request->head.host, STR(":"), request->head.port};

    if (settings->address != NULL) {
        struct str address = template_text(settings->address, &request->env);
        if (address.len != 0) {
            return address;
        }
    }
    return arena_join(&request->arena, parts, 3);
}

static enum handler_result connect_handle(struct request *request)
{
    const struct connect_settings *settings = proxy_connect_settings_at(request->location);
    uint64_t port = 0;

    if (request->method != METHOD_CONNECT) {
        return HANDLER_NEXT;
    }
    if (!is_allowed(settings, request->head.port)) {
        log_error(&request->log, 0, "port %.*s is not allowed by \"proxy_connect_allow\"",
                  STR_ARG(request->head.port));
        return request_fail(request, 403);
    }
    struct exchange_settings *own = arena_alloc(&request->arena, sizeof(*own));
    struct connect_state *state = arena_new(&request->arena, struct connect_state);
    *own = settings->exchange;
    own->connect_timeout_ms = proxy_connect_time_of(request, TIME_CONNECT);
    own->read_timeout_ms = proxy_connect_time_of(request, TIME_DATA);
    own->send_timeout_ms = own->read_timeout_ms;
    state->start_ms = clock_now.now_ms;
    struct exchange *x = exchange_new(request, &connect_protocol, own, settings);
    x->state = state;
    x->target_text = target_of(request, settings);
    x->default_port = parse_uint(request->head.port, &port) ? (uint16_t) port : 0;
    x->head = STR("");
    x->body_mode = SENT_BODY_NONE;
    return exchange_run(x);
}

static const struct phase_hook connect_phases[] = {
    {.phase = PHASE_PRECONTENT,
     .name = "proxy_connect",
     .run = connect_handle,
     .when = SETTING(connect_key, struct connect_settings, is_on)},
    {.run = NULL},
};

/* ---- variables ---- */

static const struct exchange *tunnel_of(struct variable_env *env)
{
    const struct exchange *x = request_exchange(variable_request(env));

    return x != NULL && x->protocol == &connect_protocol ? x : NULL;
}

#define VARIABLE_GET(name)                                                                         \
    static bool name(struct variable_env *env, const struct variable *variable, struct str *out)

/* data: 0 = the host, 1 = the port of a CONNECT request */
VARIABLE_GET(get_target_part)
{
    const struct request *request = variable_request(env);

    return str_is(request->method_name, "CONNECT") &&
           variable_give(out, variable->data == 0 ? request->head.host : request->head.port);
}

VARIABLE_GET(get_connect_addr)
{
    const struct exchange *x = tunnel_of(env);

    return x != NULL && x->attempt != NULL && x->group != NULL && /* the name was resolved */
           variable_give(out, x->attempt->peer);
}

/* A time of the tunnel: "" without a tunnel, "-" if it did not get that far. */
static bool give_time(struct variable_env *env, const struct exchange *x, bool is_known,
                      uint64_t ms, struct str *out)
{
    if (x == NULL) {
        return variable_give(out, STR(""));
    }
    return is_known ? variable_give_seconds(env, out, ms) : variable_give(out, STR("-"));
}

VARIABLE_GET(get_connect_time)
{
    const struct exchange *x = tunnel_of(env);
    uint64_t ms = x == NULL || x->attempt == NULL ? UINT64_MAX : x->attempt->connect_ms;

    return give_time(env, x, ms != UINT64_MAX, ms, out);
}

VARIABLE_GET(get_resolve_time)
{
    const struct exchange *x = tunnel_of(env);
    bool is_known = x != NULL && x->start_ms != 0;
    const struct connect_state *state = is_known ? x->state : NULL;

    return give_time(env, x, is_known, is_known ? x->start_ms - state->start_ms : 0, out);
}

VARIABLE_GET(get_first_byte_time)
{
    const struct exchange *x = tunnel_of(env);
    bool is_known = x != NULL && x->tunnel_byte_ms != 0;
    const struct connect_state *state = is_known ? x->state : NULL;

    return give_time(env, x, is_known, is_known ? x->tunnel_byte_ms - state->start_ms : 0, out);
}

/* In milliseconds, without a unit. data: which time. */
VARIABLE_GET(get_time)
{
    *out = arena_printf(env->arena, "%llu",
                        (unsigned long long) proxy_connect_time_of(variable_request(env),
                                                                   variable->data));
    return true;
}

static void set_time(struct variable_env *env, const struct variable *variable, struct str text)
{
    struct request *request = variable_request(env);
    struct connect_times *times = request_data(request, &connect_key, sizeof(*times));

    if (!parse_msec(text, &times->ms[variable->data])) {
        log_error(&request->log, 0, "invalid value \"%.*s\" of $%.*s", STR_ARG(text),
                  STR_ARG(variable->name));
        return;
    }
    times->is_set[variable->data] = true;
}

VARIABLE_GET(get_response)
{
    return variable_give(
        out,
        template_text(proxy_connect_settings_at(variable_request(env)->location)->response, env));
}

#define ASSIGNABLE(text, getter, number, words)                                                    \
    {                                                                                              \
        .name = STR_INIT(text), .doc = words, .get = getter, .data = number,                       \
        .flags = VARIABLE_CHANGEABLE                                                               \
    }
#define ASSIGNABLE_TIME(text, which, words)                                                        \
    {                                                                                              \
        .name = STR_INIT(text), .doc = words, .get = get_time, .set = set_time, .data = which,     \
        .flags = VARIABLE_CHANGEABLE | VARIABLE_VOLATILE                                           \
    }
static const struct variable connect_variables[] = {
    ASSIGNABLE("connect_host", get_target_part, 0, "Host of a CONNECT request; may be set."),
    ASSIGNABLE("connect_port", get_target_part, 1, "Port of a CONNECT request; may be set."),
    {.name = STR_INIT("connect_addr"),
     .doc = "Address that the tunnel is connected to.",
     .get = get_connect_addr,
     .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("proxy_connect_connect_time"),
     .doc = "Time to connect, in seconds with milliseconds.",
     .get = get_connect_time,
     .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("proxy_connect_resolve_time"),
     .doc = "Time to resolve the name, in seconds with milliseconds.",
     .get = get_resolve_time,
     .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("proxy_connect_first_byte_time"),
     .doc = "Time until the first byte from the target, in seconds with milliseconds.",
     .get = get_first_byte_time,
     .flags = VARIABLE_VOLATILE},
    ASSIGNABLE_TIME("proxy_connect_connect_timeout", TIME_CONNECT,
                    "Timeout for connecting; may be set."),
    ASSIGNABLE_TIME(
        "proxy_connect_data_timeout", TIME_DATA,
        "Time without data in either direction after which the tunnel is closed; may be set."),
    ASSIGNABLE_TIME("proxy_connect_read_timeout", TIME_DATA,
                    "Old name of `$proxy_connect_data_timeout`."),
    ASSIGNABLE_TIME("proxy_connect_send_timeout", TIME_SEND,
                    "Accepted and ignored."), /* not used, as in Tengine */
    ASSIGNABLE("proxy_connect_response", get_response, 0,
               "Header of the response that establishes the tunnel; may be set."),
    {.name = STR_INIT("")},
};

/* ---- when the configuration is read ---- */

static bool connect_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings)
{
    ((struct connect_settings *) settings)->is_on = true;
    scope_server(scope)->accepts_connect = true;
    scope_server(scope)->accepts_connect_1_0 = true;
    /* Reserves the variable, since Lua may be the only one to assign it. */
    return variable_use(scope->conf, node, conf_variables(scope->conf),
                        STR("proxy_connect_response")) != NULL;
}

/* "443", "1000-2000" or "all". */
static bool read_range(struct str text, struct port_range *range)
{
    uint64_t first;
    uint64_t last;
    struct str rest = text;

    if (str_is(text, "all")) {
        *range = (struct port_range){1, UINT16_MAX};
        return true;
    }
    if (!parse_uint(str_cut(&rest, '-'), &first)) {
        return false;
    }
    last = first;
    if (rest.data != NULL && !parse_uint(rest, &last)) {
        return false;
    }
    *range = (struct port_range){(uint16_t) first, (uint16_t) last};
    return first != 0 && first <= last && last <= UINT16_MAX;
}

static bool allow_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    struct connect_settings *own = settings;

    for (unsigned i = 1; i < node->count; i++) {
        struct port_range range;
        if (!read_range(node->args[i], &range)) {
            return conf_error(scope->conf, node, "invalid port or range \"%.*s\"",
                              STR_ARG(node->args[i]));
        }
        *vec_add(&own->allowed, scope->conf->arena, struct port_range) = range;
    }
    return true;
}

static bool address_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings)
{
    struct connect_settings *own = settings;

    own->address = NULL;
    if (str_is(node->args[1], "off")) {
        return true;
    }
    own->address = template_compile(scope->conf, node, node->args[1]);
    return own->address != NULL;
}

static bool connect_finish(struct conf_scope *scope, void *settings)
{
    struct exchange_settings *own = &((struct connect_settings *) settings)->exchange;

    own->buffer_size = 16384;
    own->buffers = (struct buffers){.number = 1, .size = own->buffer_size};
    own->busy_buffers_size = own->buffer_size;
    own->next_upstream = NEXT_ERROR | NEXT_TIMEOUT;
    own->send_timeout_ms = own->read_timeout_ms;
    return true;
}

#define C struct connect_settings
static const struct directive connect_rows[] = {
    {"proxy_connect", IN_SERVER, CUSTOM(connect_apply), ARGS(0, 0), .repeat = REPEAT_CUSTOM,
     .doc = "Enables tunnels for CONNECT requests."},
    {"proxy_connect_allow", IN_SERVER, CUSTOM_FIELD(C, allowed, allow_apply), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_APPEND, .initial = "443 563", .syntax = "all | port | port-port ...",
     .doc = "Ports that tunnels may connect to."},
    {"proxy_connect_address", IN_HTTP | IN_SERVER, CUSTOM_FIELD(C, address, address_apply),
     ARGS(1, 1), .syntax = "address | off",
     .doc = "Address that tunnels connect to, in place of the one that the client requests."},
    {"proxy_connect_bind", IN_HTTP | IN_SERVER, CUSTOM_FIELD(C, exchange.bind, bind_apply),
     ARGS(1, 2), .syntax = "address [transparent] | off",
     .doc = "Local address of the connections of tunnels."},
    {"proxy_connect_connect_timeout", IN_HTTP | IN_SERVER, MSEC(C, exchange.connect_timeout_ms),
     .initial = "60s", .doc = "Timeout for establishing the connection of a tunnel."},
    {"proxy_connect_data_timeout", IN_HTTP | IN_SERVER, MSEC(C, exchange.read_timeout_ms),
     .initial = "60s",
     .doc = "Time without data in either direction after which a tunnel is closed."},
    {"proxy_connect_read_timeout", IN_HTTP | IN_SERVER, MSEC(C, exchange.read_timeout_ms),
     .replaced_by = "proxy_connect_data_timeout", .doc = "Old name of proxy_connect_data_timeout."},
    {"proxy_connect_send_timeout", IN_HTTP | IN_SERVER, OBSOLETE, ARGS(1, 1),
     .doc = "Accepted and ignored, as in Tengine; proxy_connect_data_timeout applies to "
            "both directions."},
    {"proxy_connect_send_lowat", IN_HTTP | IN_SERVER, SIZE(C, exchange.send_lowat), .initial = "0",
     .doc = "Value of SO_SNDLOWAT for the connections of tunnels; it has no effect on "
            "Linux."},
    {"proxy_connect_response", IN_HTTP | IN_SERVER, TEMPLATE(C, response),
     .initial = "\"HTTP/1.1 200 Connection Established\\r\\nProxy-agent: nginx\\r\\n\\r\\n\"",
     .doc = "Header of the response that establishes the tunnel; HTTP/1 clients receive it "
            "unchanged. Variables are evaluated when the connection is established. A "
            "status other than 2xx closes the connection. `set $proxy_connect_response` "
            "overrides it."},
    {0},
};
#undef C

static const struct http_module connect_hooks = {.variables = connect_variables,
                                                 .phases = connect_phases};

const struct module ngx_http_proxy_connect_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_proxy_connect_module",
    .kind = MODULE_HTTP,
    .table = {.key = &connect_key,
              .rows = connect_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct connect_settings),
              .finish = connect_finish},
    .hooks = &connect_hooks,
};
