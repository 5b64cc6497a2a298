/* ngx_http_grpc_module: passes requests to gRPC servers over HTTP/2 or HTTP/3; both bodies are
 * streamed. */
#include "http/exchange/cache/rows.h"
#include "http/exchange/h2/h2.h"
#include "http/exchange/h3/h3.h"
#include "http/routing/hooks.h"
#include "http/variables/variables.h"
#include "server/module.h"

/* The target of grpc_pass. */
struct grpc_target {
    struct pass_target address;
    struct str host; /* for :authority, if it has no variables */
};

/* Settings of a location. */
struct grpc_settings {
    struct grpc_target *target; /* NULL: no grpc_pass here */
    unsigned version;           /* HTTP_2, HTTP_3 */
    struct vec set_headers;     /* struct key_template */
    unsigned header_inherit;    /* an enum list_inherit */
    struct head_plan *plan;     /* derived; NULL without grpc_pass */
};

static struct settings_key grpc_key;
static struct settings_key grpc_exchange_key;
static const struct exchange_family grpc_family;

/* ---- addresses ---- */

/* Removes "grpc://" or "grpcs://", which are optional. */
static bool cut_scheme(struct str *text)
{
    if (str_starts_nocase(*text, STR("grpcs://"))) {
        *text = str_skip(*text, 8);
        return true;
    }
    if (str_starts_nocase(*text, STR("grpc://"))) {
        *text = str_skip(*text, 7);
    }
    return false;
}

/* The address without the default port. */
static struct str host_of(struct str address, bool is_secure)
{
    struct str port = is_secure ? STR(":443") : STR(":80");

    if (str_starts_nocase(address, STR("unix:"))) {
        return STR("localhost");
    }
    return str_ends(address, port) ? str_head(address, address.len - port.len) : address;
}

/* ---- the handler ---- */

/* Data of the target for make_request. */
struct grpc_state {
    struct str host;
};

static bool grpc_make_request(struct exchange *x)
{
    const struct grpc_settings *settings = x->module_settings;
    const struct grpc_state *state = x->state;
    struct head_draft draft;
    const struct coded_request sent_request = {
        .method = x->request->method_name,
        .path = target_of_request(x->request),
        .is_https = x->is_secure,
        .accepts_trailers = true,
        .keeps_trailers = true,
    };

    head_draft_begin(x, settings->plan, state->host, &draft);
    if (x->protocol->is_quic) {
        h3_request_make(x, &sent_request, &draft);
    } else {
        h2_request_make(x, &sent_request, &draft);
    }
    return true;
}

static const struct protocol grpc_protocol = {
    .family = &grpc_family,
    .name = STR_INIT("grpc"),
    .secure_name = STR_INIT("grpcs"),
    .scheme = STR_INIT("grpc://"),
    .alpn = H2_ALPN,
    .channel = &h2_channel,
    .has_logins = true,
    .make_request = grpc_make_request,
    .send_head = h2_send_head,
    .send_body = h2_send_body,
    .read_head = h2_read_head,
    .read_body = h2_read_body,
    .body_ended = h2_body_ended,
};

/* The same for HTTP/3. */
static const struct protocol grpc_http3 = {
    .family = &grpc_family,
    .name = STR_INIT("grpc"),
    .secure_name = STR_INIT("grpcs"),
    .scheme = STR_INIT("grpc://"),
    .alpn = H3_ALPN,
    .is_quic = true,
    .channel = &h3_channel,
    .has_logins = true,
    .make_request = grpc_make_request,
    .send_head = h3_send_head,
    .send_body = h3_send_body,
    .read_head = h3_read_head,
    .read_body = h3_read_body,
    .body_ended = h3_body_ended,
};

static enum handler_result grpc_answer(struct request *request)
{
    const struct grpc_settings *settings = location_settings(request->location, &grpc_key);
    const struct grpc_target *target = settings->target;

    if (request->method == METHOD_CONNECT) {
        return request_fail(request, 405);
    }
    struct exchange *x =
        exchange_new(request, settings->version == HTTP_3 ? &grpc_http3 : &grpc_protocol,
                     location_settings(request->location, &grpc_exchange_key), settings);
    struct grpc_state *state = arena_new(&request->arena, struct grpc_state);
    x->state = state;
    exchange_set_target(x, &target->address);
    state->host = target->host;
    if (x->group == NULL) {
        state->host = host_of(x->target_text, x->is_secure);
        if (x->target_text.len == 0) {
            log_error(&request->log, 0, "no host in upstream \"%.*s\"", STR_ARG(x->target_text));
            return request_fail(request, 500);
        }
    }
    return exchange_run(x);
}

/* ---- variables ---- */

static bool get_trailers(struct variable_env *env, const struct variable *variable, struct str *out)
{
    return client_takes_trailers(variable_request(env)) && variable_give(out, STR("trailers"));
}

static const struct variable grpc_variables[] = {
    {.name = STR_INIT("grpc_internal_trailers"),
     .doc = "Value of the TE field for the backend; internal.",
     .get = get_trailers,
     .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("")},
};

/* ---- when the configuration is read ---- */

static bool grpc_pass_apply(struct conf_scope *scope, const struct directive *row,
                            struct conf_node *node, void *settings)
{
    struct grpc_settings *own = settings;
    struct grpc_target *target = arena_new(scope->conf->arena, struct grpc_target);
    struct str address = node->args[1];
    bool is_late = template_variable_count(address) != 0;
    bool is_secure = !is_late && cut_scheme(&address);

    if (address.len == 0) {
        return conf_error(scope->conf, node, "no host in upstream \"%.*s\"",
                          STR_ARG(node->args[1]));
    }
    if (!pass_target_read(scope, node, address, 0, &target->address)) {
        return false;
    }
    target->address.is_secure = is_secure;
    target->host = host_of(address, is_secure);
    own->target = target;
    exchange_needs_tls(scope, &grpc_exchange_key, is_secure || is_late);
    return pass_handler_set(scope, node, grpc_answer);
}

/* A nested location does not inherit grpc_pass; `if` and limit_except blocks do. */
static bool grpc_finish(struct conf_scope *scope, void *settings)
{
    struct grpc_settings *own = settings;

    if (scope->context == IN_LOCATION && !conf_is_set(scope, &grpc_key, "grpc_pass")) {
        own->target = NULL;
    }
    conf_list_inherit(scope,
                      &(struct inherited_list){.key = &grpc_key,
                                               .row = "grpc_set_header",
                                               .offset =
                                                   offsetof(struct grpc_settings, set_headers),
                                               .item_size = sizeof(struct key_template),
                                               .ignores_case = true},
                      own->header_inherit);
    own->plan = NULL;
    if (own->target != NULL && own->version == HTTP_3 && own->target->address.text == NULL &&
        !own->target->address.is_secure) {
        return conf_error(scope->conf, scope->node,
                          "\"grpc_http_version 3\" needs \"grpcs://\" in \"grpc_pass\"");
    }
    if (own->target != NULL) {
        own->plan = head_plan_make(scope->conf->arena, &own->set_headers,
                                   own->target->address.text == NULL ? &own->target->host : NULL);
    }
    return true;
}

/* Bodies of gRPC are streams of messages: neither is buffered. */
static bool grpc_exchange_finish(struct conf_scope *scope, void *settings)
{
    struct exchange_settings *own = settings;

    own->pass_request_headers = own->pass_request_body = true;
    own->ignore_headers |= IGNORE_X_ACCEL_BUFFERING;
    return exchange_settings_finish(scope, settings);
}

static const struct directive_word version_words[] = {{"2", HTTP_2}, {"3", HTTP_3}, {NULL, 0}};

static const struct directive grpc_rows[] = {
    {"grpc_pass", IN_LOCATION | IN_LOCATION_IF, CUSTOM(grpc_pass_apply), ARGS(1, 1),
     .syntax = "address",
     .doc = "Passes requests to a gRPC server: [grpc://]address, or grpcs://address for "
            "TLS."},
    {"grpc_http_version", IN_HTTP_ALL, ENUM(struct grpc_settings, version, version_words),
     .initial = "2",
     .doc = "HTTP version of requests to the backend. Version 3 uses QUIC and requires "
            "grpcs:// in grpc_pass."},
    {"grpc_set_header", IN_HTTP_ALL, KEY_TEMPLATE(struct grpc_settings, set_headers), ARGS(2, 2),
     .is_late = true, .repeat = REPEAT_APPEND, .apply = head_field_apply,
     .doc = "Sets a header field of requests to the backend; an empty value removes the "
            "client's field. A Host field that is set is sent as such, in place of "
            ":authority."},
    {"grpc_set_header_inherit", IN_HTTP_ALL,
     ENUM(struct grpc_settings, header_inherit, list_inherit_words), .initial = "on",
     .doc = "How the lines of an outer block are inherited by a block with its own "
            "grpc_set_header: `on` means that its own replace them, `merge` adds those with "
            "other names; `off` disables inheritance altogether."},
    {0},
};

static const struct directive grpc_exchange_rows[] = {
    EXCHANGE_CONNECT_ROWS("grpc", next_upstream_words),
    EXCHANGE_ALLOW_ROW("grpc"),
    EXCHANGE_DYNAMIC_ROW("grpc"),
    EXCHANGE_SOCKET_BUFFER_ROWS("grpc"),
    {"grpc_intercept_errors", IN_HTTP_ALL, FLAG(EXCHANGE_S, intercept_errors), .initial = "off",
     .doc = "Whether responses with status 300 and above are replaced by error_page."},
    {"grpc_ignore_headers", IN_HTTP_ALL, BITS(EXCHANGE_S, ignore_headers, ignore_headers_words),
     .repeat = REPEAT_APPEND,
     .doc = "Response header fields of the backend that have no effect on the processing of "
            "the response."},
    EXCHANGE_HIDE_ROWS("grpc"),
    EXCHANGE_TLS_ROWS("grpc"),
    EXCHANGE_HTTP3_ROWS("grpc"),
    {0},
};

static const struct directive_table grpc_table = {.key = &grpc_key,
                                                  .rows = grpc_rows,
                                                  .contexts = IN_HTTP_LOCATION_SETTINGS,
                                                  .size = sizeof(struct grpc_settings),
                                                  .finish = grpc_finish};
static const struct exchange_family grpc_family = {
    .prefix = "grpc",
    .table = EXCHANGE_TABLE(grpc_exchange_key, grpc_exchange_rows, grpc_exchange_finish),
    .pass = "grpc_pass",
    .pass_key = &grpc_key,
    .hidden_ids = HIDDEN_OF_SERVERS,
    .cache_hook = &response_cache_hook,
};
static const struct directive_table *const grpc_tables[] = {&grpc_table, &grpc_family.table, NULL};

static const struct http_module grpc_hooks = {.variables = grpc_variables};

const struct module ngx_http_grpc_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_grpc_module",
    .kind = MODULE_HTTP,
    .tables = grpc_tables,
    .hooks = &grpc_hooks,
};
