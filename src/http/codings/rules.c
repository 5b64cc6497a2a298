/* Rules about clients and proxies: the gzip_* rows of ngx_http_core_module. */
#include "http/message/agent.h"
#include "http/codings/rules.h"

#include "base/clock.h"
#include "base/parse.h"
#include "http/request/degraded.h"
#include "http/request/request.h"

/* Which responses to requests with a Via field are compressed. */
enum gzip_proxied {
    PROXIED_OFF = 1 << 0, /* none, regardless of the other bits */
    PROXIED_EXPIRED = 1 << 1,
    PROXIED_NO_CACHE = 1 << 2,
    PROXIED_NO_STORE = 1 << 3,
    PROXIED_PRIVATE = 1 << 4,
    PROXIED_NO_LAST_MODIFIED = 1 << 5,
    PROXIED_NO_ETAG = 1 << 6,
    PROXIED_AUTH = 1 << 7,
    PROXIED_ANY = 1 << 8,
};

/* Settings of a location. */
struct gzip_rules {
    unsigned http_version;   /* an enum http_version: requests of older versions get no compressed
                                response */
    unsigned proxied;        /* bits of enum gzip_proxied */
    struct vec disabled_for; /* struct regex *: for User-Agent */
    bool disabled_for_msie6; /* gzip_disable "msie6": faster than the regular expression */
    bool is_disabled_when_degraded; /* gzip_disable "degradation" */
    bool varies;                    /* gzip_vary */
    uint64_t memory_limit;          /* most bytes of codecs in use in a worker; 0 = unlimited */
};

/* clang-format off */
static const struct directive_word version_words[] = {
    {"1.0", HTTP_1_0},
    {"1.1", HTTP_1_1},
    {NULL, 0},
};

static const struct directive_word proxied_words[] = {
    {"off", PROXIED_OFF},
    {"expired", PROXIED_EXPIRED},
    {"no-cache", PROXIED_NO_CACHE},
    {"no-store", PROXIED_NO_STORE},
    {"private", PROXIED_PRIVATE},
    {"no_last_modified", PROXIED_NO_LAST_MODIFIED},
    {"no_etag", PROXIED_NO_ETAG},
    {"auth", PROXIED_AUTH},
    {"any", PROXIED_ANY},
    {NULL, 0},
};
/* clang-format on */

static bool disable_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings)
{
    struct gzip_rules *rules = settings;
    bool is_ok = true;

    if (!conf_is_set(scope, &http_gzip_key, row->name)) {
        rules->disabled_for = (struct vec){0};
        rules->disabled_for_msie6 = false;
        rules->is_disabled_when_degraded = false;
    }
    for (unsigned i = 1; i < node->count; i++) {
        if (str_is(node->args[i], "msie6")) {
            rules->disabled_for_msie6 = true;
            continue;
        }
        if (str_is(node->args[i], "degradation")) {
            rules->is_disabled_when_degraded = true;
            continue;
        }
        struct regex *regex = regex_compile(scope->conf, node, node->args[i], true, false);
        is_ok &= regex != NULL;
        *vec_add(&rules->disabled_for, scope->conf->arena, struct regex *) = regex;
    }
    return is_ok;
}

#define S struct gzip_rules
static const struct directive rows[] = {
    {"gzip_http_version", IN_HTTP_ALL, ENUM(S, http_version, version_words), .initial = "1.1",
     .doc = "Least version of a request whose response may be compressed."},
    {"gzip_proxied", IN_HTTP_ALL, BITS(S, proxied, proxied_words), .initial = "off",
     .repeat = REPEAT_APPEND,
     .doc = "Which responses are compressed for requests that came through a proxy (Via)."},
    {"gzip_disable", IN_HTTP_ALL, CUSTOM_FIELD(S, disabled_for, disable_apply), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_APPEND, .syntax = "regex | msie6 | degradation ...",
     .doc = "Nothing is compressed for clients whose User-Agent matches; msie6 means MSIE 4 to 6, "
            "but for 6 with SV1; degradation: nothing is compressed while the worker uses more "
            "memory than `degradation` allows."},
    {"gzip_vary", IN_HTTP_ALL, FLAG(S, varies), .initial = "off",
     .doc =
         "Adds Vary: Accept-Encoding where a response could be compressed, unpacked or replaced by "
         "a compressed file."},
    {"compression_memory_limit", IN_HTTP_ALL, SIZE(S, memory_limit), .initial = "512m",
     .doc =
         "Memory that the compressors at work may take in a worker, about; beyond it responses leave as they are. "
         "0 is no limit."},
    {0},
};
#undef S

struct settings_key http_gzip_key;
const struct directive_table http_gzip_table = {.key = &http_gzip_key,
                                                .rows = rows,
                                                .contexts = IN_HTTP_LOCATION_SETTINGS,
                                                .size = sizeof(struct gzip_rules),
                                                .module_name = "ngx_http_core_module"};

/* ---- gzip_disable ---- */

static bool is_disabled(struct request *request, const struct gzip_rules *rules)
{
    const struct field *agent = fields_get(&request->headers, FIELD_USER_AGENT);

    if (rules->is_disabled_when_degraded && request_is_degraded(request)) {
        return true;
    }
    if (agent == NULL) {
        return false;
    }
    if (rules->disabled_for_msie6 && agent_is_msie6(agent->value)) {
        return true;
    }
    vec_each(struct regex *, regex, &rules->disabled_for) {
        if (regex_match(*regex, agent->value, NULL, &request->log)) {
            return true;
        }
    }
    return false;
}

/* ---- gzip_proxied ---- */

/* Does a Cache-Control field have this directive? */
static bool has_cache_control(const struct request *request, struct str word)
{
    fields_each(field, &request->response.fields) {
        if (field->id == FIELD_CACHE_CONTROL && !field->is_removed && field_lists(field, word)) {
            return true;
        }
    }
    return false;
}

static bool is_expired(const struct request *request, struct str expires)
{
    const struct field *date = fields_get(&request->response.fields, FIELD_DATE);
    time_t end = http_date_parse_loosely(expires);
    time_t now = date == NULL ? -1 : http_date_parse(date->value);

    return end != -1 && end < (now == -1 ? (time_t) clock_now.seconds : now);
}

/* As in nginx: if the response has fields about its lifetime (Expires, then Cache-Control), these
 * decide; a response without any is compressed, unless the settings about validators forbid it. */
static bool agrees_for_proxies(struct request *request, unsigned proxied)
{
    const struct response *response = &request->response;
    const struct field *expires = fields_get(&response->fields, FIELD_EXPIRES);

    if ((proxied & PROXIED_OFF) != 0) {
        return false;
    }
    if ((proxied & PROXIED_ANY) != 0 ||
        ((proxied & PROXIED_AUTH) != 0 &&
         fields_get(&request->headers, FIELD_AUTHORIZATION) != NULL)) {
        return true;
    }
    if (expires != NULL) {
        return (proxied & PROXIED_EXPIRED) != 0 && is_expired(request, expires->value);
    }
    if (fields_get(&response->fields, FIELD_CACHE_CONTROL) != NULL) {
        return ((proxied & PROXIED_NO_CACHE) != 0 && has_cache_control(request, STR("no-cache"))) ||
               ((proxied & PROXIED_NO_STORE) != 0 && has_cache_control(request, STR("no-store"))) ||
               ((proxied & PROXIED_PRIVATE) != 0 && has_cache_control(request, STR("private")));
    }
    return ((proxied & PROXIED_NO_LAST_MODIFIED) == 0 || response->last_modified == -1) &&
           ((proxied & PROXIED_NO_ETAG) == 0 || response->etag.len == 0);
}

bool gzip_rules_allow(struct request *request)
{
    const struct gzip_rules *rules = location_settings(request->location, &http_gzip_key);

    return request->head.version >= rules->http_version && !is_disabled(request, rules) &&
           (fields_get(&request->headers, FIELD_VIA) == NULL ||
            agrees_for_proxies(request, rules->proxied));
}

uint64_t compression_memory_limit(const struct request *request)
{
    const struct gzip_rules *rules = location_settings(request->location, &http_gzip_key);

    return rules->memory_limit;
}

bool gzip_varies(const struct request *request)
{
    return ((const struct gzip_rules *) location_settings(request->location, &http_gzip_key))
        ->varies;
}

void response_varies_by_encoding(struct request *request)
{
    static const struct str own = STR_INIT("Accept-Encoding");

    if (!gzip_varies(request)) {
        return;
    }
    fields_each(field, &request->response.fields) {
        if (field->value.data == own.data && !field->is_removed) {
            return;
        }
        if (field->id == FIELD_VARY && field->is_list && !field->is_removed) {
            const struct str parts[] = {field->value, STR(", "), own};

            if (!str_ends(field->value, own)) {
                field->value = arena_join(&request->arena, parts, 3);
            }
            return;
        }
    }
    fields_add_known(&request->response.fields, &request->arena, FIELD_VARY, own)->is_early = true;
    request->response.order.has_early_field = true;
}
