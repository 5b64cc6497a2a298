/* ngx_http_internal_redirect_module: an internal redirect after limits and access have been
 * checked. */
#include "http/request/request.h"
#include "http/routing/hooks.h"
#include "server/module.h"

struct internal_redirect_settings {
    struct template *uri; /* NULL = none */
};

static struct settings_key internal_redirect_key;

TYPED_SETTINGS(internal_redirect_settings_at, struct internal_redirect_settings,
               internal_redirect_key, struct http_location)

/* Redirects to "/path?args" or "@name"; an empty value does nothing. */
static enum handler_result internal_redirect(struct request *request)
{
    struct str uri, args;
    struct str text =
        template_text(internal_redirect_settings_at(request->location)->uri, &request->env);

    if (text.len == 0) {
        return HANDLER_NEXT;
    }
    if (text.data[0] == '@') {
        return request_redirect_named(request, text);
    }
    if (text.data[0] != '/' || !request_split_uri(request, text, &uri, &args)) {
        log_error(&request->log, 0, "invalid URI \"%.*s\" in \"internal_redirect\"", STR_ARG(text));
        return request_fail(request, 500);
    }
    return request_redirect(request, uri, args.data == NULL ? request->args : args);
}

static const struct directive internal_redirect_rows[] = {
    {"internal_redirect", IN_SERVER | IN_LOCATION, TEMPLATE(struct internal_redirect_settings, uri),
     .inherit = INHERIT_NEVER,
     .doc = "Redirects internally to another URI or to a named location after limits and "
            "access have been checked. An empty value disables it. The arguments of the "
            "request are kept if the URI has none."},
    {0},
};

static const struct phase_hook internal_redirect_phases[] = {
    {.phase = PHASE_PRECONTENT,
     .name = "internal_redirect",
     .before = "try_files",
     .run = internal_redirect,
     .when = SETTING(internal_redirect_key, struct internal_redirect_settings, uri)},
    {.run = NULL},
};
static const struct http_module internal_redirect_hooks = {.phases = internal_redirect_phases};

const struct module ngx_http_internal_redirect_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_internal_redirect_module",
    .kind = MODULE_HTTP,
    .table = {.key = &internal_redirect_key,
              .rows = internal_redirect_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct internal_redirect_settings)},
    .hooks = &internal_redirect_hooks,
};
