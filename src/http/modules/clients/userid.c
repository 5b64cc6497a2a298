/* ngx_http_userid_filter_module: cookies that identify clients. */
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/parse.h"
#include "base/text.h"
#include "http/client/connection.h"
#include "http/request/request.h"
#include "http/routing/hooks.h"
#include "http/variables/variables.h"
#include "server/module.h"

enum userid_mode { USERID_OFF, USERID_LOG, USERID_V1, USERID_ON };

enum userid_flag {
    FLAG_SECURE = 1,
    FLAG_HTTP_ONLY = 2,
    FLAG_STRICT = 4,
    FLAG_LAX = 8,
    FLAG_NONE = 16,
    FLAGS_SAME_SITE = FLAG_STRICT | FLAG_LAX | FLAG_NONE,
};

#define EXPIRES_OFF (-1)
#define EXPIRES_MAX INT64_MAX

struct userid_settings {
    unsigned mode;     /* an enum userid_mode */
    struct str name;   /* of the cookie */
    struct str domain; /* "none": no attribute */
    struct str path;   /* of the cookie */
    struct str p3p;    /* value of the field; "none": not sent */
    int64_t expires_s; /* from now; EXPIRES_OFF, EXPIRES_MAX */
    int64_t service;   /* first word of an id, with has_service */
    bool has_service;  /* false: the server's address is used; 0 in v1 */
    unsigned flags;    /* bits of enum userid_flag */
    char mark;         /* appended to the id; a cookie without it is set again; 0 = none */
};

static struct settings_key userid_key;

TYPED_SETTINGS(userid_settings_at, struct userid_settings, userid_key, struct http_location)

/* An id has 16 bytes: service, time, worker and its start, number. Cookies have it in base64. */
#define ID_SIZE 16
#define ID_TEXT 22 /* characters of an id, without padding; the mark follows */

/* The ids of a request, according to the settings of one location. */
struct userid_state {
    const struct userid_settings *settings; /* the state is valid for these; NULL = none yet */
    bool has_got;
    bool has_set;
    bool is_marked; /* the received id has the configured mark */
    unsigned char got[ID_SIZE];
    unsigned char set[ID_SIZE];
};

/* ---- new ids ---- */

/* Of this worker: unique, because no two processes have the same pid at the same time. */
static uint32_t start_value;
static uint32_t number_v1;
static uint32_t number_v2;

static bool userid_worker_start(struct generation *generation)
{
    struct timeval now;

    gettimeofday(&now, NULL);
    start_value = (uint32_t) (now.tv_usec / 20) << 16 | ((uint32_t) getpid() & 0xffff);
    number_v1 = 1;
    number_v2 = 0x03030302;
    return true;
}

/* The last four bytes of the local address of the connection. */
static uint32_t server_address(struct request *request)
{
    const struct addr *local = connection_local(request->connection);
    uint32_t word = 0;

    if (local->any.sa_family == AF_INET) {
        memcpy(&word, &local->v4.sin_addr, sizeof(word));
    } else if (local->any.sa_family == AF_INET6) {
        memcpy(&word, (const char *) &local->v6.sin6_addr + 12, sizeof(word));
    }
    return ntohl(word);
}

static void put_word(unsigned char *at, uint32_t word, bool is_big_endian)
{
    for (unsigned i = 0; i < 4; i++) {
        at[i] = (unsigned char) (word >> 8 * (is_big_endian ? 3 - i : i));
    }
}

/* In v1 each word has its lowest byte first. */
static void make_id(struct request *request, const struct userid_settings *settings,
                    unsigned char id[ID_SIZE])
{
    bool is_v1 = settings->mode == USERID_V1;
    uint32_t service = settings->has_service ? (uint32_t) settings->service
                       : is_v1               ? 0
                                             : server_address(request);
    uint32_t *number = is_v1 ? &number_v1 : &number_v2;

    put_word(id, service, !is_v1);
    put_word(id + 4, (uint32_t) clock_now.seconds, !is_v1);
    put_word(id + 8, start_value, !is_v1);
    put_word(id + 12, *number, !is_v1);
    *number += 0x100;
    if (!is_v1 && *number < 0x03030302) {
        *number = 0x03030302;
    }
}

/* ---- the received id ---- */

/* The Cookie field that contains this value, for the log. */
static struct str field_of(const struct request *request, struct str value)
{
    fields_each(field, &request->headers) {
        if (!field->is_removed && field->value.data <= value.data &&
            value.data + value.len <= field->value.data + field->value.len) {
            return field->value;
        }
    }
    return value;
}

static void read_cookie(struct request *request, struct userid_state *state)
{
    struct str value;
    struct str id;

    if (!request_cookie(request, state->settings->name, &value)) {
        return;
    }
    struct str field = field_of(request, value);
    if (value.len < ID_TEXT) {
        log_error(&request->log, 0, "client sent too short userid cookie \"%.*s\"", STR_ARG(field));
        return;
    }
    if (!base64_decode(&request->arena, str_head(value, ID_TEXT), false, &id)) {
        log_error(&request->log, 0, "client sent invalid userid cookie \"%.*s\"", STR_ARG(field));
        return;
    }
    memcpy(state->got, id.data, ID_SIZE);
    state->has_got = true;
    state->is_marked = state->settings->mark == 0 ||
                       (value.len > ID_TEXT + 1 && value.data[ID_TEXT] == state->settings->mark &&
                        value.data[ID_TEXT + 1] == '=');
}

/* Makes "name=" and each word in hex, with the first byte lowest. */
static struct str id_text(struct request *request, struct str name, const unsigned char *id)
{
    uint32_t words[4];

    for (unsigned i = 0; i < 4; i++, id += 4) {
        words[i] = id[0] | (uint32_t) id[1] << 8 | (uint32_t) id[2] << 16 | (uint32_t) id[3] << 24;
    }
    return arena_printf(&request->arena, "%.*s=%08X%08X%08X%08X", STR_ARG(name), words[0], words[1],
                        words[2], words[3]);
}

/* $uid_reset: nothing happens if it is empty or "0"; "log" is logged as well. */
static bool is_reset(struct request *request, const struct userid_state *state)
{
    struct str reset;

    if (!variable_get_by_name(&request->env, STR("uid_reset"), &reset) || reset.len == 0 ||
        str_is(reset, "0")) {
        return false;
    }
    if (str_is(reset, "log")) {
        struct str text = id_text(request, state->settings->name, state->got);
        log_notice(&request->log, 0, "userid cookie \"%.*s\" was reset", STR_ARG(text));
    }
    return true;
}

/* ---- the id to set ---- */

/* The state of a request in its current location; NULL if ids are off. */
static struct userid_state *userid_state_of(struct request *request)
{
    const struct userid_settings *settings = userid_settings_at(request->location);

    if (settings->mode == USERID_OFF) {
        return NULL;
    }
    struct userid_state *state = request_data(request, &userid_key, sizeof(*state));
    if (state->settings == settings) {
        return state;
    }
    *state = (struct userid_state){.settings = settings};
    read_cookie(request, state);
    return state;
}

/* Decides, once, which id to set. False: none. */
static bool choose_id(struct request *request, struct userid_state *state)
{
    if (state->has_set || state->settings->mode < USERID_V1) {
        return state->has_set;
    }
    if (!state->has_got || is_reset(request, state)) {
        make_id(request, state->settings, state->set);
        state->has_set = true;
    } else if (!state->is_marked) {
        memcpy(state->set, state->got, ID_SIZE);
        state->has_set = true;
    }
    return state->has_set;
}

static void add_expires(struct request *request, struct vec *parts, int64_t expires_s)
{
    char *text = arena_text(&request->arena, HTTP_DATE_LENGTH);

    if (expires_s == EXPIRES_OFF) {
        return;
    }
    *vec_add(parts, &request->arena, struct str) = STR("; expires=");
    *vec_add(parts, &request->arena, struct str) =
        expires_s == EXPIRES_MAX
            ? STR("Thu, 31-Dec-37 23:55:55 GMT")
            : str_from(text, cookie_date_format(text, clock_now.seconds + (time_t) expires_s));
}

static struct str cookie_text(struct request *request, const struct userid_state *state)
{
    /* clang-format off */
    static const struct directive_word attributes[] = {
        {"; secure", FLAG_SECURE},
        {"; httponly", FLAG_HTTP_ONLY},
        {"; samesite=strict", FLAG_STRICT},
        {"; samesite=lax", FLAG_LAX},
        {"; samesite=none", FLAG_NONE},
        {NULL, 0},
    };
    /* clang-format on */
    const struct userid_settings *settings = state->settings;
    struct arena *arena = &request->arena;
    struct vec parts = {0};
    struct str id = base64_encode(arena, (struct str){(const char *) state->set, ID_SIZE}, false);

    *vec_add(&parts, arena, struct str) = settings->name;
    *vec_add(&parts, arena, struct str) = STR("=");
    *vec_add(&parts, arena, struct str) = str_head(id, ID_TEXT);
    *vec_add(&parts, arena, struct str) =
        settings->mark == 0 ? STR("=") : (struct str){&settings->mark, 1};
    *vec_add(&parts, arena, struct str) = STR("=");
    add_expires(request, &parts, settings->expires_s);
    if (!str_is(settings->domain, "none")) {
        *vec_add(&parts, arena, struct str) = STR("; domain=");
        *vec_add(&parts, arena, struct str) = settings->domain;
    }
    *vec_add(&parts, arena, struct str) = STR("; path=");
    *vec_add(&parts, arena, struct str) = settings->path;
    for (const struct directive_word *attribute = attributes; attribute->word != NULL;
         attribute++) {
        if ((settings->flags & attribute->value) != 0) {
            *vec_add(&parts, arena, struct str) = str_of(attribute->word);
        }
    }
    return arena_join(arena, parts.items, parts.count);
}

static void userid_header(struct request *request)
{
    struct fields *fields = &request->response.fields;
    struct userid_state *state = request == request->main ? userid_state_of(request) : NULL;

    if (state == NULL || !choose_id(request, state)) {
        return;
    }
    fields_add_known(fields, &request->arena, FIELD_SET_COOKIE, cookie_text(request, state));
    if (!str_is(state->settings->p3p, "none")) {
        fields_add(fields, &request->arena, STR("P3P"), state->settings->p3p);
    }
}

static bool userid_is_active(const struct http_location *location)
{
    return userid_settings_at(location)->mode >= USERID_V1;
}

/* ---- variables ---- */

static bool get_got(struct variable_env *env, const struct variable *variable, struct str *out)
{
    struct request *request = variable_request(env)->main;
    const struct userid_state *state = userid_state_of(request);

    return state != NULL && state->has_got &&
           variable_give(out, id_text(request, state->settings->name, state->got));
}

static bool get_set(struct variable_env *env, const struct variable *variable, struct str *out)
{
    struct request *request = variable_request(env)->main;
    struct userid_state *state = userid_state_of(request);

    return state != NULL && choose_id(request, state) &&
           variable_give(out, id_text(request, state->settings->name, state->set));
}

/* It has a value only if `set` assigned one. */
static bool get_reset(struct variable_env *env, const struct variable *variable, struct str *out)
{
    return variable_give(out, STR(""));
}

static const struct variable userid_variables[] = {
    {.name = STR_INIT("uid_got"),
     .doc = "Name and ID of the cookie received from the client.",
     .get = get_got,
     .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("uid_set"),
     .doc = "Name and ID of the cookie that is set.",
     .get = get_set,
     .flags = VARIABLE_VOLATILE},
    {.name = STR_INIT("uid_reset"),
     .doc = "If set to a value that is neither empty nor \"0\", the client gets a new ID; "
            "the value `log` also writes the reset to the error log.",
     .get = get_reset,
     .flags = VARIABLE_CHANGEABLE},
    {.name = {NULL, 0}},
};

/* ---- directives ---- */

/* Reserves $uid_reset, since Lua may be the only one to assign it. */
static bool userid_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    return scope->parent == NULL || /* the default value */
           variable_use(scope->conf, node, conf_variables(scope->conf), STR("uid_reset")) != NULL;
}

static bool service_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings)
{
    ((struct userid_settings *) settings)->has_service = true;
    return true;
}

static bool expires_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings)
{
    struct userid_settings *userid = settings;
    uint64_t seconds;

    if (str_is(node->args[1], "max")) {
        userid->expires_s = EXPIRES_MAX;
    } else if (str_is(node->args[1], "off")) {
        userid->expires_s = EXPIRES_OFF;
    } else if (parse_sec(node->args[1], &seconds) && seconds <= INT32_MAX) {
        userid->expires_s = (int64_t) seconds;
    } else {
        return conf_error(scope->conf, node, "\"userid_expires\" directive invalid value");
    }
    return true;
}

static bool mark_apply(struct conf_scope *scope, const struct directive *row,
                       struct conf_node *node, void *settings)
{
    struct userid_settings *userid = settings;
    struct str word = node->args[1];
    char c = word.len == 1 ? word.data[0] : '\0';

    if (str_is(word, "off")) {
        userid->mark = '\0';
        return true;
    }
    if (!((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '=')) {
        return conf_error(scope->conf, node,
                          "\"userid_mark\" directive value must be \"off\" or a single letter, "
                          "digit or \"=\"");
    }
    userid->mark = c;
    return true;
}

/* clang-format off */
static const struct directive_word mode_words[] = {
    {"off", USERID_OFF},
    {"log", USERID_LOG},
    {"v1", USERID_V1},
    {"on", USERID_ON},
    {NULL, 0},
};
/* clang-format on */

static const struct directive_word flag_words[] = {
    {"off", 0},
    {"secure", FLAG_SECURE},
    {"httponly", FLAG_HTTP_ONLY},
    {"samesite=strict", FLAG_STRICT},
    {"samesite=lax", FLAG_LAX},
    {"samesite=none", FLAG_NONE},
    {NULL, 0},
};

/* A cookie can have only one samesite attribute: the first one wins. */
static bool flags_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    unsigned *flags = &((struct userid_settings *) settings)->flags;
    unsigned first = 0;

    for (unsigned i = 1; i < node->count; i++) {
        const struct directive_word *word = flag_words;
        while (!str_equal_nocase(str_of(word->word), node->args[i])) {
            word++;
        }
        if ((word->value & FLAGS_SAME_SITE) == 0) {
            continue;
        }
        if (first != 0 && word->value != first) {
            conf_warn(scope->conf, node, "duplicate value \"%.*s\"", STR_ARG(node->args[i]));
            *flags &= ~word->value;
        }
        first = first != 0 ? first : word->value;
    }
    return true;
}

#define S struct userid_settings
static const struct directive userid_rows[] = {
    {"userid", IN_HTTP_ALL, ENUM(S, mode, mode_words), .apply = userid_apply, .initial = "off",
     .doc = "Assigns an ID to each client with a cookie in its first response. `v1` sets "
            "cookies of version 1; `log` sets none and only logs those that clients send."},
    {"userid_service", IN_HTTP_ALL, NUMBER(S, service), .apply = service_apply, .syntax = "number",
     .doc = "Number at the beginning of each ID, which identifies the server that issued "
            "it; by default, it is derived from the local address of the connection, and "
            "it is 0 with `userid v1`."},
    {"userid_name", IN_HTTP_ALL, STRING(S, name), .initial = "uid", .doc = "Name of the cookie."},
    {"userid_domain", IN_HTTP_ALL, STRING(S, domain), .initial = "none", .syntax = "name | none",
     .doc = "Attribute Domain of the cookie."},
    {"userid_path", IN_HTTP_ALL, STRING(S, path), .initial = "/",
     .doc = "Attribute Path of the cookie."},
    {"userid_expires", IN_HTTP_ALL, CUSTOM_FIELD(S, expires_s, expires_apply), ARGS(1, 1),
     .initial = "off", .syntax = "time | max | off",
     .doc = "Time for which browsers keep the cookie: `max` is until the end of 2037, "
            "`off` until the end of the session."},
    {"userid_flags", IN_HTTP_ALL, BITS(S, flags, flag_words), ARGS(1, 3), .repeat = REPEAT_APPEND,
     .apply = flags_apply, .initial = "off", .syntax = "off | flag ...",
     .doc = "Attributes of the cookie: secure, httponly, and one of samesite=strict, "
            "samesite=lax and samesite=none."},
    {"userid_p3p", IN_HTTP_ALL, STRING(S, p3p), .initial = "none", .syntax = "string | none",
     .doc = "Value of the field P3P that is sent with the cookie."},
    {"userid_mark", IN_HTTP_ALL, CUSTOM_FIELD(S, mark, mark_apply), ARGS(1, 1), .initial = "off",
     .syntax = "letter | digit | = | off",
     .doc = "Character appended to the ID. A cookie with another character is set again "
            "with the same ID, so that changed attributes take effect."},
    {0},
};
#undef S

static const struct filter_hook userid_filters[] = {
    {.name = "userid", .run = userid_header, .is_active = userid_is_active},
    {.run = NULL},
};
static const struct http_module userid_hooks = {
    .variables = userid_variables,
    .filters = userid_filters,
};

const struct module ngx_http_userid_filter_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_userid_filter_module",
    .kind = MODULE_HTTP,
    .table = {.key = &userid_key,
              .rows = userid_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct userid_settings)},
    .hooks = &userid_hooks,
    .worker_start = userid_worker_start,
};
