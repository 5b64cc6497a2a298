/* ngx_http_proxy_module: passes requests to HTTP servers. Directives, variables and the handler. */
#include "http/exchange/cache/rows.h"
#include "http/modules/backends/proxy/proxy.h"

#include "config.h"
#include "http/client/connection.h"
#include "http/exchange/h2/h2.h"
#include "http/exchange/h3/h3.h"
#include "http/routing/hooks.h"
#include "http/variables/variables.h"
#include "server/module.h"

static struct settings_key proxy_key;
static struct settings_key proxy_exchange_key;
static const struct exchange_family proxy_family;

/* ---- the protocol ---- */

static void adapt_field(struct exchange *x, struct field *field)
{
    const struct proxy_settings *settings = x->module_settings;

    if (!settings->adapts_fields) {
        return;
    }
    if (field->id == FIELD_SET_COOKIE) {
        cookie_adapt(x, field);
    } else if (field->id == FIELD_LOCATION || field->id == FIELD_REFRESH) {
        redirect_adapt(x, field);
    }
}

/* The requested URL. */
static struct str default_cache_key(struct exchange *x)
{
    const struct proxy_state *state = x->state;
    const struct proxy_url *url = &state->url;
    const struct str parts[] = {url->is_https ? STR("https://") : STR("http://"), url->host,
                                url->uri};

    return arena_join(&x->request->arena, parts, 3);
}

#define HTTP_PROTOCOL                                                                              \
    .family = &proxy_family, .name = STR_INIT("http"), .secure_name = STR_INIT("https"),           \
    .channel = &whole_connection, .has_logins = true, .make_request = proxy_make_request,          \
    .send_body = proxy_send_body, .begin_response = proxy_begin_response,                          \
    .read_head = proxy_read_head, .read_body = proxy_read_body, .adapt_field = adapt_field,        \
    .body_ended = proxy_body_ended, .default_cache_key = default_cache_key

static const struct protocol plain_http = {HTTP_PROTOCOL};
/* With a PROXY header, which describes one client: its connections are not shared with the protocol
 * without it. */
static const struct protocol announced_http = {HTTP_PROTOCOL, .send_head = proxy_send_announced};

/* The same for HTTP/2. */
#define HTTP2_PROTOCOL                                                                             \
    .family = &proxy_family, .name = STR_INIT("http"), .secure_name = STR_INIT("https"),           \
    .alpn = H2_ALPN, .channel = &h2_channel, .has_logins = true,                                   \
    .make_request = proxy_make_h2_request, .send_head = h2_send_head, .send_body = h2_send_body,   \
    .read_head = h2_read_head, .read_body = h2_read_body, .adapt_field = adapt_field,              \
    .body_ended = h2_body_ended, .default_cache_key = default_cache_key

static const struct protocol plain_http2 = {HTTP2_PROTOCOL};
static const struct protocol announced_http2 = {HTTP2_PROTOCOL};

/* The same for HTTP/3, and HTTP/0.9 over QUIC. */
#define HTTP3_PROTOCOL                                                                             \
    .family = &proxy_family, .name = STR_INIT("http"), .secure_name = STR_INIT("https"),           \
    .is_quic = true, .channel = &h3_channel, .has_logins = true,                                   \
    .make_request = proxy_make_h3_request, .send_head = h3_send_head, .send_body = h3_send_body,   \
    .read_head = h3_read_head, .read_body = h3_read_body, .adapt_field = adapt_field,              \
    .body_ended = h3_body_ended, .default_cache_key = default_cache_key

static const struct protocol http3 = {HTTP3_PROTOCOL, .alpn = H3_ALPN};
static const struct protocol hq = {HTTP3_PROTOCOL, .alpn = HQ_ALPN};

static const struct protocol *choose_protocol(const struct proxy_settings *settings,
                                              const struct exchange_settings *options)
{
    if (settings->version == HTTP_3) {
        return options->http3.hq ? &hq : &http3;
    }
    if (settings->version == HTTP_2) {
        return settings->proxy_protocol ? &announced_http2 : &plain_http2;
    }
    return settings->proxy_protocol ? &announced_http : &plain_http;
}

/* ---- the handler ---- */

static enum handler_result refuse_url(struct request *request, const char *reason, struct str text)
{
    log_error(&request->log, 0, "%s \"%.*s\"", reason, STR_ARG(text));
    return request_fail(request, 500);
}

/* Evaluates a proxy_pass that has variables. HANDLER_NEXT: *url is set. */
static enum handler_result evaluate_target(struct request *request,
                                           const struct proxy_target *target, struct proxy_url *url)
{
    struct str rest;

    url->text = template_text(target->text, &request->env);
    rest = url->text;
    if (!proxy_url_scheme(&rest, &url->is_https) || rest.len == 0) {
        return refuse_url(request, "invalid URL prefix in", url->text);
    }
    proxy_url_cut(rest, url);
    proxy_url_name(url);
    if (url->address.len == 0) {
        return refuse_url(request, "no host in upstream", rest);
    }
    if (str_equal_nocase(url->address, STR("unix:"))) {
        return refuse_url(request, "no path in the unix domain socket in upstream", rest);
    }
    return HANDLER_NEXT;
}

static enum handler_result proxy_handle(struct request *request)
{
    const struct proxy_settings *settings = location_settings(request->location, &proxy_key);
    const struct proxy_target *target = settings->target;

    if (request->method == METHOD_CONNECT) {
        return request_fail(request, 405);
    }
    struct exchange *x =
        exchange_new(request, settings->protocol,
                     location_settings(request->location, &proxy_exchange_key), settings);
    struct proxy_state *state = arena_new(&request->arena, struct proxy_state);
    x->state = state;
    state->url = target->url;
    if (target->text != NULL) {
        enum handler_result result = evaluate_target(request, target, &state->url);
        if (result != HANDLER_NEXT) {
            return result;
        }
        x->target = target->text;
        x->target_text = state->url.address;
    } else {
        x->group = target->group;
    }
    x->is_secure = state->url.is_https;
    x->default_port = x->is_secure ? 443 : 80;
    if (x->is_secure && settings->proxy_protocol) {
        x->preface = proxy_announcement(x);
    }
    if (!proxy_request_uri(request, target, &state->url.uri)) {
        log_error(&request->log, 0, "\"%.*s\" leads out of \"%.*s\"", STR_ARG(request->uri),
                  STR_ARG(state->url.text));
        return request_fail(request, 404);
    }
    x->url_tail = state->url.uri;
    if (settings->set_body != NULL) {
        x->set_body = settings->set_body;
        sent_body_buffer(x);
    }
    if (request->incoming.is_chunked && settings->version < HTTP_1_1) {
        sent_body_buffer(x); /* HTTP/1.0 requires the length */
    }
    return exchange_run(x);
}

/* ---- variables ---- */

/* The state of the request's current or last exchange; NULL if that is not of this module. */
static const struct proxy_state *proxy_state_of(struct variable_env *env)
{
    const struct exchange *x = request_exchange(variable_request(env));

    return x != NULL && x->protocol->default_cache_key == default_cache_key ? x->state : NULL;
}

static bool get_proxy_host(struct variable_env *env, const struct variable *variable,
                           struct str *out)
{
    const struct proxy_state *state = proxy_state_of(env);

    return state != NULL && variable_give(out, state->url.host);
}

static bool get_proxy_port(struct variable_env *env, const struct variable *variable,
                           struct str *out)
{
    const struct proxy_state *state = proxy_state_of(env);

    return state != NULL && state->url.port.len != 0 && variable_give(out, state->url.port);
}

static bool get_add_x_forwarded_for(struct variable_env *env, const struct variable *variable,
                                    struct str *out)
{
    struct request *request = variable_request(env);
    struct str address = request_client_text(request);
    struct str former;

    if (!fields_joined(&request->headers, env->arena, FIELD_X_FORWARDED_FOR, &former)) {
        return variable_give(out, address);
    }
    const struct str parts[] = {former, STR(", "), address};
    return variable_give(out, arena_join(env->arena, parts, 3));
}

static bool get_body_length(struct variable_env *env, const struct variable *variable,
                            struct str *out)
{
    const struct proxy_state *state = proxy_state_of(env);

    return state != NULL && state->body_length >= 0 &&
           variable_give_number(env, out, (uint64_t) state->body_length);
}

static bool get_chunked(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct proxy_state *state = proxy_state_of(env);

    return state != NULL && state->is_chunked && variable_give(out, STR("chunked"));
}

static const struct variable proxy_variables[] = {
    {.name = STR_INIT("proxy_host"),
     .doc = "Host and port of `proxy_pass`.",
     .get = get_proxy_host,
     .flags = VARIABLE_VOLATILE | VARIABLE_CHANGEABLE},
    {.name = STR_INIT("proxy_port"),
     .doc = "Port of `proxy_pass`.",
     .get = get_proxy_port,
     .flags = VARIABLE_VOLATILE | VARIABLE_CHANGEABLE},
    {.name = STR_INIT("proxy_add_x_forwarded_for"),
     .doc = "X-Forwarded-For field of the request with `$remote_addr` appended.",
     .get = get_add_x_forwarded_for},
    {.name = STR_INIT("proxy_internal_body_length"),
     .doc = "Length of the body that is sent to the backend; internal.",
     .get = get_body_length,
     .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("proxy_internal_chunked"),
     .doc = "`chunked` if the body that is sent to the backend has no known length; "
            "internal.",
     .get = get_chunked,
     .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("")},
};

/* ---- when the configuration is read ---- */

bool proxy_pass_is_set(const struct conf_scope *scope)
{
    return conf_is_set(scope, &proxy_key, "proxy_pass");
}

bool rules_begin(struct conf_scope *scope, const struct directive *row,
                 const struct conf_node *node, struct vec *rules, bool *is_off)
{
    bool is_first = !conf_is_set(scope, &proxy_key, row->name);

    *is_off = node->count == 2 && str_is(node->args[1], "off");
    if (is_first) {
        *rules = (struct vec){0}; /* discards inherited rules */
        return true;
    }
    if (*is_off || rules->count == 0) {
        *is_off = false;
        return conf_error(scope->conf, node, "\"%s\" directive is duplicate", row->name);
    }
    return true;
}

/* Blocks in which a URI has no fixed prefix that could be replaced. */
static bool has_prefix(const struct conf_scope *scope, const struct http_location *location)
{
    return scope->context == IN_LOCATION && location->kind != LOCATION_REGEX &&
           location->kind != LOCATION_NAMED;
}

static bool read_static(struct conf_scope *scope, const struct conf_node *node, struct str rest,
                        struct proxy_target *target)
{
    const struct http_location *location = scope_location(scope);
    struct conf *conf = scope->conf;
    struct pass_target found;

    proxy_url_cut(rest, &target->url);
    proxy_url_name(&target->url);
    if (target->url.address.len == 0) {
        return conf_error(conf, node, "no host in upstream \"%.*s\"", STR_ARG(rest));
    }
    if (!pass_target_read(scope, node, target->url.address, target->url.is_https ? 443 : 80,
                          &found)) {
        return false;
    }
    target->group = found.group;
    if (target->url.uri.len == 0) {
        return true;
    }
    if (!has_prefix(scope, location)) {
        return conf_error(conf, node,
                          "\"%.*s\" cannot have URI part in location given by regular expression, "
                          "or inside named location, or inside \"if\" statement, or inside "
                          "\"limit_except\" block",
                          STR_ARG(node->args[0]));
    }
    target->prefix = location->name;
    return true;
}

static bool proxy_pass_apply(struct conf_scope *scope, const struct directive *row,
                             struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct proxy_target *target = arena_new(conf->arena, struct proxy_target);
    struct str text = node->args[1];
    struct str rest = text;
    bool has_scheme = proxy_url_scheme(&rest, &target->url.is_https);

    ((struct proxy_settings *) settings)->target = NULL;
    target->url.text = text;
    if (template_variable_count(text) != 0) {
        target->text = template_compile(conf, node, text);
        if (target->text == NULL) {
            return false;
        }
    } else if (!has_scheme) {
        return conf_error(conf, node, "invalid URL prefix");
    } else if (!read_static(scope, node, rest, target)) {
        return false;
    }
    ((struct proxy_settings *) settings)->target = target;
    exchange_needs_tls(scope, &proxy_exchange_key, target->url.is_https || target->text != NULL);
    return pass_handler_set(scope, node, proxy_handle);
}

/* HTTP/3 requires TLS, and nothing can precede its handshake. False after conf_error. */
static bool http3_is_possible(struct conf_scope *scope, const struct proxy_settings *settings)
{
    const struct proxy_url *url = &settings->target->url;

    if (settings->proxy_protocol) {
        return conf_error(scope->conf, scope->node,
                          "\"proxy_protocol\" is not possible with \"proxy_http_version 3\"");
    }
    if (settings->target->text == NULL && !url->is_https) {
        return conf_error(scope->conf, scope->node,
                          "\"proxy_http_version 3\" needs \"https://\" in \"proxy_pass\"");
    }
    return true;
}

/* A nested location does not inherit proxy_pass; `if` and limit_except blocks do. */
static bool proxy_finish(struct conf_scope *scope, void *own)
{
    struct proxy_settings *settings = own;
    bool is_set = proxy_pass_is_set(scope);

    conf_list_inherit(scope,
                      &(struct inherited_list){.key = &proxy_key,
                                               .row = "proxy_set_header",
                                               .offset =
                                                   offsetof(struct proxy_settings, set_headers),
                                               .item_size = sizeof(struct key_template),
                                               .ignores_case = true},
                      settings->header_inherit);
    settings->has_default_redirect = false;
    if (!is_set && scope->context == IN_LOCATION) {
        settings->target = NULL;
    }
    settings->plan = NULL;
    if (settings->target == NULL) {
        return true;
    }
    if (!settings->has_redirects && is_set) {
        redirect_default(scope, settings);
    }
    settings->adapts_fields =
        settings->redirects.count != 0 || settings->cookie_domains.count != 0 ||
        settings->cookie_paths.count != 0 || settings->cookie_flags.count != 0;
    settings->protocol = choose_protocol(settings, conf_settings(scope, &proxy_exchange_key));
    if (settings->version == HTTP_3 && !http3_is_possible(scope, settings)) {
        return false;
    }
    settings->plan =
        head_plan_make(scope->conf->arena, &settings->set_headers,
                       settings->target->text == NULL ? &settings->target->url.host : NULL);
    return true;
}

static const struct directive_word version_words[] = {{"1.0", HTTP_1_0},
                                                      {"1.1", HTTP_1_1},
                                                      {"2", HTTP_2},
                                                      {"3", HTTP_3},
                                                      {NULL, 0}};

#define P struct proxy_settings
static const struct directive proxy_rows[] = {
    {"proxy_pass", IN_LOCATION | IN_LOCATION_IF | IN_LIMIT_EXCEPT, CUSTOM(proxy_pass_apply),
     ARGS(1, 1), .syntax = "URL",
     .doc = "Passes requests to an HTTP server: http://address[URI] or "
            "https://address[URI]. A URI replaces the part of the request URI that matches "
            "the location; without one the request URI is passed as received."},
    {"proxy_method", IN_HTTP_ALL, TEMPLATE(P, method),
     .doc = "Method of requests to the backend, in place of the client's."},
    {"proxy_http_version", IN_HTTP_ALL, ENUM(P, version, version_words), .initial = "1.1",
     .doc = "HTTP version of requests to the backend. Version 3 uses QUIC and requires "
            "https:// in proxy_pass."},
    {"proxy_set_header", IN_HTTP_ALL, KEY_TEMPLATE(P, set_headers), ARGS(2, 2), .is_late = true,
     .repeat = REPEAT_APPEND, .apply = head_field_apply,
     .doc = "Sets a header field of requests to the backend; an empty value removes the "
            "client's field. By default Host is `$proxy_host` and Connection is not sent."},
    {"proxy_set_header_inherit", IN_HTTP_ALL, ENUM(P, header_inherit, list_inherit_words),
     .initial = "on",
     .doc = "How the lines of an outer block are inherited by a block with its own "
            "proxy_set_header: `on` means that its own replace them, `merge` adds those "
            "with other names; `off` disables inheritance altogether."},
    {"proxy_set_body", IN_HTTP_ALL, TEMPLATE(P, set_body), .is_late = true,
     .doc = "Body of requests to the backend, in place of the client's."},
    {"proxy_headers_hash_max_size", IN_HTTP_ALL, NUMBER(P, headers_hash_max_size),
     .apply = conf_hash_size_check, .initial = "512",
     .doc = "Accepted and ignored: the hash tables are sized automatically."},
    {"proxy_headers_hash_bucket_size", IN_HTTP_ALL, NUMBER(P, headers_hash_bucket_size),
     .apply = conf_hash_size_check, .initial = "64",
     .doc = "Accepted and ignored: the hash tables are sized automatically."},
    {"proxy_redirect", IN_HTTP_ALL, CUSTOM(proxy_redirect_apply), ARGS(1, 2),
     .repeat = REPEAT_CUSTOM, .initial = "default",
     .syntax = "default | off | redirect replacement",
     .doc = "Replaces the beginning of the fields Location and Refresh of responses; \"~\" "
            "and \"~*\" introduce a regular expression. `default` replaces the URL of "
            "proxy_pass with the name of the location."},
    {"proxy_cookie_domain", IN_HTTP_ALL, CUSTOM(proxy_cookie_domain_apply), ARGS(1, 2),
     .repeat = REPEAT_CUSTOM, .initial = "off", .syntax = "off | domain replacement",
     .doc = "Replaces the domain in Set-Cookie fields of responses."},
    {"proxy_cookie_path", IN_HTTP_ALL, CUSTOM(proxy_cookie_path_apply), ARGS(1, 2),
     .repeat = REPEAT_CUSTOM, .initial = "off", .syntax = "off | path replacement",
     .doc = "Replaces the beginning of the path in Set-Cookie fields of responses."},
    {"proxy_cookie_flags", IN_HTTP_ALL, CUSTOM(proxy_cookie_flags_apply), ARGS(1, 4),
     .repeat = REPEAT_CUSTOM, .initial = "off", .syntax = "off | cookie [flag ...]",
     .doc = "Sets or removes flags of a cookie: secure, httponly, samesite=strict, "
            "samesite=lax, samesite=none, and nosecure, nohttponly, nosamesite."},
    {"proxy_pass_trailers", IN_HTTP_ALL, FLAG(P, pass_trailers), .initial = "off",
     .doc = "Whether trailer fields of responses are passed to the client."},
    {"proxy_protocol", IN_HTTP_ALL, FLAG(P, proxy_protocol), .initial = "off",
     .doc = "Sends a PROXY protocol header, version 1, with the client's address at the "
            "beginning of each connection to the backend; such a connection carries one "
            "request only."},
    {0},
};
#undef P

static const struct directive_table proxy_table = {.key = &proxy_key,
                                                   .rows = proxy_rows,
                                                   .contexts = IN_HTTP_LOCATION_SETTINGS,
                                                   .size = sizeof(struct proxy_settings),
                                                   .finish = proxy_finish};

static const struct directive proxy_exchange_rows[] = {
    EXCHANGE_CONNECT_ROWS("proxy", next_upstream_words),
    EXCHANGE_ALLOW_ROW("proxy"),
    EXCHANGE_DYNAMIC_ROW("proxy"),
    EXCHANGE_TENGINE_TRIES_ROW("proxy"),
    EXCHANGE_SOCKET_ROWS("proxy"),
    EXCHANGE_TENGINE_SOCKET_ROWS("proxy"),
    EXCHANGE_BODY_ROWS("proxy"),
    EXCHANGE_CACHE_ROWS("proxy", cache_use_stale_words),
    EXCHANGE_TLS_ROWS("proxy"),
    EXCHANGE_HTTP3_ROWS("proxy"),
    {"proxy_http3_hq", IN_HTTP_ALL, FLAG(struct exchange_settings, http3.hq), .initial = "off",
     .doc = "Uses HTTP/0.9 over QUIC (ALPN hq-interop) in place of HTTP/3, for QUIC "
            "interoperability tests."},
    {"proxy_cache_convert_head", IN_HTTP_ALL, FLAG(struct exchange_settings, cache_convert_head),
     .initial = "on",
     .doc = "Whether HEAD requests are converted to GET, so that the response can be "
            "cached."},
    {0},
};

static const struct exchange_family proxy_family = {
    .prefix = "proxy",
    .table = EXCHANGE_TABLE(proxy_exchange_key, proxy_exchange_rows, exchange_settings_finish),
    .pass = "proxy_pass",
    .pass_key = &proxy_key,
    .temp_path = STR_INIT(DEFAULT_PROXY_TEMP),
    .hidden_ids = HIDDEN_OF_SERVERS,
    .has_cache_key = true,
    .cache_hook = &response_cache_hook,
};

static const struct directive_table *const proxy_tables[] = {&proxy_table, &proxy_family.table,
                                                             NULL};

static const struct http_module proxy_hooks = {.variables = proxy_variables};

const struct module ngx_http_proxy_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_proxy_module",
    .kind = MODULE_HTTP,
    .tables = proxy_tables,
    .hooks = &proxy_hooks,
};
