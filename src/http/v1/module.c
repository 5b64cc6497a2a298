/* ngx_http_header_filter_module: what heads of HTTP/1 responses say at every place, laid out when the configuration
 * is read. */
#include "http/v1/v1.h"

#include "conf/conf.h"
#include "http/routing/response_settings.h"
#include "server/module.h"

struct settings_key v1_key;

static bool lay_out(struct conf_scope *scope, void *settings)
{
    const struct http_location *location = scope_location(scope);
    struct arena *arena = scope->conf->arena;
    struct v1_texts *texts = settings;
    const struct str field[] = {STR("Server: "), location->responses->server_text, STR("\r\n")};

    texts->server_field =
        location->responses->server_text.len == 0 ? STR("") : arena_join(arena, field, 3);
    const struct str head[] = {STR("HTTP/1.1 200 OK\r\n"), texts->server_field, STR("Date: ")};
    texts->head_200 = arena_join(arena, head, 3);
    return true;
}

const struct module ngx_http_header_filter_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_header_filter_module",
    .kind = MODULE_HTTP,
    .table = {.key = &v1_key,
              .contexts = IN_HTTP_ALL,
              .size = sizeof(struct v1_texts),
              .finish = lay_out},
};
