/* ngx_http_reqstat_module (Tengine's): counts requests by a key, and shows the counters as lines of
 * numbers. */
#include "base/buf.h"
#include "base/parse.h"
#include "base/text.h"
#include "http/client/connection.h"
#include "http/exchange/exchange.h"
#include "http/modules/status/reqstat/zone.h"
#include "http/routing/hooks.h"
#include "http/variables/variables.h"
#include "server/generation.h"
#include "server/module.h"

#define KEY_LENGTH 152 /* default of req_status_zone_key_length */
#define ZONE_LEAST (8 * 4096)

struct reqstat_settings {
    struct vec zones;  /* struct reqstat_zone *: from req_status */
    struct vec bypass; /* struct template * */
    bool is_lazy;      /* keys are evaluated when the request is logged */
    struct vec shown;  /* struct reqstat_zone *: from req_status_show; none: all */
    struct vec fields; /* struct str: from req_status_show_field; none: all */
};

static struct settings_key reqstat_key;
static bool is_used; /* the configuration that is being read uses the module */

/* What is counted for a request: decided at its first rewrite phase, independent of later
 * locations. */
struct choice {
    const struct reqstat_settings *settings;
    struct str *keys; /* by zone */
    bool is_first;    /* first request of its connection */
    bool is_bypassed;
};

TYPED_SETTINGS(reqstat_settings_at, struct reqstat_settings, reqstat_key, struct http_location)

/* ---- counting ---- */

static enum handler_result choose(struct request *request)
{
    const struct reqstat_settings *settings = reqstat_settings_at(request->location);

    if (request != request->main || request_data(request, &reqstat_key, 0) != NULL) {
        return HANDLER_NEXT;
    }
    struct choice *choice = request_data(request, &reqstat_key, sizeof(*choice));
    choice->settings = settings;
    choice->is_first = request->ordinal == 1;
    choice->is_bypassed = templates_any_true(&settings->bypass, &request->env);
    if (!choice->is_bypassed && !settings->is_lazy) {
        unsigned i = 0;

        choice->keys = arena_array(&request->arena, settings->zones.count, sizeof(*choice->keys));
        vec_each(struct reqstat_zone *, zone, &settings->zones) {
            choice->keys[i++] = template_text((*zone)->key, &request->env);
        }
    }
    return HANDLER_NEXT;
}

static void count_status(uint64_t *counts, unsigned status)
{
    static const uint16_t codes[] = {200, 206, 302, 304, 403, 404, 416,
                                     499, 500, 502, 503, 504, 508};
    unsigned class = status / 100;
    unsigned i = 0;

    counts[class >= 2 && class <= 5 ? REQSTAT_HTTP_2XX + class - 2 : REQSTAT_HTTP_OTHER]++;
    while (i < sizeof(codes) / sizeof(*codes) && codes[i] != status) {
        i++;
    }
    counts[i < sizeof(codes) / sizeof(*codes) ? REQSTAT_HTTP_200 + i : REQSTAT_HTTP_OTHER_DETAIL]++;
}

static void count_attempts(uint64_t *counts, const struct exchange *x)
{
    if (x->attempts.count == 0) {
        return;
    }
    counts[REQSTAT_UPS_REQ] = 1;
    counts[REQSTAT_UPS_TRIES] = x->attempts.count;
    vec_each(const struct attempt, attempt, &x->attempts) {
        counts[REQSTAT_UPS_RT] += attempt->response_ms == UINT64_MAX ? 0 : attempt->response_ms;
        counts[REQSTAT_UPS_4XX] += attempt->status / 100 == 4;
        counts[REQSTAT_UPS_5XX] += attempt->status / 100 == 5;
    }
}

static void count_all(struct request *request, const struct choice *choice, uint64_t *counts)
{
    counts[REQSTAT_BYTES_IN] =
        request->head_size + request->incoming.received + request->tunnel_received;
    counts[REQSTAT_BYTES_OUT] = request_bytes_sent(request);
    counts[REQSTAT_CONN_TOTAL] = choice->is_first;
    counts[REQSTAT_REQ_TOTAL] = 1;
    counts[REQSTAT_RT] = request_age_ms(request);
    count_status(counts, request->response.status);
    if (request->exchange != NULL) {
        count_attempts(counts, request->exchange);
    }
}

/* The number at the beginning of a variable: an integer unchanged, one with a decimal point
 * (seconds, as in $upstream_response_time) in thousandths. */
static uint64_t number_of(struct str text)
{
    uint64_t number = 0;
    unsigned digits = 0; /* digits after the point */
    bool has_point = false;

    for (; text.len != 0 && digits < 3 && number < UINT64_MAX / 100; text = str_skip(text, 1)) {
        char c = *text.data;

        if (c == '.' && !has_point) {
            has_point = true;
        } else if (c >= '0' && c <= '9') {
            number = number * 10 + (uint64_t) (c - '0');
            digits += has_point;
        } else {
            break;
        }
    }
    for (; has_point && digits < 3; digits++) {
        number *= 10;
    }
    return number;
}

/* Evaluates the additional counters of a zone. */
static void count_indicators(struct request *request, const struct reqstat_zone *zone,
                             uint64_t *counts)
{
    unsigned at = REQSTAT_FIXED;

    vec_each(struct variable *, variable, &zone->indicators) {
        struct str text;
        bool is_there = variable_get(&request->env, *variable, &text);

        counts[at++] = is_there ? number_of(text) : 0;
    }
}

static enum handler_result reqstat_count(struct request *request)
{
    const struct choice *choice;
    uint64_t counts[REQSTAT_MOST] = {0};
    unsigned i = 0;

    choose(request); /* the server's own rewrites may have ended it before this phase */
    choice = request == request->main ? request_data(request, &reqstat_key, 0) : NULL;
    if (choice == NULL || choice->is_bypassed) {
        return HANDLER_NEXT;
    }
    count_all(request, choice, counts);
    vec_each(struct reqstat_zone *, zone, &choice->settings->zones) {
        struct str key =
            choice->keys != NULL ? choice->keys[i] : template_text((*zone)->key, &request->env);

        i++;
        if (key.len == 0) {
            continue;
        }
        count_indicators(request, *zone, counts);
        if (!reqstat_zone_add(*zone, key, counts)) {
            counters_mine->limited++;
            log_warn(&request->log, 0, "req_status_zone \"%.*s\" is full: a request is not counted",
                     STR_ARG((*zone)->name));
        }
    }
    return HANDLER_NEXT;
}

/* ---- output ---- */

struct page {
    struct buf out;
    const struct reqstat_zone *zone;
    const struct vec *fields; /* struct str */
};

static int counter_of(const struct reqstat_zone *zone, struct str name)
{
    unsigned at = REQSTAT_FIXED;

    for (int i = 0; i < REQSTAT_FIXED; i++) {
        if (str_equal(name, reqstat_names[i])) {
            return i;
        }
    }
    vec_each(struct variable *, variable, &zone->indicators) {
        if (name.len > 1 && *name.data == '$' && str_equal(str_skip(name, 1), (*variable)->name)) {
            return (int) at;
        }
        at++;
    }
    return -1;
}

/* A key may contain data from a client, so line ends are escaped. */
static void put_key(struct buf *out, struct str key)
{
    size_t size = escape_length(key, ESCAPE_CONTROLS);

    escape_write(buf_reserve(out, size), key, ESCAPE_CONTROLS);
    out->len += size;
}

/* A field that only other zones have is 0 here, so that columns are aligned. */
static void show_record(struct str key, const uint64_t *counters, void *arg)
{
    struct page *page = arg;

    if (counters[REQSTAT_CONN_TOTAL] == 0) {
        return;
    }
    put_key(&page->out, key);
    if (page->fields->count == 0) {
        for (unsigned i = 0; i < reqstat_zone_counters(page->zone); i++) {
            buf_printf(&page->out, ",%llu", (unsigned long long) counters[i]);
        }
    }
    vec_each(const struct str, name, page->fields) {
        int at = counter_of(page->zone, *name);

        buf_printf(&page->out, ",%llu", at == -1 ? 0ull : (unsigned long long) counters[at]);
    }
    buf_append_char(&page->out, '\n');
}

static struct reqstat_zone **zones_of(struct conf *conf)
{
    return conf_state(conf, "reqstat.zones", sizeof(struct reqstat_zone *));
}

/* Without Content-Length, like Tengine, because existing clients expect chunks. */
static enum handler_result send_page(struct request *request, struct buf *page)
{
    struct body_piece piece = {.bytes = arena_dup(&request->arena, buf_str(page)), .fd = -1};

    buf_free(page);
    request->response.status = 200;
    request->response.content_type = STR("text/plain");
    enum handler_result result = response_start(request);
    if (result != HANDLER_NEXT) {
        return result;
    }
    return response_send(request, &piece, true) ? HANDLER_DONE : HANDLER_CLOSED;
}

static enum handler_result reqstat_show(struct request *request)
{
    const struct reqstat_settings *settings = reqstat_settings_at(request->location);
    struct page page = {.fields = &settings->fields};

    if ((request->method & (METHOD_GET | METHOD_HEAD)) == 0) {
        return request_fail(request, 405);
    }
    for (struct reqstat_zone *zone = *zones_of(&generation_now->conf);
         settings->shown.count == 0 && zone != NULL; zone = zone->next) {
        page.zone = zone;
        reqstat_zone_each(zone, show_record, &page);
    }
    vec_each(struct reqstat_zone *, zone, &settings->shown) {
        page.zone = *zone;
        reqstat_zone_each(*zone, show_record, &page);
    }
    return send_page(request, &page.out);
}

/* ---- when the configuration is read ---- */

/* Finds or makes the zone with this name, declared or only referenced so far. */
static struct reqstat_zone *zone_named(struct conf *conf, struct str name)
{
    struct reqstat_zone **at = zones_of(conf);

    while (*at != NULL && !str_equal((*at)->name, name)) {
        at = &(*at)->next;
    }
    if (*at == NULL) {
        *at = arena_new(conf->arena, struct reqstat_zone);
        **at = (struct reqstat_zone){.name = name,
                                     .key_length = KEY_LENGTH,
                                     .recycle_times = 10,
                                     .recycle_seconds = 60};
    }
    return *at;
}

static bool reqstat_zone_apply(struct conf_scope *scope, const struct directive *row,
                               struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct reqstat_zone *zone = zone_named(conf, node->args[1]);

    if (zone->key != NULL) {
        return conf_error(conf, node, "req_status_zone \"%.*s\" is duplicate",
                          STR_ARG(node->args[1]));
    }
    if (template_variable_count(node->args[2]) == 0) {
        return conf_error(conf, node, "the value \"%.*s\" does not contain variables",
                          STR_ARG(node->args[2]));
    }
    if (!parse_size(node->args[3], &zone->size) || zone->size > (uint64_t) 1 << 40) {
        return conf_error(conf, node, "invalid size of zone \"%.*s\"", STR_ARG(node->args[3]));
    }
    if (zone->size < ZONE_LEAST) {
        return conf_error(conf, node, "zone \"%.*s\" is too small", STR_ARG(node->args[1]));
    }
    zone->key = template_compile(conf, node, node->args[2]);
    return zone->key != NULL;
}

static bool key_length_apply(struct conf_scope *scope, const struct directive *row,
                             struct conf_node *node, void *settings)
{
    struct reqstat_zone *zone = zone_named(scope->conf, node->args[1]);

    if (!parse_uint(node->args[2], &zone->key_length) || zone->key_length == 0 ||
        zone->key_length > 4096) {
        return conf_error(scope->conf, node, "invalid key length \"%.*s\"", STR_ARG(node->args[2]));
    }
    return true;
}

static bool recycle_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings)
{
    struct reqstat_zone *zone = zone_named(scope->conf, node->args[1]);

    if (!parse_uint(node->args[2], &zone->recycle_times) ||
        !parse_uint(node->args[3], &zone->recycle_seconds) || zone->recycle_times == 0 ||
        zone->recycle_seconds == 0) {
        return conf_error(scope->conf, node, "invalid numbers \"%.*s %.*s\"",
                          STR_ARG(node->args[2]), STR_ARG(node->args[3]));
    }
    return true;
}

static bool indicator_apply(struct conf_scope *scope, const struct directive *row,
                            struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct reqstat_zone *zone = zone_named(conf, node->args[1]);

    for (unsigned i = 2; i < node->count; i++) {
        struct str name = node->args[i];

        if (name.len < 2 || *name.data != '$') {
            return conf_error(conf, node, "invalid variable name \"%.*s\"", STR_ARG(name));
        }
        if (reqstat_zone_counters(zone) == REQSTAT_MOST) {
            return conf_error(conf, node, "there are more than %u indicators",
                              REQSTAT_MOST - REQSTAT_FIXED);
        }
        struct variable *variable =
            variable_use(conf, node, conf_variables(conf), str_skip(name, 1));
        if (variable == NULL) {
            return false;
        }
        *vec_add(&zone->indicators, conf->arena, struct variable *) = variable;
    }
    return true;
}

static void add_zones(struct conf_scope *scope, const struct conf_node *node, struct vec *zones)
{
    *zones = (struct vec){0};
    for (unsigned i = 1; i < node->count; i++) {
        struct reqstat_zone *zone = zone_named(scope->conf, node->args[i]);

        *vec_add(zones, scope->conf->arena, struct reqstat_zone *) = zone;
    }
}

static bool req_status_apply(struct conf_scope *scope, const struct directive *row,
                             struct conf_node *node, void *settings)
{
    is_used = true;
    add_zones(scope, node, &((struct reqstat_settings *) settings)->zones);
    return true;
}

static bool show_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    add_zones(scope, node, &((struct reqstat_settings *) settings)->shown);
    content_set(scope_location(scope), reqstat_show, NULL);
    return true;
}

static bool field_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    static const struct reqstat_zone none;
    const struct vec *fields = &((struct reqstat_settings *) settings)->fields;

    vec_each(const struct str, name, fields) {
        if ((name->len < 2 || *name->data != '$') && counter_of(&none, *name) == -1) {
            return conf_error(scope->conf, node, "invalid field \"%.*s\"", STR_ARG(*name));
        }
    }
    return true;
}

static bool reqstat_end(struct conf *conf, struct http_main *main)
{
    for (struct reqstat_zone *zone = *zones_of(conf); zone != NULL; zone = zone->next) {
        if (zone->key == NULL) {
            return conf_error(conf, NULL, "req_status_zone \"%.*s\" is unknown",
                              STR_ARG(zone->name));
        }
        if (!reqstat_zone_finish(conf, zone, NULL)) {
            return false;
        }
    }
    return true;
}

#define S struct reqstat_settings
static const struct directive reqstat_rows[] = {
    {"req_status_zone", IN_HTTP, CUSTOM(reqstat_zone_apply), ARGS(3, 3), .repeat = REPEAT_CUSTOM,
     .syntax = "name key size",
     .doc = "Defines a shared memory zone that counts requests by a key, which may contain "
            "variables. The counters are kept over reloads."},
    {"req_status_zone_key_length", IN_HTTP, CUSTOM(key_length_apply), ARGS(2, 2),
     .repeat = REPEAT_CUSTOM, .syntax = "name length",
     .doc = "Maximum length of keys, 152 bytes by default; longer keys are truncated."},
    {"req_status_zone_recycle", IN_HTTP, CUSTOM(recycle_apply), ARGS(3, 3), .repeat = REPEAT_CUSTOM,
     .syntax = "name times seconds",
     .doc = "When the zone is full, the least recently used key is removed if it is used "
            "less often than this number of times in this number of seconds, by default 10 "
            "times in 60 seconds. Otherwise the new key is not counted."},
    {"req_status_zone_add_indicator", IN_HTTP, CUSTOM(indicator_apply), ARGS(2, ARGS_ANY),
     .repeat = REPEAT_CUSTOM, .syntax = "name $variable ...",
     .doc = "Variables whose values are added up for each key."},
    {"req_status", IN_HTTP_ALL, CUSTOM_FIELD(S, zones, req_status_apply), ARGS(1, ARGS_ANY),
     .syntax = "zone ...",
     .doc = "Zones that count the requests of this location, even if they are redirected "
            "internally to another one."},
    {"req_status_bypass", IN_HTTP_ALL, TEMPLATES(S, bypass), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_APPEND,
     .doc = "Disables counting if at least one value is neither empty nor \"0\"."},
    {"req_status_lazy", IN_HTTP_ALL, FLAG(S, is_lazy), .initial = "off",
     .doc = "Whether keys are evaluated when the request is logged instead of at the "
            "beginning of its rewrite phase."},
    {"req_status_show", IN_LOCATION, CUSTOM_FIELD(S, shown, show_apply), ARGS(0, ARGS_ANY),
     .inherit = INHERIT_NEVER, .syntax = "[zone ...]",
     .doc = "Responds with a line for each key of these zones, or of all zones: the key "
            "and its counters, separated by commas."},
    {"req_status_show_field", IN_LOCATION, STRINGS(S, fields), .apply = field_apply,
     ARGS(1, ARGS_ANY), .repeat = REPEAT_APPEND, .syntax = "field | $variable ...",
     .doc = "Counters that are shown after the key, in this order."},
    {0},
};
#undef S

/* A request is counted according to its first location, and may end in another one. */
static bool may_be_counted(const struct http_location *location)
{
    return is_used;
}

static bool reqstat_begin(struct conf *conf, struct http_main *main)
{
    is_used = false;
    return true;
}

static const struct phase_hook reqstat_phases[] = {
    {.phase = PHASE_REWRITE,
     .name = "reqstat",
     .before = "rewrite",
     .run = choose,
     /* Also runs where redirected requests end: everywhere, if there is a zone. */
     .when = SETTING(reqstat_key, struct reqstat_settings, zones.count)},
    {.phase = PHASE_LOG,
     .name = "reqstat",
     .after = "log",
     .run = reqstat_count,
     .is_active = may_be_counted},
    {.run = NULL},
};
static const struct http_module reqstat_hooks = {.phases = reqstat_phases,
                                                 .begin = reqstat_begin,
                                                 .end = reqstat_end};

const struct module ngx_http_reqstat_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_reqstat_module",
    .kind = MODULE_HTTP,
    .table = {.key = &reqstat_key,
              .rows = reqstat_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct reqstat_settings)},
    .hooks = &reqstat_hooks,
};
