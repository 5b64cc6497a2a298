/* ngx_events_module, ngx_event_core_module and ngx_epoll_module: the events block. */
#include "base/parse.h"
#include "config.h"
#include "net/addr/addr.h"
#include "server/module.h"

struct epoll_settings {
    int64_t epoll_events;
    int64_t worker_aio_requests;
};

#define REQUESTS_MAX 1000000 /* of worker_requests: each request may need a stack */

static struct settings_key events_key;
static struct settings_key epoll_key;

static bool apply_worker_connections(struct conf_scope *scope, const struct directive *row,
                                     struct conf_node *node, void *settings)
{
    uint64_t number;

    if (!parse_uint(node->args[1], &number) || number > INT32_MAX) {
        return conf_error(scope->conf, node, "invalid number \"%.*s\"", STR_ARG(node->args[1]));
    }
    ((struct events_settings *) settings)->worker_connections = (int64_t) number;
    return true;
}

static bool apply_worker_requests(struct conf_scope *scope, const struct directive *row,
                                  struct conf_node *node, void *settings)
{
    uint64_t number = 0;

    if (!str_is(node->args[1], "auto") &&
        (!parse_uint(node->args[1], &number) || number == 0 || number > REQUESTS_MAX)) {
        return conf_error(scope->conf, node,
                          "invalid number \"%.*s\", expected \"auto\" or 1 to %d",
                          STR_ARG(node->args[1]), REQUESTS_MAX);
    }
    ((struct events_settings *) settings)->worker_requests = (int64_t) number;
    return true;
}

/* Only epoll is built. It stands in for poll and select; any other method is refused. */
static bool apply_use(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings)
{
    if (!str_is(node->args[1], "epoll") && !str_is(node->args[1], "poll") &&
        !str_is(node->args[1], "select")) {
        return conf_error(scope->conf, node, "invalid event type \"%.*s\"", STR_ARG(node->args[1]));
    }
    return true;
}

static bool apply_reuse_port(struct conf_scope *scope, const struct directive *row,
                             struct conf_node *node, void *settings)
{
    ((struct events_settings *) settings)->reuse_port_set = !conf_is_default(scope);
    return true;
}

#ifdef WITH_DEBUG
static void debug_add(struct conf *conf, struct events_settings *events, const struct cidr *cidr)
{
    *vec_add(&events->debug_connections, conf->arena, struct cidr) = *cidr;
}

/* Adds a network with this one address. */
static void debug_add_addr(struct conf *conf, struct events_settings *events,
                           const struct addr *addr)
{
    struct cidr cidr;
    char text[ADDR_TEXT_MAX];
    size_t len = addr_format(addr, false, text);

    if (cidr_parse((struct str){text, len}, &cidr)) {
        debug_add(conf, events, &cidr);
    }
}
#endif

static bool apply_debug_connection(struct conf_scope *scope, const struct directive *row,
                                   struct conf_node *node, void *settings)
{
#ifdef WITH_DEBUG
    struct conf *conf = scope->conf;
    struct str text = node->args[1];
    struct cidr cidr;
    struct addr_list list;

    if (cidr_parse(text, &cidr)) {
        if (cidr.has_low_bits) {
            conf_warn(conf, node, "low address bits of %.*s are meaningless", STR_ARG(text));
        }
        debug_add(conf, settings, &cidr);
        return true;
    }
    if (!addr_parse(conf->arena, text, 80, false, &list)) {
        return conf_error(conf, node, "%s in debug_connection \"%.*s\"", list.error, STR_ARG(text));
    }
    for (size_t i = 0; i < list.count; i++) {
        debug_add_addr(conf, settings, &list.items[i]);
    }
#else
    conf_warn(scope->conf, node,
              "\"debug_connection\" is ignored, you need to rebuild nginx using --with-debug "
              "option to enable it");
#endif
    return true;
}

static bool enter_events(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    struct conf_scope *inner = conf_enter(scope, node, IN_EVENTS, NULL, NULL);

    if (inner == NULL) {
        return false;
    }
    struct generation *generation = scope->conf->generation;
    struct events_settings *events = conf_settings(inner, &events_key);
    const struct epoll_settings *epoll = conf_settings(inner, &epoll_key);

    events->epoll_events = epoll->epoll_events;
    events->worker_aio_requests = epoll->worker_aio_requests;
    generation->events = events;
    return true;
}

static const struct directive block_rows[] = {
    {"events", IN_MAIN, BLOCK(enter_events),
     .doc = "Contains the directives that control how connections are accepted and processed."},
    {0},
};

static const struct directive events_rows[] = {
    {"worker_connections", IN_EVENTS,
     CUSTOM_FIELD(struct events_settings, worker_connections, apply_worker_connections), ARGS(1, 1),
     .initial = "512", .syntax = "<number>",
     .doc = "Largest number of simultaneous connections of a worker, including those to upstream "
            "servers."},
    {"connections", IN_EVENTS,
     CUSTOM_FIELD(struct events_settings, worker_connections, apply_worker_connections), ARGS(1, 1),
     .syntax = "<number>", .replaced_by = "worker_connections",
     .doc = "Older name of worker_connections."},
    {"worker_requests", IN_EVENTS,
     CUSTOM_FIELD(struct events_settings, worker_requests, apply_worker_requests), ARGS(1, 1),
     .initial = "auto", .syntax = "auto | <number>",
     .doc = "Largest number of requests that a worker processes at the same time; with HTTP/2, "
            "responses that wait for their clients count as well. A request beyond the limit is "
            "answered with 503, or its stream is refused (REFUSED_STREAM). A part of the limit, "
            "as large as worker_connections but at most half, is reserved for connections "
            "without a request in progress. `auto` allows 32 KB for each request from an eighth "
            "of the memory, divided among the workers: at most 65536 requests, and at least two "
            "for each connection."},
    {"use", IN_EVENTS, CUSTOM(apply_use), ARGS(1, 1), .syntax = "<method>",
     .doc = "Method of processing connections. Only epoll is used: poll and select are accepted "
            "and also mean epoll."},
    {"multi_accept", IN_EVENTS, FLAG(struct events_settings, multi_accept), .initial = "off",
     .doc = "Whether a worker accepts all waiting connections in one iteration of its event "
            "loop. When off, it accepts one or, under load, a limited number of them."},
    {"accept_mutex", IN_EVENTS, FLAG(struct events_settings, accept_mutex), .initial = "off",
     .doc = "Accepted and ignored: the kernel wakes workers that share a socket one at a time, "
            "and with a socket for each worker no mutex is needed."},
    {"accept_mutex_delay", IN_EVENTS, MSEC(struct events_settings, accept_mutex_delay_ms),
     .initial = "500ms", .doc = "Accepted and ignored, as accept_mutex is."},
    {"reuse_port", IN_EVENTS, FLAG(struct events_settings, reuse_port), .initial = "off",
     .apply = apply_reuse_port,
     .doc = "Whether each worker has its own listening socket (SO_REUSEPORT). If the directive "
            "is not set, this is enabled when there is more than one worker."},
    {"stall_threshold", IN_EVENTS, MSEC(struct events_settings, stall_threshold_ms),
     .initial = "1000ms",
     .doc = "An iteration of a worker's event loop that takes longer than this time is logged "
            "and counted, because the worker serves nothing else meanwhile. 0 disables the check."},
    {"debug_connection", IN_EVENTS, CUSTOM(apply_debug_connection), ARGS(1, 1),
     .repeat = REPEAT_APPEND, .syntax = "<address> | <CIDR> | unix:",
     .doc = "Logs connections from these clients at level debug. Requires a build configured "
            "`--with-debug`."},
    {0},
};

static const struct directive epoll_rows[] = {
    {"epoll_events", IN_EVENTS, NUMBER(struct epoll_settings, epoll_events), .initial = "512",
     .min = 1, .max = 65536,
     .doc = "Largest number of events returned by one call of epoll_wait()."},
    {"worker_aio_requests", IN_EVENTS, NUMBER(struct epoll_settings, worker_aio_requests),
     .initial = "32", .min = 1, .max = 65536,
     .doc = "Largest number of outstanding asynchronous file reads of a worker."},
    {0},
};

const struct module ngx_events_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_events_module",
    .kind = MODULE_CORE,
    .table = {.rows = block_rows, .contexts = IN_MAIN},
};

const struct module ngx_event_core_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_event_core_module",
    .kind = MODULE_EVENT,
    .table = {.key = &events_key,
              .rows = events_rows,
              .contexts = IN_EVENTS,
              .size = sizeof(struct events_settings)},
};

const struct module ngx_epoll_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_epoll_module",
    .kind = MODULE_EVENT,
    .table = {.key = &epoll_key,
              .rows = epoll_rows,
              .contexts = IN_EVENTS,
              .size = sizeof(struct epoll_settings)},
};
