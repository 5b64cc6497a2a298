/* ngx_http_session_log_module: one log line per session, that is, for requests of one client
 * without a long pause. */
#include "base/checksum.h"
#include "base/parse.h"
#include "base/text.h"
#include "http/modules/status/session_log/zone.h"
#include "http/routing/hooks.h"
#include "http/variables/variables.h"
#include "server/module.h"
#include "shared/log/access.h"

#define ZONE_LEAST (8 * 4096)
#define TIMEOUT_MS 30000
#define ID_TEXT 32 /* hex digits */

struct session_log_settings {
    struct session_zone *zone; /* NULL = off */
};

static struct settings_key session_log_key;

TYPED_SETTINGS(session_log_settings_at, struct session_log_settings, session_log_key,
               struct http_location)

static struct session_zone **session_zones_of(struct conf *conf)
{
    return conf_state(conf, "session_log.zones", sizeof(struct session_zone *));
}

/* ---- ids ---- */

/* The session of a main request, determined once per zone. */
struct session_id {
    const struct session_zone *zone;
    bool is_there;
    unsigned char bytes[SESSION_ID_SIZE];
};

static bool read_id(struct str text, unsigned char *out)
{
    return text.len == ID_TEXT && hex_decode(text, out);
}

/* From id=, which may be stored by the client; else from md5=. */
static bool find_id(const struct session_zone *zone, struct variable_env *env, unsigned char *out)
{
    if (zone->id != NULL && read_id(template_text(zone->id, env), out)) {
        return true;
    }
    if (zone->md5 == NULL) {
        return false;
    }
    md5_of(template_text(zone->md5, env), out);
    return true;
}

/* NULL: the request does not belong to a session. */
static const unsigned char *id_of(struct request *request)
{
    struct request *main = request->main;
    const struct session_zone *zone = session_log_settings_at(main->location)->zone;

    if (zone == NULL) {
        return NULL;
    }
    struct session_id *id = request_data(main, &session_log_key, sizeof(*id));
    if (id->zone != zone) {
        id->zone = zone; /* must be set first: id= may use $session_log_id */
        id->is_there = false;
        id->is_there = find_id(zone, &main->env, id->bytes);
    }
    return id->is_there ? id->bytes : NULL;
}

static bool get_session_log_id(struct variable_env *env, const struct variable *variable,
                               struct str *out)
{
    const unsigned char *id = id_of(variable_request(env));

    if (id == NULL) {
        return false;
    }
    char *text = arena_alloc(env->arena, ID_TEXT);
    hex_encode(text, id, SESSION_ID_SIZE);
    *out = (struct str){text, ID_TEXT};
    return true;
}

static bool get_session_log_binary_id(struct variable_env *env, const struct variable *variable,
                                      struct str *out)
{
    const unsigned char *id = id_of(variable_request(env));

    if (id == NULL) {
        return false;
    }
    *out = arena_dup(env->arena, (struct str){(const char *) id, SESSION_ID_SIZE});
    return true;
}

static const struct variable session_log_variables[] = {
    {.name = STR_INIT("session_log_id"),
     .doc = "ID of the session in session_log, 32 hexadecimal digits.",
     .get = get_session_log_id},
    {.name = STR_INIT("session_log_binary_id"),
     .doc = "ID of the session in session_log, 16 bytes.",
     .get = get_session_log_binary_id},
    {.name = STR_INIT("")},
};

/* ---- lines ---- */

/* Reused for each line. */
static struct session_line made;

/* $body_bytes_sent is the total of the session, which is unknown at this time: its position is
 * marked. */
static char *append_session_bytes(struct log_line *line, char *at, struct variable_env *env,
                                  const struct log_step *step)
{
    uint32_t offset = (uint32_t) (at - line->buf->data);

    buf_append(&made.marks, (struct str){(const char *) &offset, sizeof(offset)});
    *at = '\0';
    return at + 1;
}

static const struct log_value session_log_values[] = {{STR_INIT("body_bytes_sent"),
                                                       append_session_bytes},
                                                      {STR_INIT(""), NULL}};
static const struct log_family session_formats = {.state = "session_log.formats",
                                                  .values = session_log_values};

/* A NUL is a mark: a NUL in a value that is not escaped becomes a space. */
static void keep_marks(struct session_line *line)
{
    const uint32_t *mark = (const uint32_t *) (const void *) line->marks.data;
    size_t marks = line->marks.len / sizeof(*mark);

    for (size_t i = 0, next = 0; i < line->text.len; i++) {
        if (next < marks && mark[next] == i) {
            next++;
        } else if (line->text.data[i] == '\0') {
            line->text.data[i] = ' ';
        }
    }
}

static enum handler_result session_log_count(struct request *request)
{
    struct session_zone *zone = session_log_settings_at(request->location)->zone;
    const unsigned char *id = request == request->main ? id_of(request) : NULL;
    uint64_t bytes = request_body_bytes_sent(request);

    if (id == NULL || session_zone_count(zone, id, bytes, NULL)) {
        return HANDLER_NEXT;
    }
    made.text.len = made.marks.len = 0;
    log_format_write(zone->format, &request->env, LOG_ESCAPE_DEFAULT, &made.text);
    keep_marks(&made);
    if (!session_zone_count(zone, id, bytes, &made)) {
        counters_mine->limited++;
        log_warn(&request->log, 0,
                 "session_log_zone \"%.*s\" is too small: a session is not logged",
                 STR_ARG(zone->name));
    }
    return HANDLER_NEXT;
}

/* ---- directives ---- */

/* Finds or makes the zone with this name, declared or only referenced so far. */
static struct session_zone *session_zone_named(struct conf *conf, struct str name)
{
    struct session_zone **at = session_zones_of(conf);

    while (*at != NULL && !str_equal((*at)->name, name)) {
        at = &(*at)->next;
    }
    if (*at == NULL) {
        *at = arena_new(conf->arena, struct session_zone);
        **at = (struct session_zone){.name = name, .timeout_ms = TIMEOUT_MS};
    }
    return *at;
}

static bool session_log_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *arg)
{
    struct session_log_settings *settings = arg;

    settings->zone = str_is(node->args[1], "off") || conf_is_default(scope)
                         ? NULL
                         : session_zone_named(scope->conf, node->args[1]);
    return true;
}

static bool session_log_format_apply(struct conf_scope *scope, const struct directive *row,
                                     struct conf_node *node, void *settings)
{
    return log_format_read(scope->conf, node, &session_formats);
}

static bool read_zone_size(struct conf *conf, const struct conf_node *node, struct str value,
                           struct str *name, uint64_t *size)
{
    *name = str_cut(&value, ':');
    if (name->len == 0 || value.data == NULL || !parse_size(value, size)) {
        return conf_error(conf, node, "invalid zone size \"%.*s\"", STR_ARG(*name));
    }
    return *size >= ZONE_LEAST ||
           conf_error(conf, node, "zone \"%.*s\" is too small", STR_ARG(*name));
}

static bool read_zone_word(struct conf *conf, const struct conf_node *node, struct str word,
                           struct session_zone *zone)
{
    struct str name = str_cut(&word, '=');

    if (str_is(name, "format")) {
        zone->format = log_format_find(conf, &session_formats, word);
        return zone->format != NULL ||
               conf_error(conf, node, "unknown session_log_format \"%.*s\"", STR_ARG(word));
    }
    if (str_is(name, "timeout")) {
        return (parse_msec(word, &zone->timeout_ms) && zone->timeout_ms != 0) ||
               conf_error(conf, node, "invalid timeout \"%.*s\"", STR_ARG(word));
    }
    struct template **text = str_is(name, "id") ? &zone->id : &zone->md5;
    *text = template_compile(conf, node, word);
    return *text != NULL;
}

static bool session_log_zone_apply(struct conf_scope *scope, const struct directive *row,
                                   struct conf_node *node, void *settings)
{
    static const char *const words[] = {"zone=", "format=", "timeout=", "id=", "md5="};
    static const struct log_buffering at_once;
    struct conf *conf = scope->conf;
    struct session_zone read = {.timeout_ms = TIMEOUT_MS};

    for (unsigned i = 2; i < node->count; i++) {
        struct str word = node->args[i];
        unsigned known = 0;

        while (known < sizeof(words) / sizeof(*words) && !str_starts(word, str_of(words[known]))) {
            known++;
        }
        if (known == sizeof(words) / sizeof(*words)) {
            return conf_error(conf, node, "invalid parameter \"%.*s\"", STR_ARG(word));
        }
        if (known == 0 ? !read_zone_size(conf, node, str_skip(word, 5), &read.name, &read.size)
                       : !read_zone_word(conf, node, word, &read)) {
            return false;
        }
    }
    if (read.name.len == 0 || (read.id == NULL && read.md5 == NULL)) {
        return conf_error(conf, node, "session_log_zone needs \"zone=\", and \"id=\" or \"md5=\"");
    }
    if (read.format == NULL) {
        read.format = log_format_find(conf, &session_formats, STR("combined"));
    }
    struct session_zone *zone = session_zone_named(conf, read.name);
    if (zone->format != NULL) {
        return conf_error(conf, node, "session_log_zone \"%.*s\" is duplicate", STR_ARG(read.name));
    }
    read.next = zone->next;
    *zone = read;
    zone->lines = log_lines_for(conf, node, node->args[1], &at_once);
    return zone->lines != NULL;
}

static bool session_log_begin(struct conf *conf, struct http_main *main)
{
    return log_format_compile(
        conf, NULL, session_formats.values, log_format_add(conf, &session_formats, STR("combined")),
        STR("$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent "
            "\"$http_referer\" \"$http_user_agent\""));
}

static bool session_log_end(struct conf *conf, struct http_main *main)
{
    for (struct session_zone *zone = *session_zones_of(conf); zone != NULL; zone = zone->next) {
        if (zone->format == NULL) {
            return conf_error(conf, NULL, "session_log_zone \"%.*s\" is unknown",
                              STR_ARG(zone->name));
        }
        if (!session_zone_finish(conf, zone)) {
            return false;
        }
    }
    return true;
}

#define S struct session_log_settings
static const struct directive session_log_rows[] = {
    {"session_log_format", IN_HTTP, CUSTOM(session_log_format_apply), ARGS(2, ARGS_ANY),
     .repeat = REPEAT_APPEND, .syntax = "name [escape=default | json | none] string ...",
     .doc = "Defines a log format for sessions. $body_bytes_sent is the sum over the "
            "session's requests; other variables have the values of its first request. The "
            "format \"combined\" is predefined."},
    {"session_log_zone", IN_HTTP, CUSTOM(session_log_zone_apply), ARGS(2, 6),
     .repeat = REPEAT_CUSTOM,
     .syntax = "path zone=name:size [format=format] [timeout=time] [id=id] [md5=text]",
     .doc = "Defines a log of sessions and the shared memory zone for open sessions. A "
            "session ends if there is no request for the timeout, by default 30s. Requests "
            "with the same `id`, 32 hexadecimal digits, form a session; if it is missing "
            "or invalid, those with the same MD5 of the text `md5`."},
    {"session_log", IN_HTTP_ALL, CUSTOM_FIELD(S, zone, session_log_apply), ARGS(1, 1),
     .initial = "off", .syntax = "name | off", .doc = "Zone whose sessions include the requests."},
    {0},
};
#undef S

static const struct phase_hook session_log_phases[] = {
    {.phase = PHASE_LOG,
     .name = "session_log",
     .after = "log",
     .run = session_log_count,
     .when = SETTING(session_log_key, struct session_log_settings, zone)},
    {.run = NULL},
};
static const struct http_module session_log_hooks = {.phases = session_log_phases,
                                                     .variables = session_log_variables,
                                                     .begin = session_log_begin,
                                                     .end = session_log_end};

/* ---- the module ---- */

static bool session_log_worker_start(struct generation *generation)
{
    for (struct session_zone *zone = *session_zones_of(&generation->conf);
         zone != NULL && worker_role == WORKER_SERVES; zone = zone->next) {
        session_zone_watch(zone);
    }
    return true;
}

/* Sessions outlive workers, except for the last one; timers end with each worker. */
static void session_log_worker_end(struct generation *generation)
{
    pid_t pid;

    if (worker_role != WORKER_SERVES) {
        return;
    }
    bool is_last = workers_pids(&pid, 1) == 0;
    for (struct session_zone *zone = *session_zones_of(&generation->conf); zone != NULL;
         zone = zone->next) {
        session_zone_end(zone, is_last);
    }
    if (is_last) {
        access_logs_flush_all(generation);
    }
}

const struct module ngx_http_session_log_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_session_log_module",
    .kind = MODULE_HTTP,
    .table = {.key = &session_log_key,
              .rows = session_log_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct session_log_settings)},
    .hooks = &session_log_hooks,
    .worker_start = session_log_worker_start,
    .worker_end = session_log_worker_end,
};
