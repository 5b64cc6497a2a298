/* ngx_http_redis2_module: sends queries to Redis; its answers are the responses, unchanged. */
#include "base/parse.h"
#include "http/exchange/exchange.h"
#include "http/exchange/options/rows.h"
#include "http/modules/backends/redis2/reply.h"
#include "http/request/body.h"
#include "http/routing/settings.h"
#include "server/module.h"

#define QUERIES_MAX 65536 /* most queries of one request */

/* Settings of a location, besides those of the family. */
struct redis2_settings {
    struct pass_target target;
    struct vec queries;         /* struct query *: one per redis2_query */
    struct template *raw;       /* of redis2_raw_query, redis2_raw_queries; or NULL */
    struct template *raw_count; /* number of queries in it; NULL = 1 */
    struct str literal;         /* of redis2_literal_raw_query */
};

/* One redis2_query directive. */
struct query {
    struct vec words;       /* struct template *: command and arguments */
    bool leaves_link_alone; /* its command is constant and does not change the state of the
                               connection */
};

/* In the request's arena, used for all attempts. */
struct redis2_state {
    struct reply reply;
    uint64_t count; /* number of queries */
    bool may_keep;  /* the connection may be kept after all answers */
};

static struct settings_key redis2_key;
static struct settings_key redis2_family_key;
static const struct exchange_family redis2_family;

/* ---- the request ---- */

/* Appends "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n" */
static void add_query(struct request *request, const struct query *query, struct vec *parts)
{
    struct arena *arena = &request->arena;

    *vec_add(parts, arena, struct str) = arena_printf(arena, "*%zu\r\n", query->words.count);
    vec_each(struct template *, word, &query->words) {
        struct str text = template_text(*word, &request->env);
        *vec_add(parts, arena, struct str) = arena_printf(arena, "$%zu\r\n", text.len);
        *vec_add(parts, arena, struct str) = text;
        *vec_add(parts, arena, struct str) = STR("\r\n");
    }
}

static bool make_queries(struct exchange *x, const struct redis2_settings *own,
                         struct redis2_state *state)
{
    struct vec parts = {0};

    state->may_keep = true;
    state->count = own->queries.count;
    vec_each(struct query *, query, &own->queries) {
        add_query(x->request, *query, &parts);
        state->may_keep = state->may_keep && (*query)->leaves_link_alone;
    }
    x->head = arena_join(&x->request->arena, parts.items, parts.count);
    return true;
}

/* A raw query may contain more queries than it should, so its connection is not kept. */
static bool make_raw(struct exchange *x, const struct redis2_settings *own,
                     struct redis2_state *state)
{
    struct request *request = x->request;

    state->count = 1;
    if (own->raw_count != NULL) {
        struct str count = template_text(own->raw_count, &request->env);
        if (!parse_uint(count, &state->count) || state->count == 0 || state->count > QUERIES_MAX) {
            log_error(&request->log, 0, "invalid number of redis2 queries: \"%.*s\"",
                      STR_ARG(count));
            return false;
        }
    }
    x->head = own->raw != NULL ? template_text(own->raw, &request->env) : own->literal;
    if (x->head.len == 0) {
        log_error(&request->log, 0, "the redis2 query is empty");
        return false;
    }
    return true;
}

static bool redis2_make_request(struct exchange *x)
{
    const struct redis2_settings *own = x->module_settings;
    struct redis2_state *state = arena_new(&x->request->arena, struct redis2_state);
    bool is_raw = own->raw != NULL || own->literal.len != 0;

    x->state = state;
    if (!is_raw && own->queries.count == 0) {
        log_error(&x->request->log, 0, "there is no redis2 query");
    } else if (is_raw ? make_raw(x, own, state) : make_queries(x, own, state)) {
        return true;
    }
    x->request->response.status = 500;
    return false;
}

/* ---- the response ---- */

static void redis2_begin_response(struct exchange *x)
{
    struct redis2_state *state = x->state;

    reply_begin(&state->reply, state->count);
}

static bool bad_answer(struct exchange *x, struct str bytes)
{
    log_error(&x->request->log, 0, "redis2 sent invalid response: \"%.*s\"",
              STR_ARG(str_head(bytes, 64)));
    return false;
}

static enum head_result redis2_read_head(struct exchange *x)
{
    struct str input = exchange_input(x);

    if (input.len == 0) {
        return HEAD_MORE;
    }
    if (memchr("+-:$*", *input.data, 5) == NULL) {
        bad_answer(x, input);
        return HEAD_BAD;
    }
    x->response.status = 200;
    x->response.content_length = -1;
    response_set_type(x->request);
    return HEAD_DONE;
}

static enum body_result redis2_read_body(struct exchange *x, struct str *data)
{
    struct redis2_state *state = x->state;
    struct str input = exchange_input(x);
    size_t used = 0;

    switch (reply_take(&state->reply, input, &used)) {
    case REPLY_BAD:
        bad_answer(x, input);
        return BODY_BAD;
    case REPLY_END:
        if (used == 0) {
            x->is_reusable = state->may_keep;
            return BODY_END;
        }
        break;
    case REPLY_MORE:
        if (used == 0) {
            return BODY_MORE;
        }
        break;
    }
    *data = str_head(input, used);
    exchange_consume(x, used);
    return BODY_DATA;
}

static const struct protocol redis2_protocol = {
    .family = &redis2_family,
    .name = STR_INIT("redis2"),
    .channel = &whole_connection,
    .make_request = redis2_make_request,
    .begin_response = redis2_begin_response,
    .read_head = redis2_read_head,
    .read_body = redis2_read_body,
};

/* MAY WAIT. */
static enum handler_result redis2_answer(struct request *request)
{
    const struct redis2_settings *own = location_settings(request->location, &redis2_key);
    const struct exchange_settings *settings =
        location_settings(request->location, &redis2_family_key);
    enum handler_result result = request_read_body(request); /* a query may contain $request_body */

    if (result != HANDLER_NEXT) {
        return result;
    }
    struct exchange *x = exchange_new(request, &redis2_protocol, settings, own);
    exchange_set_target(x, &own->target);
    x->body_mode = SENT_BODY_NONE;
    return exchange_run(x);
}

/* ---- directives ---- */

static bool redis2_pass_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *settings)
{
    struct redis2_settings *own = settings;

    return pass_target_read(scope, node, node->args[1], 0, &own->target) &&
           pass_handler_set(scope, node, redis2_answer);
}

/* Commands that change the state of a connection, or cause messages that are not answers. */
static bool changes_link(struct str command)
{
    static const char *const commands[] = {
        "asking",      "auth",    "client",     "discard",      "exec",      "hello",
        "monitor",     "multi",   "psubscribe", "punsubscribe", "quit",      "readonly",
        "readwrite",   "reset",   "select",     "ssubscribe",   "subscribe", "sunsubscribe",
        "unsubscribe", "watch",   "psync",      "replicaof",    "shutdown",  "slaveof",
        "sync",        "unwatch",
    };

    for (unsigned i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (str_equal_nocase(command, str_of(commands[i]))) {
            return true;
        }
    }
    return false;
}

static bool query_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    struct redis2_settings *own = settings;
    struct query *query = arena_new(scope->conf->arena, struct query);

    for (unsigned i = 1; i < node->count; i++) {
        struct template **word = vec_add(&query->words, scope->conf->arena, struct template *);
        if (!conf_value_template(scope, node, i, word)) {
            return false;
        }
    }
    const struct template *command = *vec_at(&query->words, struct template *, 0);
    query->leaves_link_alone = command->is_constant && !changes_link(command->constant);
    *vec_add(&own->queries, scope->conf->arena, struct query *) = query;
    return true;
}

/* redis2_raw_queries: the number of queries, and their text. */
static bool raw_queries_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *settings)
{
    struct redis2_settings *own = settings;

    return conf_value_template(scope, node, 1, &own->raw_count) &&
           conf_value_template(scope, node, 2, &own->raw);
}

static bool raw_query_apply(struct conf_scope *scope, const struct directive *row,
                            struct conf_node *node, void *settings)
{
    struct redis2_settings *own = settings;

    own->raw_count = NULL;
    return conf_value_template(scope, node, 1, &own->raw);
}

static bool redis2_finish(struct conf_scope *scope, void *settings)
{
    const struct redis2_settings *own = settings;
    unsigned kinds = (own->queries.count != 0) + (own->raw != NULL) + (own->literal.len != 0);

    return kinds <= 1 ||
           conf_error(scope->conf, scope->node,
                      "\"redis2_query\", \"redis2_raw_query\", \"redis2_raw_queries\" and "
                      "\"redis2_literal_raw_query\" exclude each other");
}

#define HERE IN_LOCATION | IN_LOCATION_IF
#define S struct redis2_settings
static const struct directive redis2_rows[] = {
    {"redis2_pass", HERE, CUSTOM_FIELD(S, target, redis2_pass_apply), ARGS(1, 1),
     .syntax = "address",
     .doc = "Passes requests to a Redis server or a group of them; the reply is sent to the "
            "client unchanged."},
    {"redis2_query", HERE, CUSTOM_FIELD(S, queries, query_apply), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_APPEND, .syntax = "command [argument ...]",
     .doc = "Adds a query. Several queries are sent together; their replies are in the same "
            "order. Arguments may contain any bytes."},
    {"redis2_raw_query", HERE, CUSTOM_FIELD(S, raw, raw_query_apply), ARGS(1, 1),
     .syntax = "string",
     .doc = "One query in the Redis protocol (RESP). It is not checked: do not use values "
            "that come from clients in it."},
    {"redis2_raw_queries", HERE, CUSTOM(raw_queries_apply), ARGS(2, 2), .repeat = REPEAT_CUSTOM,
     .syntax = "number string",
     .doc = "The given number of queries in the Redis protocol (RESP). They are not "
            "checked: do not use values that come from clients in them."},
    {"redis2_literal_raw_query", HERE, STRING(S, literal), .syntax = "string",
     .doc = "One query in the Redis protocol (RESP), without variables: `$` is not special."},
    {0},
};
#undef S

static const struct directive redis2_family_rows[] = {
    EXCHANGE_CONNECT_ROWS("redis2", bare_next_upstream_words),
    {0},
};

static const struct directive_table redis2_table = {
    .key = &redis2_key,
    .rows = redis2_rows,
    .contexts = IN_HTTP_LOCATION_SETTINGS,
    .size = sizeof(struct redis2_settings),
    .finish = redis2_finish,
};
static const struct exchange_family redis2_family = {
    .prefix = "redis2",
    .table = EXCHANGE_TABLE(redis2_family_key, redis2_family_rows, exchange_settings_finish),
};
static const struct directive_table *const redis2_tables[] = {&redis2_table, &redis2_family.table,
                                                              NULL};

const struct module ngx_http_redis2_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_redis2_module",
    .kind = MODULE_HTTP,
    .tables = redis2_tables,
};
