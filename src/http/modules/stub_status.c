/* ngx_http_stub_status_module: counters of the whole service on a page, and as variables. */
#include "base/parse.h"
#include "http/hooks.h"
#include "http/request.h"
#include "http/variables.h"
#include "server/generation.h"
#include "server/module.h"

/* Texts, and at most ten numbers of 20 digits. */
#define PAGE_ROOM 400

static inline char *put_number(char *at, struct str before, uint64_t number)
{
    return format_uint(str_put(at, before), number);
}

/* The page; Tengine's has one more column. */
static struct str lay_out_page(struct arena *arena, bool has_time)
{
    struct slot_counters sum;
    char *room = arena_text(arena, PAGE_ROOM);
    char *at = room;

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
    return str_from(room, at);
}

static enum flow answer(struct request *request, bool has_time)
{
    if ((request->method & (METHOD_GET | METHOD_HEAD)) == 0) {
        return request_fail(request, 405);
    }
    return response_memory(request, 200, STR("text/plain"),
                           lay_out_page(&request->arena, has_time));
}

static enum flow answer_nginx(struct request *request)
{
    return answer(request, false);
}

static enum flow answer_tengine(struct request *request)
{
    return answer(request, true);
}

/* nginx takes any word and overlooks it; Tengine wants on or off. */
static bool stub_status_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *settings)
{
    struct str word = node->count > 1 ? node->args[1] : STR("on");

    (void) row;
    (void) settings;
    if (!str_equal_nocase(word, STR("off"))) {
        scope_location(scope)->handler =
            str_equal_nocase(word, STR("request_time")) ? answer_tengine : answer_nginx;
    }
    return true;
}

/* data: offset of the number in struct slot_counters. */
static bool get_counter(struct variable_env *env, const struct variable *variable, struct str *out)
{
    struct slot_counters sum;

    counters_sum(&sum);
    return variable_give_number(env, out, *(uint64_t *) (void *) ((char *) &sum + variable->data));
}

#define COUNTER(text, member)                                                                      \
    {                                                                                              \
        .name = STR_INIT(text), .get = get_counter,                                                \
        .data = offsetof(struct slot_counters, member), .flags = VARIABLE_VOLATILE                 \
    }

static const struct variable stub_status_variables[] = {
    COUNTER("connections_active", active),
    COUNTER("connections_reading", reading),
    COUNTER("connections_writing", writing),
    COUNTER("connections_waiting", waiting),
    COUNTER("limits_reached", limited), /* by a client, who was refused or left for it */
    {.name = {NULL, 0}},
};

static const struct directive stub_status_rows[] = {
    {"stub_status", IN_SERVER | IN_LOCATION, CUSTOM(stub_status_apply), ARGS(0, 1),
     .repeat = REPEAT_CUSTOM, .syntax = "[on | off | request_time]",
     .doc = "Answers with counters of the service. request_time adds Tengine's column: the sum of "
            "all request times in milliseconds."},
    {0},
};

static struct directive_table stub_status_table = {.rows = stub_status_rows};
static struct directive_table *const stub_status_tables[] = {&stub_status_table, NULL};
static const struct http_module stub_status_hooks = {.variables = stub_status_variables};

const struct module ngx_http_stub_status_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_stub_status_module",
    .kind = MODULE_HTTP,
    .tables = stub_status_tables,
    .hooks = &stub_status_hooks,
};
