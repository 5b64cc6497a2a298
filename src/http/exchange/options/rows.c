/* The options that all protocols towards backends share: their words, and the rows that read their
 * arguments themselves. */
#include "http/exchange/options/rows.h"

#include "base/parse.h"
#include "http/files/access_mode.h"
#include "http/routing/settings.h"
#include "http/request/temp_file.h"

/* ---- words ---- */

const struct directive_word next_upstream_words[] = {EXCHANGE_TRY_WORDS,
                                                     EXCHANGE_GATEWAY_WORDS,
                                                     {"denied", NEXT_DENIED},
                                                     {NULL, 0}};
const struct directive_word cgi_next_upstream_words[] = {EXCHANGE_TRY_WORDS,
                                                         {"denied", NEXT_DENIED},
                                                         {NULL, 0}};
const struct directive_word bare_next_upstream_words[] = {{"error", NEXT_ERROR},
                                                          {"timeout", NEXT_TIMEOUT},
                                                          {"invalid_response", NEXT_INVALID_HEADER},
                                                          {"not_found", NEXT_NOT_FOUND},
                                                          {"off", NEXT_OFF},
                                                          {NULL, 0}};
const struct directive_word ignore_headers_words[] = {{"X-Accel-Redirect", IGNORE_X_ACCEL_REDIRECT},
                                                      {"X-Accel-Expires", IGNORE_X_ACCEL_EXPIRES},
                                                      {"X-Accel-Limit-Rate",
                                                       IGNORE_X_ACCEL_LIMIT_RATE},
                                                      {"X-Accel-Buffering",
                                                       IGNORE_X_ACCEL_BUFFERING},
                                                      {"X-Accel-Charset", IGNORE_X_ACCEL_CHARSET},
                                                      {"Expires", IGNORE_EXPIRES},
                                                      {"Cache-Control", IGNORE_CACHE_CONTROL},
                                                      {"Set-Cookie", IGNORE_SET_COOKIE},
                                                      {"Vary", IGNORE_VARY},
                                                      {NULL, 0}};

/* ---- the family's table of a module ---- */

struct str exchange_row_prefix(const struct directive *row)
{
    struct str name = str_of(row->name);

    return str_from(name.data, str_find_char(name, '_'));
}

const struct exchange_family *exchange_family_of(const struct conf_scope *scope,
                                                 const struct exchange_settings *settings)
{
    if (settings->family != NULL) {
        return settings->family;
    }
    for (unsigned i = 0; i < scope->conf->table_count; i++) {
        if (scope->settings[i] == settings) {
            return container_of(scope->conf->tables[i].table, struct exchange_family, table);
        }
    }
    return NULL;
}

bool exchange_is_set(struct conf_scope *scope, const struct exchange_settings *settings,
                     const struct directive *row, const char *suffix)
{
    const struct exchange_family *family =
        scope->node == NULL ? NULL : exchange_family_of(scope, settings);
    struct str prefix = exchange_row_prefix(row);

    return family != NULL &&
           conf_is_set(scope, family->table.key,
                       arena_printf(scope->conf->arena, "%.*s%s", STR_ARG(prefix), suffix).data);
}

static bool invalid_value(struct conf_scope *scope, const struct conf_node *node)
{
    return conf_error(scope->conf, node, "\"%.*s\" directive invalid value",
                      STR_ARG(node->args[0]));
}

/* ---- HTTP/3 ---- */

bool exchange_quic_host_key_apply(struct conf_scope *scope, const struct directive *row,
                                  struct conf_node *node, void *settings)
{
    struct exchange_settings *own = settings;

    return tls_option_quic_host_key(scope->conf, node, own->http3.host_key_file,
                                    &own->http3.host_key);
}

/* ---- temporary files ---- */

bool exchange_temp_path_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *settings)
{
    struct exchange_settings *own = settings;

    return temp_path_read(scope, node, &own->temp_path);
}

bool exchange_max_temp_file_size_apply(struct conf_scope *scope, const struct directive *row,
                                       struct conf_node *node, void *settings)
{
    int64_t size;

    if (!parse_offset(node->args[1], &size) || size < 0) {
        return invalid_value(scope, node);
    }
    ((struct exchange_settings *) settings)->max_temp_file_size = (uint64_t) size;
    return true;
}

/* ---- *_store ---- */

bool exchange_store_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings)
{
    struct exchange_settings *own = settings;

    own->store_path = NULL;
    own->stores = !str_is(node->args[1], "off");
    if (!own->stores) {
        return true;
    }
    if ((own->cache != NULL || own->cache_name != NULL) &&
        exchange_is_set(scope, settings, row, "_cache")) {
        return conf_error(scope->conf, node, "\"%s\" directive is incompatible with \"%.*s_cache\"",
                          row->name, STR_ARG(exchange_row_prefix(row)));
    }
    own->cache = NULL;
    own->cache_name = NULL;
    if (str_is(node->args[1], "on")) {
        return true;
    }
    struct str path = node->args[1];
    if (path.len == 0 || path.data[0] != '$') {
        path = conf_full_name(scope->conf, path, false);
    }
    own->store_path = template_compile(scope->conf, node, path);
    return own->store_path != NULL;
}

bool exchange_store_access_apply(struct conf_scope *scope, const struct directive *row,
                                 struct conf_node *node, void *settings)
{
    return access_mode_read(scope, node, &((struct exchange_settings *) settings)->store_access);
}
