/* What follows from the shared options of one place: sizes that hang on each other, and which fields of answers
 * are hidden from clients. */
#include "base/fs.h"
#include "config.h"
#include "http/exchange/settings.h"
#include "http/fields.h"
#include "http/settings.h"

/* ---- the prefix ---- */

static bool has_row(const struct directive_table *table, const char *prefix, const char *suffix)
{
    size_t length = strlen(prefix);

    for (const struct directive *row = table->rows; row->name != NULL; row++) {
        if (strncmp(row->name, prefix, length) == 0 && strcmp(row->name + length, suffix) == 0) {
            return true;
        }
    }
    return false;
}

/* The rows of the table begin with it: "proxy_bind". */
static const char *prefix_of(struct conf *conf, const struct directive_table *table)
{
    struct str name = str_of(table->rows->name);

    return arena_cstr(conf->arena, str_from(name.data, str_find_char(name, '_')));
}

/* ---- sizes ---- */

static bool size_error(struct conf_scope *scope, const char *prefix, const char *name,
                       const char *zero)
{
    return conf_error(scope->conf, scope->node,
                      "\"%s_%s\" must be %sequal to or greater than the maximum of the value of "
                      "\"%s_buffer_size\" and one of the \"%s_buffers\"",
                      prefix, name, zero, prefix, prefix);
}

static bool check_sizes(struct conf_scope *scope, struct exchange_settings *own,
                        const struct directive_table *table)
{
    const char *prefix = own->prefix;
    uint64_t one = own->buffer_size > own->buffers.size ? own->buffer_size : own->buffers.size;
    uint64_t most = (own->buffers.number - 1) * own->buffers.size;
    const char *busy = arena_printf(scope->conf->arena, "%s_busy_buffers_size", prefix).data;
    const char *write = arena_printf(scope->conf->arena, "%s_temp_file_write_size", prefix).data;

    own->is_busy_size_written |= conf_is_set(scope, table, busy);
    own->is_write_size_written |= conf_is_set(scope, table, write);
    if (!own->is_busy_size_written) {
        own->busy_buffers_size = 2 * one;
    }
    if (!own->is_write_size_written) {
        own->temp_file_write_size = 2 * one;
    }
    if (scope->context == IN_HTTP) {
        return true; /* each server that takes these over is asked */
    }
    if (own->buffers.number < 2) {
        return conf_error(scope->conf, scope->node, "there must be at least 2 \"%s_buffers\"",
                          prefix);
    }
    if (own->busy_buffers_size < one) {
        return size_error(scope, prefix, "busy_buffers_size", "");
    }
    if (own->busy_buffers_size > most) {
        return conf_error(scope->conf, scope->node,
                          "\"%s_busy_buffers_size\" must be less than the size of all "
                          "\"%s_buffers\" minus one buffer",
                          prefix, prefix);
    }
    if (own->temp_file_write_size < one) {
        return size_error(scope, prefix, "temp_file_write_size", "");
    }
    if (own->max_temp_file_size != 0 && own->max_temp_file_size < one) {
        return size_error(scope, prefix, "max_temp_file_size",
                          "equal to zero to disable temporary files usage or must be ");
    }
    return true;
}

/* ---- hidden fields ---- */

#define X_ACCEL_IDS                                                                                \
    (FIELD_BIT(FIELD_X_ACCEL_REDIRECT) | FIELD_BIT(FIELD_X_ACCEL_EXPIRES) |                        \
     FIELD_BIT(FIELD_X_ACCEL_LIMIT_RATE) | FIELD_BIT(FIELD_X_ACCEL_BUFFERING) |                    \
     FIELD_BIT(FIELD_X_ACCEL_CHARSET))

/* The CGI kinds tell the status in a field; a proxied server's own identity is not the client's business. */
static uint64_t hidden_at_first(const char *prefix)
{
    if (strcmp(prefix, "proxy") == 0 || strcmp(prefix, "grpc") == 0) {
        return X_ACCEL_IDS | FIELD_BIT(FIELD_DATE) | FIELD_BIT(FIELD_SERVER) |
               FIELD_BIT(FIELD_X_PAD);
    }
    return X_ACCEL_IDS | FIELD_BIT(FIELD_STATUS);
}

static void hide_fields(struct conf *conf, struct exchange_settings *own)
{
    static char mark;
    struct map *others = arena_new(conf->arena, struct map);

    own->hidden_ids = hidden_at_first(own->prefix);
    own->hidden = others;
    own->passed_ids = 0;
    vec_each(const struct str, name, &own->hide_headers) {
        enum field_id id = field_identify(*name);
        bool is_passed = false;

        vec_each(const struct str, passed, &own->pass_headers) {
            is_passed |= str_equal_nocase(*passed, *name);
        }
        if (is_passed || name->len == 0) {
            continue;
        }
        if (id != FIELD_OTHER) {
            own->hidden_ids |= FIELD_BIT(id);
        } else {
            map_put_nocase(others, conf->arena, *name, &mark);
        }
    }
    vec_each(const struct str, name, &own->pass_headers) {
        enum field_id id = field_identify(*name);
        if (id != FIELD_OTHER) {
            own->hidden_ids &= ~FIELD_BIT(id);
            own->passed_ids |= FIELD_BIT(id);
        }
    }
}

/* ---- the rest ---- */

/* A cache without a key, but for a protocol that has one of its own (protocol.default_cache_key). Nothing happens in
 * the http block itself: who inherits is told. */
static void check_cache_key(struct conf_scope *scope, const struct exchange_settings *own)
{
    bool has_cache = own->cache != NULL || own->cache_name != NULL;

    if (has_cache && own->cache_key == NULL && strcmp(own->prefix, "proxy") != 0 &&
        scope->context != IN_HTTP) {
        conf_warn(scope->conf, scope->node, "no \"%s_cache_key\" for \"%s_cache\"", own->prefix,
                  own->prefix);
    }
}

static void set_default_temp_path(struct conf_scope *scope, struct exchange_settings *own)
{
    static const struct {
        const char *prefix;
        struct str path;
    } defaults[] = {{"proxy", STR_INIT(DEFAULT_PROXY_TEMP)},
                    {"fastcgi", STR_INIT(DEFAULT_FASTCGI_TEMP)},
                    {"uwsgi", STR_INIT(DEFAULT_UWSGI_TEMP)},
                    {"scgi", STR_INIT(DEFAULT_SCGI_TEMP)}};
    static const unsigned no_levels[3];
    struct conf *conf = scope->conf;

    for (size_t i = 0; i < sizeof(defaults) / sizeof(defaults[0]); i++) {
        if (strcmp(defaults[i].prefix, own->prefix) == 0) {
            own->temp_path =
                generation_path(conf->generation, scope->node,
                                fs_full_name(conf->arena, conf->prefix, defaults[i].path),
                                no_levels);
            return;
        }
    }
}

/* `off` among other words means off. */
static unsigned sole_off(unsigned words)
{
    return (words & NEXT_OFF) != 0 ? NEXT_OFF : words;
}

bool exchange_settings_finish(struct conf_scope *scope, void *settings)
{
    struct exchange_settings *own = settings;
    const struct directive_table *table = exchange_table_of(scope, settings);

    if (own->prefix == NULL) {
        own->prefix = prefix_of(scope->conf, table);
    }
    check_cache_key(scope, own);
    if (!exchange_tls_finish(scope, own)) {
        return false;
    }
    own->next_upstream = sole_off(own->next_upstream);
    own->cache_use_stale = sole_off(own->cache_use_stale);
    bool has_buffers = has_row(table, own->prefix, "_buffers");
    if (!has_buffers) {
        own->buffers = (struct buffers){.number = 1, .size = own->buffer_size};
        own->busy_buffers_size = own->buffer_size;
        if (!has_row(table, own->prefix, "_hide_header")) {
            return true;
        }
    }
    own->cache_methods |= METHOD_GET | METHOD_HEAD;
    if (has_buffers && own->temp_path == NULL) {
        set_default_temp_path(scope, own);
    }
    const char *hide = arena_printf(scope->conf->arena, "%s_hide_header", own->prefix).data;
    const char *pass = arena_printf(scope->conf->arena, "%s_pass_header", own->prefix).data;
    if (own->hidden == NULL || conf_is_set(scope, table, hide) || conf_is_set(scope, table, pass)) {
        hide_fields(scope->conf, own);
    }
    return !has_buffers || check_sizes(scope, own, table);
}
