/* ngx_http_upstream_keepalive_module: how many idle connections a group keeps, and for how long. */
#include "server/module.h"
#include "upstream/private.h"
#include "upstream/settings/words.h"

/* What the rows of a block say; goes into the group when the block was read. */
struct keepalive_settings {
    int64_t requests;
    uint64_t time_ms;
    uint64_t timeout_ms;
};

enum {
    SLICE_KEYS = 20,         /* slice_poolsize, unless set otherwise */
    SLICE_KEYS_MOST = 65535, /* slice_poolsize at most */
    SLICE_KEY_LENGTH = 40,   /* slice_keylen */
    SLICE_KEY_LENGTH_MOST = 4096,
};

static bool is_slice_word(struct str parameter, struct str name, struct str *value)
{
    return word_is_parameter(parameter, name, value) && value->len != 0;
}

/* One parameter that begins with "slice_". False: it is none, or its value is wrong. */
static bool read_slice(struct conf *conf, const struct conf_node *node, struct str parameter,
                       struct keepalive_slices *slices)
{
    struct str value;

    if (is_slice_word(parameter, STR("slice_key="), &value)) {
        return (slices->key = template_compile(conf, node, value)) != NULL;
    }
    if (is_slice_word(parameter, STR("slice_dyn="), &value)) {
        return value.data[0] == '$' &&
               (slices->switch_on = template_compile(conf, node, value)) != NULL;
    }
    if (is_slice_word(parameter, STR("slice_conn="), &value)) {
        return word_read_number(value, 1, INT32_MAX, &slices->connections);
    }
    if (is_slice_word(parameter, STR("slice_poolsize="), &value)) {
        return word_read_number(value, 0, SLICE_KEYS_MOST, &slices->keys_max);
    }
    return is_slice_word(parameter, STR("slice_keylen="), &value) &&
           word_read_number(value, 1, SLICE_KEY_LENGTH_MOST, &slices->key_length_max);
}

/* The parameters after the number. False after conf_error. */
static bool read_parameters(struct conf *conf, const struct conf_node *node,
                            struct upstream_group *group)
{
    struct keepalive_slices *slices = NULL;

    group->is_keepalive_local = false;
    for (unsigned i = 2; i < node->count; i++) {
        if (str_is(node->args[i], "local")) {
            group->is_keepalive_local = true;
            continue;
        }
        if (slices == NULL) {
            slices = arena_new(conf->arena, struct keepalive_slices);
            slices->connections = group->keepalive;
            slices->keys_max = SLICE_KEYS;
            slices->key_length_max = SLICE_KEY_LENGTH;
        }
        if (!read_slice(conf, node, node->args[i], slices)) {
            return conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(node->args[i]));
        }
    }
    if (slices != NULL && slices->key == NULL) {
        return conf_error(conf, node, "slices of \"keepalive\" need \"slice_key\"");
    }
    group->slices = slices;
    return true;
}

static bool keepalive_apply(struct conf_scope *scope, const struct directive *row,
                            struct conf_node *node, void *settings)
{
    struct upstream_group *group;
    uint64_t n;

    if (!parse_uint(node->args[1], &n) || n > INT32_MAX) {
        return conf_error(scope->conf, node, "invalid value \"%.*s\" in \"%.*s\" directive",
                          STR_ARG(node->args[1]), STR_ARG(node->args[0]));
    }
    if (scope->parent == NULL) {
        return true; /* the default, which groups have of themselves */
    }
    group = scope_group(scope);
    group->keepalive = (unsigned) n;
    group->is_keepalive_set = true;
    return read_parameters(scope->conf, node, group);
}

static bool keepalive_finish(struct conf_scope *scope, void *settings)
{
    const struct keepalive_settings *written = settings;
    struct upstream_group *group = scope_group(scope);

    group->keepalive_requests = written->requests;
    group->keepalive_time_ms = written->time_ms;
    group->keepalive_timeout_ms = written->timeout_ms;
    return true;
}

#define K struct keepalive_settings
static const struct directive keepalive_rows[] = {
    {"keepalive", IN_UPSTREAM, CUSTOM(keepalive_apply), ARGS(1, ARGS_ANY), .initial = "32 local",
     .syntax = "connections [local] [slice_key=string] [slice_conn=number] [slice_dyn=$variable] "
               "[slice_poolsize=number] [slice_keylen=number]",
     .doc = "Largest number of idle connections that each worker keeps; 0 disables keepalive. "
            "With `local`, each location that passes requests to the group has its own pool; "
            "without it, they share one. With `slice_key`, a request only reuses connections of "
            "requests with the same key: slice_conn connections for each key (by default, the "
            "first number), for the slice_poolsize most recently used keys (by default 20; with "
            "0, such a connection is closed after its request). Only the first slice_keylen "
            "bytes (40 by default) of a key are compared. Requests with an empty key, or for "
            "which the variable of slice_dyn is empty or 0, use the common pool."},
    {"keepalive_requests", IN_UPSTREAM, NUMBER(K, requests), .initial = "1000",
     .doc = "Largest number of requests on a connection. After that the connection is closed."},
    {"keepalive_time", IN_UPSTREAM, MSEC(K, time_ms), .initial = "1h",
     .doc = "Longest time for which a connection is used. It is closed after the request that is "
            "then in progress."},
    {"keepalive_timeout", IN_UPSTREAM, MSEC(K, timeout_ms), .initial = "60s",
     .doc = "Time after which an idle connection is closed."},
    {0},
};
#undef K

extern const struct module ngx_http_upstream_keepalive_module;
const struct module ngx_http_upstream_keepalive_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_upstream_keepalive_module",
    .kind = MODULE_HTTP,
    .table = {.rows = keepalive_rows,
              .contexts = IN_UPSTREAM,
              .size = sizeof(struct keepalive_settings),
              .finish = keepalive_finish},
};
