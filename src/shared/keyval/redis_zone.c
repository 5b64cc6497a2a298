/* keyval_zone_redis: the directive. */
#include "base/parse.h"
#include "shared/keyval/redis.h"

enum {
    PORT = 6379,
    TIMEOUT_MS = 10,           /* that a request waits */
    CONNECT_TIMEOUT_MS = 3000, /* a request waits for TIMEOUT_MS only */
    DATABASE_MAX = 65535,
};

static struct vec *variables_of(struct conf *conf, const struct keyval_kind *kind)
{
    return conf_state(conf, kind->redis_variables, sizeof(struct vec));
}

const struct vec *keyval_redis_variables(struct conf *conf, const struct keyval_kind *kind)
{
    return variables_of(conf, kind);
}

/* The parameters of the directive. */
struct redis_words {
    struct str zone, hostname, store;
    uint64_t port, database, ttl_ms, timeout_ms, connect_timeout_ms;
    bool has_server; /* a parameter names the server */
};

static bool read_time(struct str value, uint64_t *ms)
{
    return parse_msec(value, ms) && *ms != 0 && *ms <= INT64_MAX / 2;
}

static bool redis_read_word(struct str word, struct redis_words *words)
{
    struct str rest = word, name = str_cut(&rest, '=');

    if (rest.data == NULL || rest.len == 0) {
        return false;
    }
    words->has_server |= !str_is(name, "zone") && !str_is(name, "store") && !str_is(name, "ttl");
    if (str_is(name, "zone")) {
        words->zone = rest;
        return true;
    }
    if (str_is(name, "store")) {
        words->store = rest;
        return true;
    }
    if (str_is(name, "hostname")) {
        words->hostname = rest;
        return true;
    }
    if (str_is(name, "port")) {
        return parse_uint(rest, &words->port) && words->port != 0 && words->port <= UINT16_MAX;
    }
    if (str_is(name, "database")) {
        return parse_uint(rest, &words->database) && words->database <= DATABASE_MAX;
    }
    if (str_is(name, "ttl")) {
        return parse_msec(rest, &words->ttl_ms) && words->ttl_ms <= INT64_MAX / 2;
    }
    if (str_is(name, "connect_timeout")) {
        return read_time(rest, &words->connect_timeout_ms);
    }
    return str_is(name, "command_timeout") && read_time(rest, &words->timeout_ms);
}

static struct store *find_store(struct conf *conf, struct conf_node *node,
                                const struct redis_words *words)
{
    bool is_ip6 = str_find_char(words->hostname, ':') != NULL && *words->hostname.data != '[' &&
                  !str_starts(words->hostname, STR("unix:"));
    const struct store_one_server server =
        {.address = str_starts(words->hostname, STR("unix:"))
                        ? words->hostname
                        : arena_printf(conf->arena, is_ip6 ? "[%.*s]:%llu" : "%.*s:%llu",
                                       STR_ARG(words->hostname), (unsigned long long) words->port),
         .database = (int64_t) words->database,
         .timeout_ms = words->timeout_ms,
         .connect_timeout_ms = words->connect_timeout_ms};

    return words->store.len != 0 ? store_named(conf, node, words->store)
                                 : store_of_server(conf, node, &server);
}

void keyval_redis_link(struct conf *conf, const struct keyval_kind *kind,
                       struct keyval_variable *keyval)
{
    *vec_add(variables_of(conf, kind), conf->arena, struct keyval_variable *) = keyval;
    keyval->variable->get = keyval_redis_get;
    keyval->variable->set = keyval_redis_set;
    keyval->variable->flags |= VARIABLE_VOLATILE;
}

bool keyval_redis_read(struct conf *conf, struct conf_node *node, const struct keyval_kind *kind,
                       struct keyval_fetches *(*fetches)(struct variable_env *env))
{
    struct redis_words words = {.hostname = STR("127.0.0.1"),
                                .port = PORT,
                                .timeout_ms = TIMEOUT_MS,
                                .connect_timeout_ms = CONNECT_TIMEOUT_MS};

    for (unsigned i = 1; i < node->count; i++) {
        if (!redis_read_word(node->args[i], &words)) {
            return conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(node->args[i]));
        }
    }
    if (words.zone.len == 0) {
        return conf_error(conf, node, "\"keyval_zone_redis\" must have \"zone\" parameter");
    }
    if (words.store.len != 0 && words.has_server) {
        return conf_error(conf, node,
                          "\"store\" says which server it is: no \"hostname\", \"port\", "
                          "\"database\" or timeout besides");
    }
    struct keyval_zone *zone = keyval_zone_named(conf, node, kind, words.zone);
    if (zone == NULL) {
        return false;
    }
    if (zone->store != NULL || zone->redis != NULL) {
        return conf_error(conf, node, "duplicate zone \"%.*s\"", STR_ARG(words.zone));
    }
    zone->redis = arena_new(conf->arena, struct keyval_redis);
    zone->redis->store = find_store(conf, node, &words);
    zone->redis->prefix = arena_concat(conf->arena, words.zone, STR(":"));
    zone->redis->ttl_ms = words.ttl_ms;
    zone->redis->fetches = fetches;
    vec_each(struct keyval_variable *, keyval, keyval_variables(conf, kind)) {
        if ((*keyval)->zone == zone) {
            keyval_redis_link(conf, kind, *keyval);
        }
    }
    return zone->redis->store != NULL;
}
