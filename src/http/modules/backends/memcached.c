/* ngx_http_memcached_module: responses from memcached (text protocol: `get`). */
#include "base/parse.h"
#include "base/text.h"
#include "http/exchange/cache/rows.h"
#include "http/exchange/exchange.h"
#include "http/exchange/heads/value.h"
#include "http/routing/hooks.h"
#include "http/routing/settings.h"
#include "server/module.h"

/* Settings of a location, besides those of the family. */
struct memcached_settings {
    struct pass_target target;
    const struct variable *key; /* $memcached_key; NULL without memcached_pass */
    int64_t gzip_flag;          /* bits of an item's flags that mean gzip; 0 = none */
};

static struct settings_key memcached_key;
static struct settings_key memcached_family_key;
static const struct exchange_family memcached_family;

/* ---- the request ---- */

static bool memcached_make_request(struct exchange *x)
{
    const struct memcached_settings *own = x->module_settings;
    struct request *request = x->request;
    struct str key;

    if (!variable_get(&request->env, own->key, &key) || key.len == 0) {
        log_error(&request->log, 0, "the \"$memcached_key\" variable is not set");
        request->response.status = 500;
        return false;
    }
    struct value_reading *reading = arena_new(&request->arena, struct value_reading);
    reading->key = escape_str(&request->arena, key, ESCAPE_MEMCACHED);
    x->state = reading;
    const struct str parts[] = {STR("get "), reading->key, STR("\r\n")};
    x->head = arena_join(&request->arena, parts, 3);
    return true;
}

/* ---- the response ---- */

static void memcached_begin_response(struct exchange *x)
{
    value_begin(x->state);
}

static enum head_result read_value_line(struct exchange *x, struct str line)
{
    const struct memcached_settings *own = x->module_settings;
    struct memcached_value value;

    if (!value_announced(x, x->state, line, &value)) {
        return HEAD_BAD;
    }
    if ((value.flags & (uint64_t) own->gzip_flag) != 0) {
        fields_add_known(&x->response.fields, &x->request->arena, FIELD_CONTENT_ENCODING,
                         STR("gzip"));
    }
    return HEAD_DONE;
}

static enum head_result memcached_read_head(struct exchange *x)
{
    const struct value_reading *reading = x->state;
    struct str line;
    enum head_result result = value_line(x, &line);

    if (result != HEAD_DONE) {
        return result;
    }
    if (str_starts(line, STR("VALUE "))) {
        result = read_value_line(x, line);
    } else if (str_is(line, "END")) {
        log_info(&x->request->log, 0, "key: \"%.*s\" was not found by memcached",
                 STR_ARG(reading->key));
        result = value_not_found(x);
    } else {
        return value_refuse(x, line);
    }
    exchange_consume(x, line.len + 2);
    return result;
}

static enum body_result memcached_read_body(struct exchange *x, struct str *data)
{
    return x->response.has_no_body ? BODY_END : value_read(x, x->state, data);
}

static const struct protocol memcached_protocol = {
    .family = &memcached_family,
    .name = STR_INIT("memcached"),
    .channel = &whole_connection,
    .offers_ranges = true,
    .make_request = memcached_make_request,
    .begin_response = memcached_begin_response,
    .read_head = memcached_read_head,
    .read_body = memcached_read_body,
};

static enum handler_result memcached_answer(struct request *request)
{
    const struct memcached_settings *own = location_settings(request->location, &memcached_key);
    const struct exchange_settings *settings =
        location_settings(request->location, &memcached_family_key);

    if ((request->method & (METHOD_GET | METHOD_HEAD)) == 0) {
        return request_fail(request, 405);
    }
    struct exchange *x = exchange_new(request, &memcached_protocol, settings, own);
    exchange_set_target(x, &own->target);
    return exchange_run(x);
}

/* ---- directives ---- */

static bool memcached_pass_apply(struct conf_scope *scope, const struct directive *row,
                                 struct conf_node *node, void *settings)
{
    struct memcached_settings *own = settings;
    struct conf *conf = scope->conf;

    own->key = variable_use(conf, node, conf_variables(conf), STR("memcached_key"));
    return own->key != NULL && pass_target_read(scope, node, node->args[1], 0, &own->target) &&
           pass_handler_set(scope, node, memcached_answer);
}

#define S struct memcached_settings
static const struct directive memcached_rows[] = {
    {"memcached_pass", IN_LOCATION | IN_LOCATION_IF, CUSTOM_FIELD(S, target, memcached_pass_apply),
     ARGS(1, 1), .syntax = "address",
     .doc = "Passes requests to a memcached server or a group of them, which returns the "
            "entry with the key `$memcached_key`."},
    {"memcached_gzip_flag", IN_HTTP_ALL, NUMBER(S, gzip_flag),
     .doc = "Entries with this bit in their flags are sent with Content-Encoding gzip."},
    {0},
};
#undef S

static const struct directive_word next_words[] = {{"error", NEXT_ERROR},
                                                   {"timeout", NEXT_TIMEOUT},
                                                   {"invalid_response", NEXT_INVALID_HEADER},
                                                   {"not_found", NEXT_NOT_FOUND},
                                                   {"denied", NEXT_DENIED},
                                                   {"off", NEXT_OFF},
                                                   {NULL, 0}};

static const struct directive memcached_family_rows[] = {
    EXCHANGE_CONNECT_ROWS("memcached", next_words),
    EXCHANGE_ALLOW_ROW("memcached"),
    EXCHANGE_TENGINE_TRIES_ROW("memcached"),
    {0},
};

static const struct directive_table memcached_table = {.key = &memcached_key,
                                                       .rows = memcached_rows,
                                                       .contexts = IN_HTTP_LOCATION_SETTINGS,
                                                       .size = sizeof(struct memcached_settings)};
static const struct exchange_family memcached_family = {
    .prefix = "memcached",
    .table = EXCHANGE_TABLE(memcached_family_key, memcached_family_rows, exchange_bare_finish),
    .cache_hook = &response_cache_hook,
};
static const struct directive_table *const memcached_tables[] = {&memcached_table,
                                                                 &memcached_family.table, NULL};

/* $memcached_key has a value only if `set` or `map` assigned one. */
static bool get_key(struct variable_env *env, const struct variable *variable, struct str *out)
{
    return false;
}

static const struct variable memcached_variables[] = {
    {.name = STR_INIT("memcached_key"),
     .doc = "Key that `memcached_pass` looks up; must be set.",
     .get = get_key,
     .flags = VARIABLE_CHANGEABLE},
    {.name = {NULL, 0}},
};
static const struct http_module hooks = {.variables = memcached_variables};

const struct module ngx_http_memcached_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_memcached_module",
    .kind = MODULE_HTTP,
    .tables = memcached_tables,
    .hooks = &hooks,
};
