/* Rows of ngx_http_core_module that parse their arguments themselves. */
#include "http/config/core_values.h"

#include "base/parse.h"
#include "conf/directive.h"
#include "http/config/resolver.h"
#include "http/files/file.h"
#include "http/request/temp_file.h"
#include "http/routing/body_settings.h"
#include "http/routing/connection_settings.h"
#include "http/routing/file_settings.h"
#include "http/routing/response_settings.h"
#include "http/routing/settings.h"

/* Response headers have space for this (v1/wire.c adds up the lines of fixed length). */
enum { SERVER_TAG_MAX = 128 };

/* `root` and `alias` exclude each other, and each is allowed once. */
static bool check_root_or_alias(struct conf_scope *scope, const struct conf_node *node)
{
    bool is_alias = str_is(node->args[0], "alias");
    bool has_root = conf_is_set(scope, &file_settings_key, "root");
    bool has_alias = conf_is_set(scope, &file_settings_key, "alias");
    const struct file_settings *files = conf_settings(scope, &file_settings_key);

    /* The row itself counts as set only after its apply function has returned. */
    if ((has_root && !is_alias) || (has_alias && is_alias)) {
        return conf_error(scope->conf, node, "\"%.*s\" directive is duplicate",
                          STR_ARG(node->args[0]));
    }
    if (has_root || has_alias) {
        return conf_error(scope->conf, node,
                          "\"%.*s\" directive is duplicate, \"%s\" directive was specified earlier",
                          STR_ARG(node->args[0]), files->is_alias ? "alias" : "root");
    }
    return true;
}

/* A path, which may contain variables, made absolute if necessary; without a trailing slash unless
 * it is an alias. */
static struct template *path_template(struct conf_scope *scope, const struct conf_node *node,
                                      struct str path, bool keep_slash)
{
    struct conf *conf = scope->conf;

    if (!keep_slash && path.len > 1 && path.data[path.len - 1] == '/') {
        path.len--;
    }
    bool begins_with_variable = path.len != 0 && path.data[0] == '$';
    if (!begins_with_variable) {
        path = conf_full_name(conf, path, false);
    }
    struct template *template = template_compile(conf, node, path);
    if (template != NULL && !template->is_constant) {
        template->is_path = begins_with_variable;
        template->prefix = conf->prefix;
    }
    return template;
}

bool root_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                void *settings)
{
    struct file_settings *files = settings;

    if (scope != NULL && scope->node != NULL && !check_root_or_alias(scope, node)) {
        return false;
    }
    if (str_find(node->args[1], STR("$document_root")) != NULL ||
        str_find(node->args[1], STR("${document_root}")) != NULL) {
        return conf_error(scope->conf, node,
                          "the $document_root variable cannot be used in the \"root\" directive");
    }
    if (str_find(node->args[1], STR("$realpath_root")) != NULL ||
        str_find(node->args[1], STR("${realpath_root}")) != NULL) {
        return conf_error(scope->conf, node,
                          "the $realpath_root variable cannot be used in the \"root\" directive");
    }
    files->is_alias = false;
    files->root = path_template(scope, node, node->args[1], false);
    return files->root != NULL;
}

bool alias_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                 void *settings)
{
    struct file_settings *files = settings;

    if (!check_root_or_alias(scope, node)) {
        return false;
    }
    if (scope_location(scope)->kind == LOCATION_NAMED) {
        return conf_error(scope->conf, node,
                          "the \"alias\" directive cannot be used inside the named location");
    }
    files->is_alias = true;
    files->root = path_template(scope, node, node->args[1], true);
    return files->root != NULL;
}

bool internal_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                    void *settings)
{
    ((struct http_location *) settings)->is_internal = true;
    return true;
}

/* ---- types ---- */

static bool add_type(struct conf *conf, const struct conf_node *node, struct mime_types *types)
{
    struct str *type = arena_new(conf->arena, struct str);

    *type = node->args[0];
    for (unsigned i = 1; i < node->count; i++) {
        struct str *former = map_put_nocase(&types->by_extension, conf->arena, node->args[i], type);
        if (former != NULL) {
            conf_warn(conf, node,
                      "duplicate extension \"%.*s\", content type: \"%.*s\", "
                      "previous content type: \"%.*s\"",
                      STR_ARG(node->args[i]), STR_ARG(*type), STR_ARG(*former));
        }
    }
    return true;
}

bool types_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                 void *settings)
{
    struct file_settings *files = settings;
    struct conf *conf = scope->conf;
    bool is_ok = true;

    if (!conf_is_set(scope, &file_settings_key, "types")) {
        files->types = arena_new(conf->arena, struct mime_types);
    }
    for (struct conf_node *entry = node->children; entry != NULL; entry = entry->next) {
        if (str_is(entry->args[0], "include") && entry->count == 2) {
            is_ok &= conf_include(conf, node, entry);
            continue;
        }
        is_ok &= add_type(conf, entry, files->types);
    }
    return is_ok;
}

struct mime_types *types_default(struct conf *conf)
{
    static const char *const defaults[][2] = {{"text/html", "html"},
                                              {"image/gif", "gif"},
                                              {"image/jpeg", "jpg"}};
    struct mime_types *types = arena_new(conf->arena, struct mime_types);

    for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++) {
        struct str *type = arena_new(conf->arena, struct str);
        *type = str_of(defaults[i][0]);
        map_put_nocase(&types->by_extension, conf->arena, str_of(defaults[i][1]), type);
    }
    return types;
}

/* ---- files ---- */

bool aio_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
               void *settings)
{
    struct file_settings *files = settings;
    struct str value = node->args[1];

    files->aio_pool = NULL;
    if (str_equal_nocase(value, STR("off"))) {
        files->aio = 0;
        return true;
    }
    if (str_equal_nocase(value, STR("on"))) {
        files->aio = 1;
        return true;
    }
    if (str_starts(value, STR("threads")) && (value.len == 7 || value.data[7] == '=')) {
        struct str pool = value.len > 8 ? str_skip(value, 8) : STR("default");
        files->aio = AIO_THREADS;
        files->aio_pool = template_compile(scope->conf, node, pool);
        if (files->aio_pool == NULL) {
            return false;
        }
        if (files->aio_pool->is_constant) {
            generation_want_thread_pool(scope->conf->generation, node, pool);
        }
        return true;
    }
    return conf_error(scope->conf, node, "\"aio\" directive invalid value");
}

bool directio_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                    void *settings)
{
    struct file_settings *files = settings;

    if (str_is(node->args[1], "off")) {
        files->directio = INT64_MAX;
        return true;
    }
    if (!parse_offset(node->args[1], &files->directio)) {
        return conf_error(scope->conf, node, "\"directio\" directive invalid value");
    }
    return true;
}

bool disable_symlinks_apply(struct conf_scope *scope, const struct directive *row,
                            struct conf_node *node, void *settings)
{
    struct file_settings *files = settings;
    bool is_mode_set = false;

    files->disable_symlinks_from = NULL;
    for (unsigned i = 1; i < node->count; i++) {
        struct str value = node->args[i];

        if (str_is(value, "off")) {
            files->disable_symlinks = SYMLINKS_ALLOWED;
        } else if (str_is(value, "on")) {
            files->disable_symlinks = SYMLINKS_FORBIDDEN;
        } else if (str_is(value, "if_not_owner")) {
            files->disable_symlinks = SYMLINKS_IF_NOT_OWNER;
        } else if (str_starts(value, STR("from=")) && value.len > 5) {
            files->disable_symlinks_from = template_compile(scope->conf, node, str_skip(value, 5));
            if (files->disable_symlinks_from == NULL) {
                return false;
            }
            continue;
        } else {
            return conf_error(scope->conf, node, "invalid parameter \"%.*s\"", STR_ARG(value));
        }
        is_mode_set = true;
    }
    if (!is_mode_set) {
        return conf_error(
            scope->conf, node,
            "\"disable_symlinks\" must have \"off\", \"on\" or \"if_not_owner\" parameter");
    }
    if (files->disable_symlinks == SYMLINKS_ALLOWED && node->count == 3) {
        return conf_error(scope->conf, node,
                          "duplicate parameters of \"disable_symlinks\" directive");
    }
    return true;
}

bool open_file_cache_apply(struct conf_scope *scope, const struct directive *row,
                           struct conf_node *node, void *settings)
{
    struct file_settings *files = settings;
    struct file_cache_settings *cache = arena_new(scope->conf->arena, struct file_cache_settings);

    cache->inactive_s = 60;
    for (unsigned i = 1; i < node->count; i++) {
        struct str value = node->args[i];

        if (str_is(value, "off") && node->count == 2) {
            files->open_file_cache = NULL;
            return true;
        }
        if (str_starts(value, STR("max=")) && parse_uint(str_skip(value, 4), &cache->max) &&
            cache->max != 0) {
            continue;
        }
        if (str_starts(value, STR("inactive=")) &&
            parse_sec(str_skip(value, 9), &cache->inactive_s)) {
            continue;
        }
        return conf_error(scope->conf, node, "invalid \"open_file_cache\" parameter \"%.*s\"",
                          STR_ARG(value));
    }
    if (cache->max == 0) {
        return conf_error(scope->conf, node, "\"open_file_cache\" must have the \"max\" parameter");
    }
    files->open_file_cache = cache;
    return true;
}

bool client_body_temp_path_apply(struct conf_scope *scope, const struct directive *row,
                                 struct conf_node *node, void *settings)
{
    struct body_settings *bodies = settings;

    return temp_path_read(scope, node, &bodies->client_body_temp_path);
}

/* ---- other ---- */

bool keepalive_timeout_apply(struct conf_scope *scope, const struct directive *row,
                             struct conf_node *node, void *settings)
{
    struct connection_settings *connections = settings;

    if (!parse_msec(node->args[1], &connections->keepalive_timeout_ms) ||
        (node->count == 3 && !parse_sec(node->args[2], &connections->keepalive_header_s))) {
        return conf_error(scope->conf, node, "\"keepalive_timeout\" directive invalid value");
    }
    return true;
}

bool min_rate_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                    void *settings)
{
    struct min_rate *rule = (struct min_rate *) ((char *) settings + row->offset);

    *rule = (struct min_rate){.window_ms = 10000};
    if (!parse_size(node->args[1], &rule->bytes)) {
        return conf_error(scope->conf, node, "\"%s\" directive invalid value", row->name);
    }
    if (node->count == 3 &&
        (!str_starts(node->args[2], STR("window=")) ||
         !parse_msec(str_skip(node->args[2], 7), &rule->window_ms) || rule->window_ms < 100)) {
        return conf_error(scope->conf, node, "invalid parameter \"%.*s\"", STR_ARG(node->args[2]));
    }
    return true;
}

/* The name becomes a word in a log line, or a member of a JSON object: letters, digits, '_', '-'
 * and '.'. */
static bool tag_name_is_good(struct str name)
{
    static const char *const taken[] = {"time",       "level",  "pid",     "tid",
                                        "connection", "code",   "message", "action",
                                        "client",     "server", "request"};

    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char) name.data[i];
        if ((unsigned char) (ascii_lower(c) - 'a') >= 26 && !ascii_is_digit(c) && c != '_' &&
            c != '-' && c != '.') {
            return false;
        }
    }
    for (size_t i = 0; i < sizeof(taken) / sizeof(*taken); i++) {
        if (str_equal(name, str_of(taken[i]))) {
            return false;
        }
    }
    return name.len != 0 && name.len <= 64;
}

bool error_log_tag_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    struct vec *tags = &((struct http_location *) settings)->error_log_tags;
    struct str name = node->args[1];

    if (!tag_name_is_good(name)) {
        return conf_error(scope->conf, node, "invalid name \"%.*s\"", STR_ARG(name));
    }
    struct log_tag *tag = vec_add(tags, scope->conf->arena, struct log_tag);
    tag->name = arena_printf(scope->conf->arena, "%.*s", STR_ARG(name)).data;
    tag->value = template_compile(scope->conf, node, node->args[2]);
    return tag->value != NULL;
}

/* Parses "=CODE", "=" or neither, before the target of error_page. */
static bool parse_overwrite(struct conf_scope *scope, const struct conf_node *node, unsigned last,
                            int *overwrite, unsigned *codes_end)
{
    struct str value = node->args[last - 1];
    uint64_t code;

    *overwrite = -1;
    *codes_end = last;
    if (last < 2 || value.len == 0 || value.data[0] != '=') {
        return true;
    }
    *codes_end = last - 1;
    *overwrite = 0;
    if (value.len == 1) {
        return true;
    }
    if (!parse_uint(str_skip(value, 1), &code) || code > 999) {
        return conf_error(scope->conf, node, "invalid value \"%.*s\"", STR_ARG(value));
    }
    *overwrite = (int) code;
    return true;
}

bool error_page_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings)
{
    struct response_settings *responses = settings;
    struct conf *conf = scope->conf;
    unsigned last = node->count - 1;
    unsigned codes_end;
    int overwrite;

    if (node->count == 2) {
        if (str_is(node->args[1], "default")) {
            responses->error_pages = (struct vec){0};
            return true;
        }
        return conf_error(conf, node, "invalid number of arguments in \"error_page\" directive");
    }
    if (!parse_overwrite(scope, node, last, &overwrite, &codes_end)) {
        return false;
    }
    if (codes_end == 1) {
        return conf_error(conf, node, "invalid value \"%.*s\"", STR_ARG(node->args[1]));
    }
    struct template *target = template_compile(conf, node, node->args[last]);
    if (target == NULL) {
        return false;
    }
    for (unsigned i = 1; i < codes_end; i++) {
        uint64_t code;
        if (!parse_uint(node->args[i], &code) || code == 499) {
            return conf_error(conf, node, "invalid value \"%.*s\"", STR_ARG(node->args[i]));
        }
        if (code < 300 || code > 599) {
            return conf_error(conf, node, "value \"%.*s\" must be between 300 and 599",
                              STR_ARG(node->args[i]));
        }
        struct error_page *page = vec_add(&responses->error_pages, conf->arena, struct error_page);
        page->status = (unsigned) code;
        page->overwrite = overwrite;
        page->target = target;
    }
    return true;
}

bool satisfy_any_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    bool is_on;

    if (!conf_value_flag(scope, node, 1, &is_on)) {
        return false;
    }
    ((struct http_location *) settings)->satisfy = is_on ? SATISFY_ANY : SATISFY_ALL;
    return true;
}

bool server_tag_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                      void *settings)
{
    struct response_settings *responses = settings;
    struct str tag = node->args[1];

    responses->hides_server = str_is(tag, "off");
    responses->server_tag = responses->hides_server ? STR_NONE : tag;
    if (tag.len == 0) {
        return conf_error(scope->conf, node, "\"server_tag\" is empty, \"off\" shows none");
    }
    if (tag.len > SERVER_TAG_MAX) {
        return conf_error(scope->conf, node, "\"server_tag\" is longer than %d bytes",
                          SERVER_TAG_MAX);
    }
    for (size_t i = 0; i < tag.len; i++) {
        if ((unsigned char) tag.data[i] < ' ' || tag.data[i] == 127) {
            return conf_error(scope->conf, node, "\"server_tag\" holds a control character");
        }
    }
    return true;
}

bool server_info_check(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    ((struct response_settings *) settings)->has_server_info =
        scope->context != 0; /* not for the default value */
    return true;
}

bool check_header_buffers(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings)
{
    const struct http_server *server = settings;

    if (server->large_client_header_buffers.size > 16 << 20 ||
        server->large_client_header_buffers.number > 1024) {
        return conf_error(scope->conf, node, "\"large_client_header_buffers\" is too large");
    }
    return true;
}

/* ---- resolver and resolver_file ---- */

/* The two directives exclude each other at one level. */
static bool check_other(struct conf_scope *scope, const struct conf_node *node, const char *other)
{
    return !conf_is_set(scope, &http_location_key, other) ||
           conf_error(scope->conf, node,
                      "\"%.*s\" directive is duplicate, \"%s\" directive was specified earlier",
                      STR_ARG(node->args[0]), other);
}

bool resolver_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                    void *settings)
{
    return check_other(scope, node, "resolver_file") &&
           resolver_row_apply(scope, row, node, settings);
}

bool resolver_file_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    struct resolver_settings *resolver;

    if (!check_other(scope, node, "resolver") ||
        !resolver_settings_read_file(scope->conf, node, &resolver)) {
        return false;
    }
    ((struct http_location *) settings)->resolver = resolver;
    return true;
}
