/* ngx_http_memcached_module: answers out of memcached (its text protocol: `get`). */
#include "base/parse.h"
#include "base/text.h"
#include "http/exchange/cache/rows.h"
#include "http/exchange/exchange.h"
#include "http/message/memcached_value.h"
#include "http/routing/hooks.h"
#include "http/routing/settings.h"
#include "server/module.h"

/* Settings of one location, besides the family's. */
struct memcached_settings {
    struct pass_target target;
    const struct variable *key; /* $memcached_key; NULL where no pass is */
    int64_t gzip_flag;          /* bits of an entry's flags that say it is compressed; 0 = none */
};

/* Where reading an answer stands; in the request's arena, used for all tries. */
struct memcached_state {
    struct str key;  /* escaped, as it is asked for */
    uint64_t left;   /* bytes of the value still to come */
    unsigned end_at; /* bytes of MEMCACHED_VALUE_END that were seen */
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
    struct memcached_state *state = arena_new(&request->arena, struct memcached_state);
    state->key = escape_str(&request->arena, key, ESCAPE_MEMCACHED);
    x->state = state;
    const struct str parts[] = {STR("get "), state->key, STR("\r\n")};
    x->head = arena_join(&request->arena, parts, 3);
    return true;
}

/* ---- the answer ---- */

static void memcached_begin_answer(struct exchange *x)
{
    struct memcached_state *state = x->state;

    state->left = 0;
    state->end_at = 0;
}

static enum head_result answer_refuse(struct exchange *x, struct str line)
{
    log_error(&x->request->log, 0, "memcached sent invalid response: \"%.*s\"",
              STR_ARG(str_head(line, 256)));
    return HEAD_BAD;
}

/* "END": there is no such entry. */
static enum head_result answer_not_found(struct exchange *x)
{
    const struct memcached_state *state = x->state;

    log_info(&x->request->log, 0, "key: \"%.*s\" was not found by memcached", STR_ARG(state->key));
    x->answer.status = 404;
    x->answer.content_length = 0;
    x->answer.has_no_body = true;
    x->answer.has_no_page = true;
    x->is_reusable = true;
    return HEAD_DONE;
}

static enum head_result read_value_line(struct exchange *x, struct str line)
{
    const struct memcached_settings *own = x->module_settings;
    struct memcached_state *state = x->state;
    struct memcached_value value;
    const char *wrong = memcached_value_parse(line, &value);

    if (!str_equal(value.key, state->key)) {
        wrong = "key";
    }
    if (wrong != NULL) {
        log_error(&x->request->log, 0,
                  "memcached sent invalid %s in response \"%.*s\" for key \"%.*s\"", wrong,
                  STR_ARG(str_head(line, 256)), STR_ARG(state->key));
        return HEAD_BAD;
    }
    x->answer.status = 200;
    x->answer.content_length = (int64_t) value.length;
    state->left = value.length;
    if ((value.flags & (uint64_t) own->gzip_flag) != 0) {
        fields_add_known(&x->answer.fields, &x->request->arena, FIELD_CONTENT_ENCODING,
                         STR("gzip"));
    }
    response_set_type(x->request);
    return HEAD_DONE;
}

static enum head_result memcached_read_head(struct exchange *x)
{
    const struct channel *channel = x->protocol->channel;
    struct str input = channel->input(x);
    const char *end = input.len == 0 ? NULL : memchr(input.data, '\n', input.len);

    if (end == NULL) {
        return HEAD_MORE;
    }
    struct str line = str_from(input.data, end);
    if (line.len == 0 || line.data[line.len - 1] != '\r') {
        return answer_refuse(x, line);
    }
    line.len--;
    enum head_result result = HEAD_BAD;
    if (str_starts(line, STR("VALUE "))) {
        result = read_value_line(x, line);
    } else if (str_is(line, "END")) {
        result = answer_not_found(x);
    } else {
        return answer_refuse(x, line);
    }
    channel->consume(x, line.len + 2);
    return result;
}

/* What has to stand after the value. */
static enum body_result read_end(struct exchange *x)
{
    const struct channel *channel = x->protocol->channel;
    struct memcached_state *state = x->state;

    if (x->answer.has_no_body) {
        return BODY_END;
    }
    while (state->end_at < sizeof(MEMCACHED_VALUE_END) - 1) {
        size_t used;

        if (!memcached_value_ends(channel->input(x), &state->end_at, &used)) {
            log_error(&x->request->log, 0, "memcached sent invalid trailer");
            return BODY_BAD;
        }
        if (used == 0) {
            return BODY_MORE;
        }
        channel->consume(x, used);
    }
    x->is_reusable = true;
    return BODY_END;
}

static enum body_result memcached_read_body(struct exchange *x, struct str *data)
{
    const struct channel *channel = x->protocol->channel;
    struct memcached_state *state = x->state;

    if (state->left == 0) {
        return read_end(x);
    }
    struct str input = channel->input(x);
    if (input.len == 0) {
        return BODY_MORE;
    }
    *data = state->left < input.len ? str_head(input, (size_t) state->left) : input;
    channel->consume(x, data->len);
    state->left -= data->len;
    return BODY_DATA;
}

static const struct protocol memcached_protocol = {
    .family = &memcached_family,
    .name = STR_INIT("memcached"),
    .channel = &whole_link,
    .make_request = memcached_make_request,
    .begin_answer = memcached_begin_answer,
    .read_head = memcached_read_head,
    .read_body = memcached_read_body,
};

static enum flow memcached_answer(struct request *request)
{
    const struct memcached_settings *own = location_settings(request->location, &memcached_key);
    const struct exchange_settings *settings =
        location_settings(request->location, &memcached_family_key);

    if ((request->method & (METHOD_GET | METHOD_HEAD)) == 0) {
        return request_fail(request, 405);
    }
    struct exchange *x = exchange_new(request, &memcached_protocol, settings, own);
    x->group = own->target.group;
    x->target = own->target.text;
    if (x->group == NULL) {
        x->target_text = template_text(own->target.text, &request->env);
    }
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

/* What the other protocols leave to the configuration is so here. */
static bool memcached_family_finish(struct conf_scope *scope, void *settings)
{
    struct exchange_settings *own = settings;

    own->intercept_errors = true;
    if ((own->next_upstream & NEXT_NOT_FOUND) != 0) {
        own->next_upstream |= NEXT_404;
    }
    return exchange_settings_finish(scope, settings);
}

#define S struct memcached_settings
static const struct directive memcached_rows[] = {
    {"memcached_pass", IN_LOCATION | IN_LOCATION_IF, CUSTOM_FIELD(S, target, memcached_pass_apply),
     ARGS(1, 1), .syntax = "address",
     .doc = "The memcached server, or group of them, that holds the entry $memcached_key."},
    {"memcached_gzip_flag", IN_HTTP_ALL, NUMBER(S, gzip_flag),
     .doc = "Entries with this bit among their flags are sent as gzip."},
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
    EXCHANGE_TENGINE_TRIES_ROW("memcached"),
    {0},
};

static const struct directive_table memcached_table = {.key = &memcached_key,
                                                       .rows = memcached_rows,
                                                       .contexts = IN_HTTP_LOCATION_SETTINGS,
                                                       .size = sizeof(struct memcached_settings)};
static const struct exchange_family memcached_family = {
    .prefix = "memcached",
    .table = EXCHANGE_TABLE(memcached_family_key, memcached_family_rows, memcached_family_finish),
    .keeper = &answer_keeper,
};
static const struct directive_table *const memcached_tables[] = {&memcached_table,
                                                                 &memcached_family.table, NULL};

/* $memcached_key has a value only where `set` or `map` gives it one. */
static bool get_key(struct variable_env *env, const struct variable *variable, struct str *out)
{
    return false;
}

static const struct variable memcached_variables[] = {
    {.name = STR_INIT("memcached_key"), .get = get_key, .flags = VARIABLE_CHANGEABLE},
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
