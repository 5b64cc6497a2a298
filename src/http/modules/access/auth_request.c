/* ngx_http_auth_request_module: access decided by the response of a subrequest. */
#include "http/exchange/exchange.h"
#include "http/request/request.h"
#include "http/request/subrequest.h"
#include "http/routing/hooks.h"
#include "server/module.h"

/* auth_request_set: evaluated in the subrequest after its response, and assigned. */
struct auth_assignment {
    struct variable *variable;
    struct template *value;
};

struct auth_request_settings {
    struct str uri;         /* of the subrequest; "off" = none */
    struct vec assignments; /* struct auth_assignment */
};

static struct settings_key auth_request_key;

TYPED_SETTINGS(auth_request_settings_at, struct auth_request_settings, auth_request_key,
               struct http_location)

/* ---- the subrequest's response ---- */

/* asked: the subrequest, here and below. */
static void assign_variables(const struct auth_request_settings *settings, struct request *asked)
{
    vec_each(const struct auth_assignment, assignment, &settings->assignments) {
        variable_assign(&asked->env, assignment->variable,
                        template_text(assignment->value, &asked->env));
    }
}

/* Copies WWW-Authenticate to the client's response. Returns the number of fields. */
static unsigned pass_www_authenticate(struct request *request, const struct fields *from)
{
    unsigned count = 0;

    fields_each(field, from) {
        if (field->id == FIELD_WWW_AUTHENTICATE && !field->is_removed) {
            fields_add_known(&request->response.fields, &request->arena, FIELD_WWW_AUTHENTICATE,
                             field->value);
            count++;
        }
    }
    return count;
}

/* Responds with 401 and the WWW-Authenticate of the subrequest, or of the backend's response if an
 * error page replaced that. */
static enum handler_result demand_credentials(struct request *request, const struct request *asked)
{
    if (pass_www_authenticate(request, &asked->response.fields) == 0 && asked->exchange != NULL) {
        pass_www_authenticate(request, &asked->exchange->response.fields);
    }
    return request_fail(request, 401);
}

static enum handler_result judge_answer(struct request *request, const struct request *asked)
{
    unsigned status = asked->response.status;

    if (status >= 200 && status < 300) {
        return HANDLER_ALLOW;
    }
    if (status == 401) {
        return demand_credentials(request, asked);
    }
    if (status == 403) {
        return request_fail(request, 403);
    }
    struct log log = request->log;
    log.action =
        asked->exchange != NULL ? "sending to client" : NULL; /* the same wording as nginx */
    log_error(&log, 0, "auth request unexpected status: %u", status);
    return request_fail(request, 500);
}

/* ---- the phase ---- */

/* MAY WAIT. */
static enum handler_result auth_request_check(struct request *request)
{
    const struct auth_request_settings *settings = auth_request_settings_at(request->location);
    struct subrequest sub = {
        .uri = settings->uri,
        .output = SUBREQUEST_NONE,
        .method = STR("GET"),
    };

    switch (subrequest_run(request, &sub)) {
    case HANDLER_DONE:
        break;
    case HANDLER_FAIL:
        return request_fail(request, 500);
    case HANDLER_CUT: /* the subrequest was closed without a response (444), so this request is, too
                       */
        request->response.status = sub.request->response.status;
        return HANDLER_CLOSED;
    default:
        return HANDLER_CLOSED;
    }
    assign_variables(settings, sub.request);
    return judge_answer(request, sub.request);
}

static bool auth_request_is_active(const struct http_location *location)
{
    return !str_is(auth_request_settings_at(location)->uri, "off");
}

/* ---- directives ---- */

/* The value before any assignment. */
static bool get_unassigned(struct variable_env *env, const struct variable *variable,
                           struct str *out)
{
    return false;
}

static bool set_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings)
{
    struct conf *conf = scope->conf;
    struct variable *variable = variable_assignable_word(conf, node, node->args[1]);
    struct template *value = template_compile(conf, node, node->args[2]);

    if (variable == NULL || value == NULL) {
        return false;
    }
    if (variable->get == NULL) {
        variable->get = get_unassigned;
        variable->kind = &request_subject;
    }
    *vec_add(&((struct auth_request_settings *) settings)->assignments, conf->arena,
             struct auth_assignment) = (struct auth_assignment){variable, value};
    return true;
}

#define S struct auth_request_settings
static const struct directive auth_request_rows[] = {
    {"auth_request", IN_HTTP_ALL, STRING(S, uri), .initial = "off", .syntax = "uri | off",
     .doc = "Authorizes requests by the result of a subrequest to this URI: a status of 2xx "
            "allows access, 401 and 403 deny it, and the WWW-Authenticate fields of a 401 "
            "are passed to the client; any other status is an error. The subrequest is a "
            "GET without a body."},
    {"auth_request_set", IN_HTTP_ALL, CUSTOM_FIELD(S, assignments, set_apply), ARGS(2, 2),
     .repeat = REPEAT_APPEND, .syntax = "$variable value",
     .doc = "Sets a variable when the authorization subrequest is complete. The value may "
            "contain variables of its response, such as `$upstream_http_NAME`."},
    {0},
};
#undef S

static const struct phase_hook auth_request_phases[] = {
    {.phase = PHASE_ACCESS,
     .name = "auth_request",
     .run = auth_request_check,
     .is_active = auth_request_is_active},
    {.run = NULL},
};
static const struct http_module auth_request_hooks = {.phases = auth_request_phases};

const struct module ngx_http_auth_request_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_auth_request_module",
    .kind = MODULE_HTTP,
    .table = {.key = &auth_request_key,
              .rows = auth_request_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct auth_request_settings)},
    .hooks = &auth_request_hooks,
};
