/* ngx_http_degradation_module: rejects requests while a worker uses too much memory. */
#include "base/parse.h"
#include "http/request/degraded.h"
#include "http/request/request.h"
#include "http/routing/hooks.h"
#include "server/module.h"
#include "server/process/cells.h"

struct degradation_settings {
    unsigned status; /* 204, 444; 0 = off */
};

static struct settings_key degradation_key;

TYPED_SETTINGS(degradation_settings_at, struct degradation_settings, degradation_key,
               struct http_location)

static enum handler_result degrade(struct request *request)
{
    unsigned status = degradation_settings_at(request->location)->status;

    if (request != request->main || !request_is_degraded(request)) {
        return HANDLER_NEXT;
    }
    counters_mine->limited++;
    return status == 204 ? response_memory(request, 204, STR_NONE, STR_NONE)
                         : request_fail(request, status);
}

static bool degradation_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *settings)
{
    struct str word = node->args[1];
    uint64_t size;

    if (!str_starts(word, STR("sbrk="))) {
        return conf_error(scope->conf, node, "invalid parameter \"%.*s\"", STR_ARG(word));
    }
    if (!parse_size(str_skip(word, 5), &size)) {
        return conf_error(scope->conf, node, "invalid sbrk size \"%.*s\"", STR_ARG(word));
    }
    http_main_of(scope->conf)->degraded_from = size;
    return true;
}

/* clang-format off */
static const struct directive_word status_words[] = {
    {"204", 204},
    {"444", 444},
    {"off", 0},
    {NULL, 0},
};
/* clang-format on */

static const struct directive degradation_rows[] = {
    {"degradation", IN_HTTP, CUSTOM(degradation_apply), ARGS(1, 1), .repeat = REPEAT_CUSTOM,
     .syntax = "sbrk=size",
     .doc = "Amount of memory above which a worker is degraded: anonymous memory in RAM "
            "that is not shared, in bytes; it is read once a second. 0: no limit."},
    {"degrade", IN_HTTP_ALL, ENUM(struct degradation_settings, status, status_words),
     .initial = "off",
     .doc = "Response to requests in a worker that is degraded: 204, without a body, or "
            "444, which closes the connection."},
    {0},
};

static const struct phase_hook degradation_phases[] = {
    {.phase = PHASE_PREACCESS,
     .name = "degradation",
     .run = degrade,
     .when = SETTING(degradation_key, struct degradation_settings, status)},
    {.run = NULL},
};
static const struct http_module degradation_hooks = {.phases = degradation_phases};

const struct module ngx_http_degradation_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_degradation_module",
    .kind = MODULE_HTTP,
    .table = {.key = &degradation_key,
              .rows = degradation_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct degradation_settings)},
    .hooks = &degradation_hooks,
};
