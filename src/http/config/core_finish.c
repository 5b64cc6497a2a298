/* Values derived from settings after their block was read: limits of headers, the Server field, the
 * temporary path, logs of locations. */
#include "base/fs.h"
#include "config.h"
#include "http/config/core_values.h"
#include "http/routing/body_settings.h"
#include "http/routing/connection_settings.h"
#include "http/routing/file_settings.h"
#include "http/routing/hooks.h"
#include "http/routing/response_settings.h"
#include "http/routing/settings.h"

#define SERVER_NAME "nginx"
#define SERVER_FULL SERVER_NAME "/" NGINX_COMPAT_VERSION

/* The value of the Server field, according to server_tokens. */
static struct str server_text(struct arena *arena, unsigned tokens)
{
    if (tokens == SERVER_TOKENS_OFF) {
        return STR(SERVER_NAME);
    }
    if (tokens == SERVER_TOKENS_BUILD && sizeof(BUILD_NAME) > 1) {
        return arena_printf(arena, "%s (%s)", SERVER_FULL, BUILD_NAME);
    }
    return STR(SERVER_FULL);
}

bool server_settings_finish(struct conf_scope *scope, void *settings)
{
    struct http_server *server = settings;
    const struct buffers *large = &server->large_client_header_buffers;

    server->head_limits = (struct head_limits){
        .line_max = (uint32_t) large->size,
        .head_max = (uint32_t) (large->number * large->size + server->client_header_buffer_size),
        .headers_max = (uint32_t) server->max_headers,
        .ignore_invalid = server->ignore_invalid_headers,
        .underscores = server->underscores_in_headers,
    };
    return true;
}

bool body_settings_finish(struct conf_scope *scope, void *settings)
{
    struct body_settings *bodies = settings;

    if (bodies->client_body_temp_path == NULL) {
        static const unsigned no_levels[3];
        bodies->client_body_temp_path = generation_path(scope->conf->generation, scope->node,
                                                        STR(DEFAULT_CLIENT_BODY_TEMP), no_levels);
    }
    return true;
}

bool connection_settings_finish(struct conf_scope *scope, void *settings)
{
    struct connection_settings *connections = settings;

    connections->limits_rate = !connections->limit_rate->is_constant ||
                               !str_equal(connections->limit_rate->constant, STR("0"));
    return true;
}

bool response_settings_finish(struct conf_scope *scope, void *settings)
{
    struct response_settings *responses = settings;

    if (!responses->has_server_info) {
        responses->server_info = responses->server_admin.len != 0;
    }
    responses->server_text = responses->hides_server ? STR_NONE
                             : responses->server_tag.len != 0
                                 ? responses->server_tag
                                 : server_text(scope->conf->arena, responses->server_tokens);
    return true;
}

bool location_settings_finish(struct conf_scope *scope, void *settings)
{
    struct http_location *location = settings;

    location->settings = scope->settings;
    location->files = conf_settings(scope, &file_settings_key);
    location->bodies = conf_settings(scope, &body_settings_key);
    location->connections = conf_settings(scope, &connection_settings_key);
    location->responses = conf_settings(scope, &response_settings_key);

    struct http_main *main = http_main_of(scope->conf);
    *vec_add(&main->locations, scope->conf->arena, struct http_location *) = location;
    return true;
}

void locations_set_logs(struct http_main *main, struct log_sink *fallback)
{
    vec_each(struct http_location *, location, &main->locations) {
        if ((*location)->error_log == NULL) {
            (*location)->error_log = fallback;
        }
        (*location)->error_log_level = log_chain_level((*location)->error_log);
    }
    vec_each(struct http_listen *, listen, &main->listens) {
        const struct http_location *root = (*listen)->default_server->root;
        (*listen)->log = (struct log){.sinks = root->error_log, .level = root->error_log_level};
    }
}
