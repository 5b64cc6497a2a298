/* What is derived from a location's settings once its block was read: the Server field, linked
 * handlers, the log's level. */
#include "base/fs.h"
#include "config.h"
#include "http/config/core_values.h"
#include "http/routing/hooks.h"
#include "http/routing/settings.h"

#define SERVER_NAME "nginx"
#define SERVER_FULL SERVER_NAME "/" NGINX_COMPAT_VERSION

/* The Server field's value by server_tokens. */
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

bool location_settings_finish(struct conf_scope *scope, void *settings)
{
    struct http_location *location = settings;
    struct generation *generation = scope->conf->generation;

    location->settings = scope->settings;
    location->limits_rate =
        !location->limit_rate->is_constant || !str_equal(location->limit_rate->constant, STR("0"));
    if (location->client_body_temp_path == NULL) {
        static const unsigned no_levels[3];
        location->client_body_temp_path =
            generation_path(generation, scope->node, STR(DEFAULT_CLIENT_BODY_TEMP), no_levels);
    }
    if (!location->has_server_info) {
        location->server_info = location->server_admin.len != 0;
    }
    location->server_text = location->hides_server ? STR_NONE
                            : location->server_tag.len != 0
                                ? location->server_tag
                                : server_text(scope->conf->arena, location->server_tokens);

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
