/* ngx_http_uwsgi_module: passes requests to uwsgi servers (uwsgi-docs.readthedocs.io, Protocol). */
#include "config.h"
#include "http/exchange/cache/rows.h"
#include "http/exchange/heads/params.h"
#include "http/exchange/heads/plain.h"
#include "server/module.h"

/* Settings of a location, besides those of the family. */
struct uwsgi_settings {
    struct pass_target target;
    struct vec list;             /* struct param: uwsgi_param */
    unsigned inherit;            /* an enum list_inherit, for `list` */
    const struct params *params; /* derived: `list`, compiled */
    int64_t modifier1, modifier2;
    struct str string; /* after the variables; usually empty */
};

static struct settings_key uwsgi_key;
static struct settings_key uwsgi_family_key;
static const struct exchange_family uwsgi_family;

#define SCHEME "uwsgi://"
#define TLS_SCHEME "suwsgi://"

enum {
    HEADER_SIZE = 4,
    PACKET_MAX = UINT16_MAX, /* bytes after the header, whose length field has 16 bits */
};

/* ---- the request ---- */

static char *put_length(char *at, size_t length)
{
    *at++ = (char) (length & 0xff);
    *at++ = (char) (length >> 8 & 0xff);
    return at;
}

static char *put_text(char *at, struct str text)
{
    return str_put(put_length(at, text.len), text);
}

/* Makes modifier1, length, modifier2; then names and values, each after its length, low byte
 * first. */
static bool uwsgi_make_request(struct exchange *x)
{
    const struct uwsgi_settings *own = x->module_settings;
    struct request *request = x->request;
    struct param_values params;

    params_evaluate(own->params, x, 0, &params);
    size_t size = params.bytes + 4 * (size_t) params.count + own->string.len;
    if (size > PACKET_MAX) {
        log_alert(&request->log, 0, "uwsgi request is too big: %zu", size);
        request->response.status = 500;
        return false;
    }
    char *text = arena_text(&request->arena, HEADER_SIZE + size);
    char *at = text;
    *at++ = (char) own->modifier1;
    at = put_length(at, size);
    *at++ = (char) own->modifier2;
    for (unsigned i = 0; i < params.count; i++) {
        at = put_text(at, params.items[i].name);
        at = put_text(at, params.items[i].value);
    }
    x->head = str_from(text, str_put(at, own->string));
    return true;
}

static const struct protocol uwsgi_protocol = {
    .family = &uwsgi_family,
    .name = STR_INIT("uwsgi"),
    .secure_name = STR_INIT("suwsgi"),
    .scheme = STR_INIT(SCHEME),
    .channel = &whole_connection,
    .make_request = uwsgi_make_request,
    .begin_response = plain_begin_response,
    .read_head = plain_read_head,
    .read_body = plain_read_body,
    .body_ended = plain_body_ended,
};

static enum handler_result uwsgi_answer(struct request *request)
{
    const struct uwsgi_settings *own = location_settings(request->location, &uwsgi_key);

    return plain_handle(request, &uwsgi_protocol,
                        location_settings(request->location, &uwsgi_family_key), own, &own->target);
}

/* ---- directives ---- */

static bool uwsgi_pass_apply(struct conf_scope *scope, const struct directive *row,
                             struct conf_node *node, void *settings)
{
    struct uwsgi_settings *own = settings;
    struct str address = node->args[1];

    bool is_secure = str_starts_nocase(address, STR(TLS_SCHEME));

    if (is_secure) {
        address = str_skip(address, sizeof(TLS_SCHEME) - 1);
    } else if (str_starts_nocase(address, STR(SCHEME))) {
        address = str_skip(address, sizeof(SCHEME) - 1);
    }
    if (!pass_target_read(scope, node, address, 0, &own->target)) {
        return false;
    }
    own->target.is_secure = is_secure;
    exchange_needs_tls(scope, &uwsgi_family_key, is_secure || own->target.text != NULL);
    return pass_handler_set(scope, node, uwsgi_answer);
}

static bool uwsgi_finish(struct conf_scope *scope, void *settings)
{
    struct uwsgi_settings *own = settings;

    conf_list_inherit(scope, &PARAM_LIST("uwsgi", struct uwsgi_settings, list, uwsgi_key),
                      own->inherit);
    own->params = params_compile(scope->conf, &own->list);
    return true;
}

#define S struct uwsgi_settings
static const struct directive uwsgi_rows[] = {
    {"uwsgi_pass", IN_LOCATION | IN_LOCATION_IF, CUSTOM_FIELD(S, target, uwsgi_pass_apply),
     ARGS(1, 1), .syntax = "[protocol://]address",
     .doc = "Passes requests to a uwsgi server or a group of them: uwsgi:// or, over TLS, "
            "suwsgi://."},
    PARAM_ROW("uwsgi", S, list),
    PARAM_INHERIT_ROW("uwsgi", S, inherit),
    {"uwsgi_modifier1", IN_HTTP_ALL, NUMBER(S, modifier1), .initial = "0", .max = 255,
     .doc = "First modifier of the uwsgi packet, which defines the type of the request."},
    {"uwsgi_modifier2", IN_HTTP_ALL, NUMBER(S, modifier2), .initial = "0", .max = 255,
     .doc = "Second modifier of the packet."},
    {"uwsgi_string", IN_HTTP_ALL, STRING(S, string),
     .doc = "String that is added to the uwsgi packet after the variables."},
    {0},
};
#undef S

static const struct directive uwsgi_family_rows[] = {
    EXCHANGE_CONNECT_ROWS("uwsgi", cgi_next_upstream_words),
    EXCHANGE_ALLOW_ROW("uwsgi"),
    EXCHANGE_DYNAMIC_ROW("uwsgi"),
    EXCHANGE_TENGINE_TRIES_ROW("uwsgi"),
    EXCHANGE_SOCKET_BUFFER_ROWS("uwsgi"),
    EXCHANGE_BODY_ROWS("uwsgi"),
    EXCHANGE_CACHE_ROWS("uwsgi", cgi_cache_use_stale_words),
    EXCHANGE_TLS_ROWS("uwsgi"),
    {0},
};

static const struct directive_table uwsgi_table = {.key = &uwsgi_key,
                                                   .rows = uwsgi_rows,
                                                   .contexts = IN_HTTP_LOCATION_SETTINGS,
                                                   .size = sizeof(struct uwsgi_settings),
                                                   .finish = uwsgi_finish};
static const struct exchange_family uwsgi_family = {
    .prefix = "uwsgi",
    .table = EXCHANGE_TABLE(uwsgi_family_key, uwsgi_family_rows, exchange_settings_finish),
    .pass = "uwsgi_pass",
    .pass_key = &uwsgi_key,
    .temp_path = STR_INIT(DEFAULT_UWSGI_TEMP),
    .hidden_ids = HIDDEN_OF_CGI,
    .cache_hook = &response_cache_hook,
};
static const struct directive_table *const uwsgi_tables[] = {&uwsgi_table, &uwsgi_family.table,
                                                             NULL};

const struct module ngx_http_uwsgi_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_uwsgi_module",
    .kind = MODULE_HTTP,
    .tables = uwsgi_tables,
};
