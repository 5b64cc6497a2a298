/* Apply functions of ngx_http_core_module, and the enter functions of blocks. */
#ifndef HTTP_CONFIG_CORE_VALUES_H
#define HTTP_CONFIG_CORE_VALUES_H

#include "conf/directive.h"
#include "http/routing/settings.h"
#include "server/generation.h"

#define CORE_VALUE(name)                                                                           \
    bool name(struct conf_scope *scope, const struct directive *row, struct conf_node *node,       \
              void *settings)

/* blocks.c */
CORE_VALUE(http_enter);
CORE_VALUE(server_enter);
CORE_VALUE(limit_except_enter);
void location_fresh(void *settings);

/* core_finish.c: derived values. */
bool server_settings_finish(struct conf_scope *scope, void *settings);
bool location_settings_finish(struct conf_scope *scope, void *settings);
bool body_settings_finish(struct conf_scope *scope, void *settings);
bool connection_settings_finish(struct conf_scope *scope, void *settings);
bool response_settings_finish(struct conf_scope *scope, void *settings);

/* blocks.c */
bool http_configured(struct conf *conf, struct generation *generation);
void http_worker_quit(struct generation *generation);
void http_worker_abort(struct generation *generation);

/* core_values.c */
struct mime_types *types_default(struct conf *conf);
CORE_VALUE(internal_apply);
CORE_VALUE(root_apply);
CORE_VALUE(alias_apply);
CORE_VALUE(types_apply);
CORE_VALUE(aio_apply);
CORE_VALUE(directio_apply);
CORE_VALUE(disable_symlinks_apply);
CORE_VALUE(open_file_cache_apply);
CORE_VALUE(client_body_temp_path_apply);
CORE_VALUE(keepalive_timeout_apply);
CORE_VALUE(min_rate_apply);
CORE_VALUE(error_log_tag_apply);
CORE_VALUE(error_page_apply);
CORE_VALUE(satisfy_any_apply);
CORE_VALUE(server_tag_apply);
CORE_VALUE(server_info_check);
CORE_VALUE(check_header_buffers);

#endif
