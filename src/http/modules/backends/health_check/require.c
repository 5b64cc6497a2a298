/* `require` of a match block: the response to a probe as a subject of variables. */
#include "base/parse.h"
#include "http/modules/backends/health_check/match.h"

/* The subject: a probe, and the response to it. */
struct probed {
    struct variable_env env;
    const struct health_probe *probe;
    const struct probe_response *response;
};

static const struct probed *probed_of(struct variable_env *env)
{
    return container_of(env, struct probed, env);
}

#define GETTER(name)                                                                               \
    static bool name(struct variable_env *env, const struct variable *variable, struct str *out)

static bool give_value(struct str value, struct str *out)
{
    *out = value;
    return true;
}

static bool give_number(struct variable_env *env, uint64_t number, struct str *out)
{
    char *digits = arena_text(env->arena, 20);

    return give_value(str_from(digits, format_uint(digits, number)), out);
}

GETTER(get_status)
{
    return give_number(env, probed_of(env)->response->status, out);
}

GETTER(get_length)
{
    return give_number(env, probed_of(env)->response->body.len, out);
}

GETTER(get_peer)
{
    return give_value(probed_of(env)->probe->peer->name, out);
}

GETTER(get_group)
{
    return give_value(probed_of(env)->probe->group->name, out);
}

GETTER(get_field)
{
    return fields_by_variable_name(&probed_of(env)->response->fields, env->arena, variable->rest,
                                   out);
}

GETTER(get_cookie)
{
    return fields_set_cookie(&probed_of(env)->response->fields, variable->rest, out);
}

/* Constant properties of every probe: a simple request without a body, whose times are not
 * measured. */
GETTER(get_text)
{
    return give_value(str_of((const char *) variable->data), out);
}
#define TEXT(text) .get = get_text, .data = (uintptr_t) (text)

static const struct variable probe_variables[] = {
    {.name = STR_INIT("status"), .get = get_status},
    {.name = STR_INIT("host"), .get = get_group},
    {.name = STR_INIT("upstream_addr"), .get = get_peer},
    {.name = STR_INIT("upstream_last_addr"), .get = get_peer},
    {.name = STR_INIT("upstream_status"), .get = get_status},
    {.name = STR_INIT("upstream_response_length"), .get = get_length},
    {.name = STR_INIT("upstream_http_"), .get = get_field, .flags = VARIABLE_PREFIX},
    {.name = STR_INIT("upstream_cookie_"), .get = get_cookie, .flags = VARIABLE_PREFIX},
    {.name = STR_INIT("request"), TEXT("GET / HTTP/1.1")},
    {.name = STR_INIT("request_method"), TEXT("GET")},
    {.name = STR_INIT("request_uri"), TEXT("/")},
    {.name = STR_INIT("uri"), TEXT("/")},
    {.name = STR_INIT("server_protocol"), TEXT("HTTP/1.1")},
    {.name = STR_INIT("scheme"), TEXT("http")},
    {.name = STR_INIT("connection_requests"), TEXT("1")},
    {.name = STR_INIT("pipe"), TEXT(".")},
    {.name = STR_INIT("upstream_connect_time"), TEXT("0.000")},
    {.name = STR_INIT("upstream_header_time"), TEXT("0.000")},
    {.name = STR_INIT("upstream_response_time"), TEXT("0.000")},
    {.name = STR_INIT("upstream_bytes_sent"), TEXT("0")},
    {.name = STR_INIT("upstream_bytes_received"), TEXT("0")},
    {.name = STR_NONE},
};

static const struct subject_kind probe_subject = {.name = "probe", .variables = probe_variables};

bool match_required(const struct vec *required, const struct variable_set *set,
                    const struct health_probe *probe, const struct probe_response *response)
{
    struct probed probed = {
        .env = {.kind = &probe_subject, .set = set, .arena = probe->arena, .log = probe->log},
        .probe = probe,
        .response = response,
    };
    bool are_good = true;

    vec_each(struct template *const, text, required) {
        struct str value = template_text(*text, &probed.env);
        are_good &= value.len != 0 && !str_equal(value, STR("0"));
    }
    return are_good;
}
