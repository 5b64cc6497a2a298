/* ngx_http_dav_ext_module: PROPFIND, PROPPATCH, OPTIONS, LOCK and UNLOCK (RFC 4918, class 2). */
#include "http/modules/content/dav_ext/dav_ext.h"

#include <unistd.h>

#include "base/parse.h"
#include "base/text.h"
#include "http/files/path.h"
#include "http/message/dav_fields.h"
#include "http/request/body.h"
#include "http/routing/file_settings.h"
#include "http/routing/hooks.h"
#include "server/generation.h"
#include "server/module.h"

#define TIMEOUT_DEFAULT_MS 60000

static struct settings_key dav_ext_key;

static const struct limit_kind lock_zones = {
    .state = "http dav_ext_lock_zone",
    .directive = "dav_ext_lock_zone",
    .label = "dav_ext_lock_zone",
    .size = sizeof(struct lock_zone),
    .record_size = sizeof(struct lock_record),
};

const struct dav_ext_settings *dav_ext_settings_at(const struct http_location *location)
{
    return location_settings(location, &dav_ext_key);
}

/* ---- paths ---- */

/* Locks are compared by path, so every path gets one spelling: "a//b" (merge_slashes off) becomes
 * "a/b", "a/" becomes "a". NUL-terminated. */
static struct str one_spelling(struct arena *arena, struct str path)
{
    char *text = arena_text(arena, path.len + 1);
    size_t len = 0;

    for (size_t i = 0; i < path.len; i++) {
        if (path.data[i] != '/' || len == 0 || text[len - 1] != '/') {
            text[len++] = path.data[i];
        }
    }
    len -= len > 1 && text[len - 1] == '/';
    text[len] = '\0';
    return (struct str){text, len};
}

bool dav_ext_path(struct request *request, struct str *path)
{
    size_t root_length;

    if (!request_map_path(request, path, &root_length)) {
        return false;
    }
    *path = one_spelling(&request->arena, *path);
    return true;
}

struct str dav_ext_path_of(struct request *request, struct str url)
{
    const struct dav_origin origin = {
        .scheme = request_is_encrypted(request) ? STR("https") : STR("http"),
        .host = request->head.host,
        .merge_slashes = request->server->merge_slashes,
    };
    struct str uri = request->uri;
    size_t length;
    struct str path;

    if (dav_destination_parse(&request->arena, url, &origin, &path) != DESTINATION_GOOD ||
        (request->location->files->is_alias && request_alias_prefix(request, &length) &&
         !str_starts(path, str_head(uri, length)))) {
        return STR_NONE;
    }
    request_swap_uri(request, path);
    bool is_good = dav_ext_path(request, &path);
    request_swap_uri(request, uri);
    return is_good ? path : STR_NONE;
}

/* ---- bodies and responses ---- */

enum handler_result dav_ext_read_body(struct request *request, struct str *out)
{
    enum handler_result result = request_read_body(request);

    if (result != HANDLER_NEXT) {
        return result;
    }
    const struct request_body *body = request->incoming.body;
    if (body->size > BODY_MAX) {
        counters_mine->limited++;
        log_error(&request->log, 0, "client sent a body of %llu bytes, more than %d, as XML",
                  (unsigned long long) body->size, BODY_MAX);
        return request_fail(request, 413);
    }
    return request_body_text(request, out) ? HANDLER_NEXT : request_fail(request, 500);
}

void put_xml(struct buf *out, struct str text)
{
    while (text.len != 0) {
        struct str rest = text;
        uint32_t c = utf8_next(&rest);
        struct str bytes = str_head(text, text.len - rest.len);
        if (c == UINT32_MAX || c == 0xfffe || c == 0xffff || (c < 0x20 && c != '\t' && c != '\n')) {
            buf_append_char(out, '?');
        } else {
            char *at = buf_reserve(out, escape_length(bytes, ESCAPE_HTML));
            out->len += (size_t) (escape_write(at, bytes, ESCAPE_HTML) - at);
        }
        text = rest;
    }
}

void put_active_locks(struct buf *out, struct arena *arena, const struct vec *locks)
{
    vec_each(const struct lock, lock, locks) {
        struct str token = lock_token_text(arena, &lock->token);

        buf_printf(out,
                   "<D:activelock>\n<D:locktype><D:write/></D:locktype>\n"
                   "<D:lockscope><D:%s/></D:lockscope>\n<D:depth>%s</D:depth>\n",
                   lock->is_shared ? "shared" : "exclusive", lock->is_deep ? "infinity" : "0");
        if (lock->owner.len != 0) {
            buf_append(out, STR("<D:owner>"));
            put_xml(out, lock->owner);
            buf_append(out, STR("</D:owner>\n"));
        }
        buf_printf(out,
                   "<D:timeout>Second-%llu</D:timeout>\n"
                   "<D:locktoken><D:href>%.*s</D:href></D:locktoken>\n<D:lockroot><D:href>",
                   (unsigned long long) lock->timeout_ms / 1000, STR_ARG(token));
        put_xml(out, escape_str(arena, lock->uri, ESCAPE_URI));
        buf_append(out, STR("</D:href></D:lockroot>\n</D:activelock>\n"));
    }
}

static void drop_buffer(void *arg)
{
    struct buf *buf = arg;

    buf_free(buf);
}

void dav_ext_describe(struct request *request, unsigned status)
{
    if (status == 207) {
        request->response.reason = STR("Multi-Status");
    }
    request->response.charset = STR("utf-8");
}

enum handler_result dav_ext_answer(struct request *request, unsigned status, struct buf *body)
{
    struct buf *kept = arena_new(&request->arena, struct buf);

    *kept = *body;
    *body = (struct buf){0};
    arena_on_free(&request->arena, drop_buffer, kept);
    dav_ext_describe(request, status);
    return response_memory(request, status, STR("text/xml"), buf_str(kept));
}

/* ---- methods ---- */

static enum handler_result options(struct request *request)
{
    struct fields *fields = &request->response.fields;
    const struct dav_ext_settings *settings = dav_ext_settings_at(request->location);
    bool has_locks = settings->zone != NULL;

    fields_add(fields, &request->arena, STR("DAV"), has_locks ? STR("1, 2") : STR("1"));
    fields_add(fields, &request->arena, STR("Allow"),
               (settings->methods & METHOD_PROPPATCH) != 0
                   ? STR("GET,HEAD,PUT,DELETE,MKCOL,COPY,MOVE,PROPFIND,PROPPATCH,OPTIONS,LOCK,"
                         "UNLOCK")
                   : STR("GET,HEAD,PUT,DELETE,MKCOL,COPY,MOVE,PROPFIND,OPTIONS,LOCK,UNLOCK"));
    return response_memory(request, 200, STR_NONE, STR_NONE);
}

static enum handler_result dav_ext_handle(struct request *request)
{
    const struct dav_ext_settings *settings = dav_ext_settings_at(request->location);
    unsigned method = request->method & settings->methods;

    switch (method) {
    case METHOD_OPTIONS:
        return options(request);
    case METHOD_PROPFIND:
        return dav_propfind(request);
    case METHOD_PROPPATCH:
        return dav_proppatch(request);
    case METHOD_LOCK:
    case METHOD_UNLOCK:
        if (settings->zone == NULL) {
            return request_fail(request, 405);
        }
        return method == METHOD_LOCK ? dav_lock(request) : dav_unlock(request);
    default:
        return HANDLER_NEXT;
    }
}

/* ---- directives ---- */

static bool read_zone_word(struct conf *conf, struct conf_node *node, struct str word,
                           struct limit_zone_words *words, uint64_t *timeout_ms)
{
    if (str_starts(word, STR("zone="))) {
        return limit_zone_read(conf, node, word, &words->name, &words->size);
    }
    if (str_starts(word, STR("timeout=")) && parse_msec(str_skip(word, 8), timeout_ms) &&
        *timeout_ms >= 1000) {
        return true;
    }
    return conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(word));
}

static bool dav_ext_zone_apply(struct conf_scope *scope, const struct directive *row,
                               struct conf_node *node, void *settings)
{
    struct limit_zone_words words = {.key_count = 0};
    uint64_t timeout_ms = TIMEOUT_DEFAULT_MS;

    for (unsigned i = 1; i < node->count; i++) {
        if (!read_zone_word(scope->conf, node, node->args[i], &words, &timeout_ms)) {
            return false;
        }
    }
    if (words.name.len == 0) {
        return conf_error(scope->conf, node, "\"%s\" must have \"zone\" parameter", row->name);
    }
    struct lock_zone *zone =
        (struct lock_zone *) limit_zone_declare(scope->conf, node, &lock_zones, &words);
    if (zone == NULL) {
        return false;
    }
    zone->timeout_ms = timeout_ms;
    return true;
}

static bool lock_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    struct dav_ext_settings *own = settings;
    struct str word = node->args[1];

    if (str_is(word, "off")) {
        own->zone = NULL;
        return true;
    }
    if (!str_starts(word, STR("zone=")) || word.len == 5) {
        return conf_error(scope->conf, node, "invalid parameter \"%.*s\"", STR_ARG(word));
    }
    own->zone =
        (struct lock_zone *) limit_zone_named(scope->conf, node, &lock_zones, str_skip(word, 5));
    return own->zone != NULL;
}

/* clang-format off */
static const struct directive_word method_words[] = {
    {"off", 0},
    {"propfind", METHOD_PROPFIND},
    {"proppatch", METHOD_PROPPATCH},
    {"options", METHOD_OPTIONS},
    {"lock", METHOD_LOCK},
    {"unlock", METHOD_UNLOCK},
    {NULL, 0},
};
/* clang-format on */

#define S struct dav_ext_settings
static const struct directive dav_ext_rows[] = {
    {"dav_ext_methods", IN_HTTP_ALL, BITS(S, methods, method_words), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_APPEND, .initial = "off", .syntax = "off | method ...",
     .doc = "Allows WebDAV methods that describe and lock files: PROPFIND (Depth 0 and 1), "
            "PROPPATCH, OPTIONS, LOCK and UNLOCK. With PROPPATCH, clients set properties "
            "of a file, up to 32k, which are stored in an extended attribute. Clients that "
            "mount the server as a file system require these methods and dav_methods."},
    {"dav_ext_lock_zone", IN_HTTP, CUSTOM(dav_ext_zone_apply), ARGS(1, 2), .repeat = REPEAT_CUSTOM,
     .syntax = "zone=name:size [timeout=time]",
     .doc = "Shared memory zone for locks, about 1000 per megabyte. Locks are kept over "
            "reloads. A lock lasts for at most the timeout (60s by default) unless it is "
            "refreshed."},
    {"dav_ext_lock", IN_HTTP_ALL, CUSTOM_FIELD(S, zone, lock_apply), ARGS(1, 1),
     .syntax = "zone=name | off",
     .doc = "Zone that stores the locks of the location. Locked files are changed only by "
            "requests with the lock token in the field If; other requests get 423."},
    {0},
};
#undef S

static const struct phase_hook dav_ext_phases[] = {
    {.phase = PHASE_PRECONTENT,
     .name = "dav_ext",
     .run = dav_guard,
     .when = SETTING(dav_ext_key, struct dav_ext_settings, zone)},
    {.phase = PHASE_CONTENT,
     .name = "dav_ext",
     .run = dav_ext_handle,
     .when = SETTING(dav_ext_key, struct dav_ext_settings, methods)},
    {.phase = PHASE_LOG,
     .name = "dav_ext",
     .run = dav_forget,
     .when = SETTING(dav_ext_key, struct dav_ext_settings, zone)},
    {.run = NULL},
};
static const struct http_module dav_ext_hooks = {.phases = dav_ext_phases};

const struct module ngx_http_dav_ext_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_dav_ext_module",
    .kind = MODULE_HTTP,
    .table = {.key = &dav_ext_key,
              .rows = dav_ext_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct dav_ext_settings)},
    .hooks = &dav_ext_hooks,
};
