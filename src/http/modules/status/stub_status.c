/* ngx_http_stub_status_module: counters of the service on a page, and as variables. */
#include "base/parse.h"
#include "http/routing/hooks.h"
#include "http/request/request.h"
#include "http/variables/variables.h"
#include "net/shards/listener.h"
#include "server/generation.h"
#include "server/module.h"

/* What a page has in addition to nginx's lines. */
enum page {
    PAGE_PLAIN,
    PAGE_REQUEST_TIME, /* Tengine's column */
    PAGE_SHARDS,       /* a line per slot of the listening sockets */
};

#define PAGE_SIZE 400  /* text, and at most ten numbers of 20 digits */
#define SHARD_SIZE 160 /* per slot */

static inline char *put_number(char *at, struct str before, uint64_t number)
{
    return format_uint(str_put(at, before), number);
}

static char *lay_out_shards(char *at)
{
    at = put_number(at, STR("Steered: "), shard_steerings());
    at = str_put(at, STR("\nslot own taken adopted in_vain\n"));
    for (unsigned slot = 0; slot < generation_now->slots; slot++) {
        struct shard_counts counts;

        shard_counts(slot, &counts);
        at = put_number(at, STR(""), slot);
        at = put_number(at, STR(" "), counts.own);
        at = put_number(at, STR(" "), counts.taken);
        at = put_number(at, STR(" "), counts.adopted);
        at = put_number(at, STR(" "), counts.in_vain);
        at = str_put(at, STR("\n"));
    }
    return at;
}

static struct str lay_out_page(struct arena *arena, enum page page)
{
    bool has_time = page == PAGE_REQUEST_TIME;
    struct slot_counters sum;
    char *buffer =
        arena_text(arena,
                   PAGE_SIZE + (page == PAGE_SHARDS ? generation_now->slots * SHARD_SIZE : 0));
    char *at = buffer;

    counters_sum(&sum);
    at = put_number(at, STR("Active connections: "), sum.active);
    at = str_put(at, STR(" \nserver accepts handled requests"));
    at = str_put(at, has_time ? STR(" request_time\n") : STR("\n"));
    at = put_number(at, STR(" "), sum.accepted);
    at = put_number(at, STR(" "), sum.handled);
    at = put_number(at, STR(" "), sum.requests);
    if (has_time) {
        at = put_number(at, STR(" "), sum.request_time_ms);
        at = str_put(at, STR("\n"));
    } else {
        at = str_put(at, STR(" \n"));
    }
    at = put_number(at, STR("Reading: "), sum.reading);
    at = put_number(at, STR(" Writing: "), sum.writing);
    at = put_number(at, STR(" Waiting: "), sum.waiting);
    at = str_put(at, STR(" \n"));
    return str_from(buffer, page == PAGE_SHARDS ? lay_out_shards(at) : at);
}

static enum handler_result stub_status_answer(struct request *request, enum page page)
{
    if ((request->method & (METHOD_GET | METHOD_HEAD)) == 0) {
        return request_fail(request, 405);
    }
    return response_memory(request, 200, STR("text/plain"), lay_out_page(&request->arena, page));
}

static enum handler_result answer_nginx(struct request *request)
{
    return stub_status_answer(request, PAGE_PLAIN);
}

static enum handler_result answer_tengine(struct request *request)
{
    return stub_status_answer(request, PAGE_REQUEST_TIME);
}

static enum handler_result answer_shards(struct request *request)
{
    return stub_status_answer(request, PAGE_SHARDS);
}

/* nginx accepts any word and ignores it; Tengine requires on or off. */
static bool stub_status_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *settings)
{
    struct str word = node->count > 1 ? node->args[1] : STR("on");

    if (str_equal_nocase(word, STR("off"))) {
        return true;
    }
    content_set(scope_location(scope),
                str_equal_nocase(word, STR("request_time")) ? answer_tengine
                : str_equal_nocase(word, STR("shards"))     ? answer_shards
                                                            : answer_nginx,
                NULL);
    return true;
}

/* data: offset of the number in struct slot_counters. */
static bool get_counter(struct variable_env *env, const struct variable *variable, struct str *out)
{
    struct slot_counters sum;

    counters_sum(&sum);
    return variable_give_number(env, out, *(uint64_t *) (void *) ((char *) &sum + variable->data));
}

#define COUNTER(text, member, words)                                                               \
    {                                                                                              \
        .name = STR_INIT(text), .doc = words, .get = get_counter,                                  \
        .data = offsetof(struct slot_counters, member), .flags = VARIABLE_VOLATILE,                \
        .kind = &any_subject                                                                       \
    }

static const struct variable stub_status_variables[] = {
    COUNTER("connections_active", active, "Open connections of clients."),
    COUNTER("connections_reading", reading, "Connections on which a request header is read."),
    COUNTER("connections_writing", writing,
            "Connections on which a request is processed or a response is sent."),
    COUNTER("connections_waiting", waiting, "Idle connections of clients."),
    COUNTER("limits_reached", limited,
            /* Also counts what was dropped because of a limit, such as log lines. */
            "Number of requests and connections that were refused because of a limit."),
    {.name = {NULL, 0}},
};

static const struct directive stub_status_rows[] = {
    {"stub_status", IN_SERVER | IN_LOCATION, CUSTOM(stub_status_apply), ARGS(0, 1),
     .repeat = REPEAT_CUSTOM, .syntax = "[on | off | request_time | shards]",
     .doc = "Responds with counters of the server. `request_time` adds the sum of all "
            "request times in milliseconds, as in Tengine. `shards` adds statistics of the "
            "listening sockets' shards: connections accepted by their own workers, by "
            "other workers because those were busy, and after their slot had been retired; "
            "and how often a worker was woken without a connection to accept."},
    {0},
};

static const struct http_module stub_status_hooks = {.variables = stub_status_variables};

const struct module ngx_http_stub_status_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_stub_status_module",
    .kind = MODULE_HTTP,
    .table = {.rows = stub_status_rows},
    .hooks = &stub_status_hooks,
};
