/* ngx_stream_upstream_hc_module: `health_check` in a server, as in nginx Plus, and `match`. */
#include "server/module.h"
#include "shared/health/text.h"
#include "shared/tls/client.h"
#include "shared/upstream/health_sync.h"
#include "stream/session/hooks.h"
#include "upstream/health.h"

/* A datagram that belongs to no protocol: no server answers it, but a closed port is reported
 * (ICMP). */
#define DATAGRAM_TEXT "nginx health check"

/* A `match` block. */
struct match {
    struct health_match block;
    struct text_probe text;
    bool has_send, has_expect;
};

/* One `health_check` line. */
struct check_line {
    struct conf_node *node;
    struct health_settings health;
    struct store_sync_words sync;
    struct match *match; /* or NULL */
    const struct stream_server *server;
};

/* The lines of one server. */
struct check_settings {
    struct vec lines; /* struct check_line *; never inherited */
    uint64_t timeout_ms;
};

/* All lines of this reading of the configuration. */
static struct vec *all_lines(struct conf *conf)
{
    return conf_state(conf, "stream health_check", sizeof(struct vec));
}

/* ---- `match` ---- */

static bool read_send(struct conf *conf, const struct conf_node *line, struct match *match)
{
    if (match->has_send) {
        return conf_error(conf, line, "\"send\" is duplicate");
    }
    match->has_send = true;
    if (line->count != 2) {
        return conf_error(conf, line, "invalid number of arguments in \"send\"");
    }
    return text_probe_decode(conf->arena, line->args[1], &match->text.send) ||
           conf_error(conf, line, "invalid parameter \"%.*s\" of \"send\"", STR_ARG(line->args[1]));
}

/* expect text | ~ regex | ~* regex */
static bool read_expect(struct conf *conf, const struct conf_node *line, struct match *match)
{
    if (match->has_expect) {
        return conf_error(conf, line, "\"expect\" is duplicate");
    }
    match->has_expect = true;
    if (line->count == 2) {
        return (text_probe_decode(conf->arena, line->args[1], &match->text.expected) &&
                match->text.expected.len != 0) ||
               conf_error(conf, line, "invalid parameter \"%.*s\" of \"expect\"",
                          STR_ARG(line->args[1]));
    }
    if (line->count != 3) {
        return conf_error(conf, line, "invalid number of arguments in \"expect\"");
    }
    bool is_nocase = str_is(line->args[1], "~*");
    if (!is_nocase && !str_is(line->args[1], "~")) {
        return conf_error(conf, line, "invalid parameter \"%.*s\" of \"expect\"",
                          STR_ARG(line->args[1]));
    }
    match->text.regex = regex_compile(conf, line, line->args[2], is_nocase, false);
    return match->text.regex != NULL;
}

static bool stream_health_check_read_line(struct conf *conf, const struct conf_node *line,
                                          struct health_match *block)
{
    struct match *match = container_of(block, struct match, block);

    if (str_is(line->args[0], "send")) {
        return read_send(conf, line, match);
    }
    if (str_is(line->args[0], "expect")) {
        return read_expect(conf, line, match);
    }
    return conf_error(conf, line, "unknown directive \"%.*s\"", STR_ARG(line->args[0]));
}

static const struct health_match_kind stream_matches = {.state = "stream match",
                                                        .size = sizeof(struct match),
                                                        .read_line = stream_health_check_read_line};

static bool match_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    return health_match_apply(scope->conf, &stream_matches, node);
}

/* ---- `health_check` ---- */

static bool stream_health_check_read_word(struct conf *conf, struct check_line *line,
                                          struct str word)
{
    struct str value = word;
    struct str name = str_cut(&value, '=');
    bool is_known;

    if (!store_sync_read(conf, line->node, word, false, &line->sync, &is_known)) {
        return false;
    }
    if (is_known) {
        return true;
    }
    if (str_is(word, "udp")) {
        line->health.is_datagram = true;
        return true;
    }
    if (str_is(name, "match") && value.len != 0) {
        line->health.name = value;
        line->match = container_of(health_match_named(conf, &stream_matches, line->node, value),
                                   struct match, block);
        return true;
    }
    return health_word_read(&line->health, word, &is_known) ||
           conf_error(conf, line->node, "invalid parameter \"%.*s\"", STR_ARG(word));
}

static bool health_check_apply(struct conf_scope *scope, const struct directive *row,
                               struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct check_settings *here = settings;
    struct check_line *line = arena_new(conf->arena, struct check_line);

    line->node = node;
    health_settings_init(&line->health);
    for (unsigned i = 1; i < node->count; i++) {
        if (!stream_health_check_read_word(conf, line, node->args[i])) {
            return false;
        }
    }
    if (!health_words_check(conf, node, &line->health) ||
        !store_sync_check(conf, node, &line->sync)) {
        return false;
    }
    *vec_add(&here->lines, conf->arena, struct check_line *) = line;
    return true;
}

static bool health_check_finish(struct conf_scope *scope, void *settings)
{
    const struct check_settings *here = settings;
    struct conf *conf = scope->conf;
    bool is_ok = true;

    vec_each(struct check_line *const, line, &here->lines) {
        (*line)->health.timeout_ms = here->timeout_ms;
        (*line)->server = scope_stream_server(scope);
        (*line)->health.error_log = &(*line)->server->error_log;
        *vec_add(all_lines(conf), conf->arena, struct check_line *) = *line;
    }
    return is_ok;
}

static void health_check_fresh(void *settings)
{
    ((struct check_settings *) settings)->lines = (struct vec){0};
}

/* ---- after the configuration was read ---- */

static void make_speak(struct conf *conf, struct check_line *line)
{
    static const struct text_probe datagram = {.send = STR_INIT(DATAGRAM_TEXT)};
    struct health_settings *health = &line->health;
    const struct stream_server *server = line->server;

    health->type = health->is_datagram ? STR("udp") : STR("tcp");
    if (line->match != NULL || health->is_datagram) {
        health->speak = text_probe_speak;
        health->speak_settings = line->match != NULL ? &line->match->text : &datagram;
    }
    if (server->tls != NULL && server->tls->context != NULL && !health->is_datagram) {
        health->tls = tls_client_group_link(conf->arena, server->tls, server->group, STR_NONE);
    }
}

static bool health_check_end(struct conf *conf, struct stream_main *main)
{
    if (!health_match_check_all(conf, &stream_matches)) {
        return false;
    }
    vec_each(struct check_line *const, line, all_lines(conf)) {
        const struct stream_server *server = (*line)->server;

        if (server->group == NULL) {
            return conf_error(
                conf, (*line)->node,
                "\"health_check\" needs \"proxy_pass\" to a group of servers, without "
                "variables, in the same server");
        }
        if ((*line)->health.is_datagram && (*line)->match != NULL && !(*line)->match->has_send) {
            return conf_error(conf, (*line)->node, "match \"%.*s\" for \"udp\" needs \"send\"",
                              STR_ARG((*line)->match->block.name));
        }
        make_speak(conf, *line);
        if (!health_add(conf, (*line)->node, server->group, &(*line)->health) ||
            !health_sync_add(conf, (*line)->node, &(*line)->sync, server->group,
                             &(*line)->health)) {
            return false;
        }
    }
    return true;
}

#define IN_BOTH IN_STREAM | IN_STREAM_SERVER
static const struct directive rows[] = {
    {"health_check", IN_STREAM_SERVER, CUSTOM(health_check_apply), ARGS(0, ARGS_ANY),
     .repeat = REPEAT_CUSTOM,
     .syntax = "[interval=time] [jitter=time] [fails=number] [passes=number] [mandatory "
               "[persistent]] [match=name] [port=number] [udp] [sync[=store]] [sync_interval=time]",
     .doc =
         "Enables health checks of the servers of the group to which `proxy_pass` of this server "
         "leads. One worker probes each server on behalf of all workers: by default every 5s; one "
         "failed probe marks a server unhealthy, one successful probe healthy. A probe succeeds if "
         "the connection is established and the response fits `match`. With `udp` and without "
         "`match`, it succeeds if the datagram \"" DATAGRAM_TEXT
         "\" is not refused within a second. With `mandatory`, a server is not used before its "
         "first successful probe; with `persistent`, its state survives a reload. If a group has "
         "several checks, a server that fails one of them is unhealthy. With `sync`, one of the "
         "nodes that share a redis_store probes a server on behalf of all."},
    {"health_check_timeout", IN_BOTH, MSEC(struct check_settings, timeout_ms), .initial = "5s",
     .min = 1, .max = INT32_MAX, .doc = "Timeout for a probe, including the time to connect."},
    {"match", IN_STREAM, FREE_FORM(match_apply), ARGS(1, 1), .repeat = REPEAT_CUSTOM,
     .syntax = "name",
     .doc = "Defines a healthy response: `send string` sends data first; `expect string | ~ "
            "regex | ~* regex` must match in the first 64k of the response. `\\xHH` in a string "
            "is a byte."},
    {0},
};

static const struct stream_module hooks = {.end = health_check_end};

const struct module ngx_stream_upstream_hc_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_upstream_hc_module",
    .kind = MODULE_STREAM,
    .table = {.rows = rows,
              .contexts = IN_STREAM | IN_STREAM_SERVER,
              .size = sizeof(struct check_settings),
              .finish = health_check_finish,
              .fresh = health_check_fresh},
    .hooks = &hooks,
};
