/* ngx_http_auth_require_module: access only if variables have values. */
#include "base/parse.h"
#include "http/request/request.h"
#include "http/routing/hooks.h"
#include "server/module.h"

/* One auth_require directive. */
struct requirement {
    struct vec values; /* struct template * */
    unsigned status;
};

struct auth_require_settings {
    struct vec lines; /* struct requirement */
};

static struct settings_key auth_require_key;

TYPED_SETTINGS(auth_require_settings_at, struct auth_require_settings, auth_require_key,
               struct http_location)

/* auth_require $value ... [error=4xx | 5xx]; */
static bool auth_require_apply(struct conf_scope *scope, const struct directive *row,
                               struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct requirement line = {.status = 403};
    uint64_t status;

    for (unsigned i = 1; i < node->count; i++) {
        struct str word = node->args[i];
        if (str_starts(word, STR("error="))) {
            if (!parse_uint(str_skip(word, 6), &status) || status < 400 || status > 599) {
                return conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(word));
            }
            line.status = (unsigned) status;
            continue;
        }
        struct template *value = template_compile(conf, node, word);
        if (value == NULL) {
            return false;
        }
        *vec_add(&line.values, conf->arena, struct template *) = value;
    }
    if (line.values.count == 0) {
        return conf_error(conf, node, "no values in \"auth_require\"");
    }
    struct vec *lines = &((struct auth_require_settings *) settings)->lines;
    *vec_add(lines, conf->arena, struct requirement) = line;
    return true;
}

static enum handler_result auth_require_check(struct request *request)
{
    vec_each(const struct requirement, line, &auth_require_settings_at(request->location)->lines) {
        vec_each(struct template *const, value, &line->values) {
            struct str text = template_text(*value, &request->env);
            if (text.len == 0 || str_is(text, "0")) {
                log_error(&request->log, 0, "access forbidden by auth_require: \"%.*s\" is not met",
                          STR_ARG((*value)->source));
                return request_fail(request, line->status);
            }
        }
    }
    return HANDLER_ALLOW;
}

static const struct directive auth_require_rows[] = {
    {"auth_require", IN_HTTP_ALL | IN_LIMIT_EXCEPT,
     CUSTOM_FIELD(struct auth_require_settings, lines, auth_require_apply), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_APPEND, .syntax = "$value ... [error=4xx | 5xx]",
     .doc = "Allows a request only if none of the values is empty or `0`; otherwise the "
            "response has this status (403 by default)."},
    {0},
};

static const struct phase_hook auth_require_phases[] = {
    {.phase = PHASE_ACCESS,
     .name = "auth_require",
     .after = "auth_request",
     .run = auth_require_check,
     .when = SETTING(auth_require_key, struct auth_require_settings, lines.count)},
    {.run = NULL},
};
static const struct http_module auth_require_hooks = {.phases = auth_require_phases};

const struct module ngx_http_auth_require_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_auth_require_module",
    .kind = MODULE_HTTP,
    .table = {.key = &auth_require_key,
              .rows = auth_require_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct auth_require_settings)},
    .hooks = &auth_require_hooks,
};
