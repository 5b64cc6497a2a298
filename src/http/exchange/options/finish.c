/* What follows from the shared options of one location: sizes that hang on each other, and which
 * fields of responses are hidden from clients. */
#include "base/fs.h"
#include "http/exchange/options/cache_hook.h"
#include "http/exchange/options/pass.h"
#include "http/exchange/options/settings.h"
#include "http/message/fields.h"
#include "http/routing/settings.h"

/* ---- sizes ---- */

static bool size_error(struct conf_scope *scope, const char *prefix, const char *name,
                       const char *zero)
{
    return conf_error(scope->conf, scope->node,
                      "\"%s_%s\" must be %sequal to or greater than the maximum of the value of "
                      "\"%s_buffer_size\" and one of the \"%s_buffers\"",
                      prefix, name, zero, prefix, prefix);
}

static bool check_sizes(struct conf_scope *scope, struct exchange_settings *own)
{
    const struct settings_key *key = own->family->table.key;
    const char *prefix = own->family->prefix;
    uint64_t one = own->buffer_size > own->buffers.size ? own->buffer_size : own->buffers.size;
    uint64_t most = (own->buffers.number - 1) * own->buffers.size;
    const char *busy = arena_printf(scope->conf->arena, "%s_busy_buffers_size", prefix).data;
    const char *write = arena_printf(scope->conf->arena, "%s_temp_file_write_size", prefix).data;

    own->is_busy_size_written |= conf_is_set(scope, key, busy);
    own->is_write_size_written |= conf_is_set(scope, key, write);
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

static void hide_fields(struct conf *conf, struct exchange_settings *own)
{
    static char mark;
    struct map *others = arena_new(conf->arena, struct map);

    own->hidden_ids = X_ACCEL_IDS | own->family->hidden_ids;
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
            own->passed_ids |= FIELD_BIT(id) & own->family->hidden_ids;
        }
    }
}

/* What the block has of the lists of its family, and what follows. */
static void inherit_hidden(struct conf_scope *scope, struct exchange_settings *own)
{
    const struct exchange_family *family = own->family;
    struct arena *arena = scope->conf->arena;
    struct inherited_list hide = {
        .key = family->table.key,
        .row = arena_printf(arena, "%s_hide_header", family->prefix).data,
        .offset = offsetof(struct exchange_settings, hide_headers),
        .item_size = sizeof(struct str),
        .ignores_case = true,
    };
    struct inherited_list pass = hide;

    pass.row = arena_printf(arena, "%s_pass_header", family->prefix).data;
    pass.offset = offsetof(struct exchange_settings, pass_headers);
    conf_list_inherit(scope, &hide, own->hide_inherit);
    conf_list_inherit(scope, &pass, own->pass_inherit);
    if (own->hidden == NULL || conf_is_set(scope, hide.key, hide.row) ||
        conf_is_set(scope, pass.key, pass.row) || own->hide_inherit == LIST_INHERIT_OFF ||
        own->pass_inherit == LIST_INHERIT_OFF) {
        hide_fields(scope->conf, own);
    }
}

/* ---- the rest ---- */

/* A cache without a key, but for a protocol that has one of its own (protocol.default_cache_key).
 * Nothing happens in the http block itself: blocks that inherit get a message. */
static void check_cache_key(struct conf_scope *scope, const struct exchange_settings *own)
{
    bool has_cache = own->cache != NULL || own->cache_name != NULL;

    if (has_cache && own->cache_key == NULL && !own->family->has_cache_key &&
        scope->context != IN_HTTP) {
        const char *prefix = own->family->prefix;
        conf_warn(scope->conf, scope->node, "no \"%s_cache_key\" for \"%s_cache\"", prefix, prefix);
    }
}

static void set_default_temp_path(struct conf_scope *scope, struct exchange_settings *own)
{
    static const unsigned no_levels[3];
    struct conf *conf = scope->conf;

    own->temp_path =
        generation_path(conf->generation, scope->node, own->family->temp_path, no_levels);
}

/* *_pass is not inherited by a nested location, so neither is the need for TLS that a *_pass to
 * https:// has set. `if` and limit_except blocks keep both. */
static void forget_pass(const struct conf_scope *scope, const struct exchange_family *family)
{
    if (family->pass != NULL && scope->context == IN_LOCATION &&
        !conf_is_set(scope, family->pass_key, family->pass)) {
        exchange_needs_tls(scope, family->table.key, false);
    }
}

/* Settings of QUIC connections to backends of this location. The connection's flow control window
 * has room for the windows of all streams, so that responses that nobody reads do not block the
 * others. False after conf_error. */
static bool make_quic(struct conf_scope *scope, struct exchange_settings *own)
{
    struct exchange_http3 *http3 = &own->http3;
    struct arena *arena = scope->conf->arena;

    http3->quic = NULL;
    if (!own->tls.is_needed ||
        http3->stream_buffer_size == 0) { /* 0: a protocol without these rows */
        return true;
    }
    struct upstream_connection_quic *quic = arena_new(arena, struct upstream_connection_quic);
    quic->settings = (struct quic_settings){
        .refuses_bidi = true,
        .max_streams_uni = HTTP3_ONE_WAY_MAX,
        .stream_window = http3->stream_buffer_size,
        .most_window = 4 * http3->stream_buffer_size,
        .connection_window =
            4 * http3->stream_buffer_size * (uint64_t) http3->max_concurrent_streams,
        .active_connection_id_limit = (unsigned) http3->active_connection_id_limit,
        .uses_gso = http3->gso,
        .probes_most = HTTP3_PROBES_MOST,
    };
    if (http3->host_key.len != 0) {
        quic->secrets = quic_secrets_new(arena, http3->host_key);
        if (quic->secrets == NULL) {
            return conf_error(scope->conf, scope->node, "keys for QUIC could not be made");
        }
    }
    http3->quic = quic;
    return true;
}

/* `off` among other words means off. */
static unsigned sole_off(unsigned words)
{
    return (words & NEXT_OFF) != 0 ? NEXT_OFF : words;
}

bool exchange_settings_finish(struct conf_scope *scope, void *settings)
{
    struct exchange_settings *own = settings;
    const struct exchange_family *family = exchange_family_of(scope, own);

    own->family = family;
    forget_pass(scope, family);
    check_cache_key(scope, own);
    if (!tls_client_finish(scope, &own->tls, family->prefix) || !make_quic(scope, own)) {
        return false;
    }
    own->cache_hook = family->cache_hook != NULL && family->cache_hook->is_wanted(scope, own)
                          ? family->cache_hook
                          : NULL;
    if (own->limit_rate != NULL && own->limit_rate->is_constant &&
        str_is(own->limit_rate->constant, "0")) {
        own->limit_rate = NULL;
    }
    own->next_upstream = sole_off(own->next_upstream);
    own->cache_use_stale = sole_off(own->cache_use_stale);
    own->cache_methods |= METHOD_GET | METHOD_HEAD;
    if (family->hidden_ids != 0) {
        inherit_hidden(scope, own);
    }
    if (family->temp_path.len == 0) {
        own->buffers = (struct buffers){.number = 1, .size = own->buffer_size};
        own->busy_buffers_size = own->buffer_size;
        return true;
    }
    if (own->temp_path == NULL) {
        set_default_temp_path(scope, own);
    }
    return check_sizes(scope, own);
}

bool exchange_bare_finish(struct conf_scope *scope, void *settings)
{
    struct exchange_settings *own = settings;

    own->intercept_errors = true;
    if ((own->next_upstream & NEXT_NOT_FOUND) != 0) {
        own->next_upstream |= NEXT_404;
    }
    return exchange_settings_finish(scope, settings);
}
