/* ngx_http_memc_module: sends commands to memcached; its answers are the responses. */
#include <errno.h>
#include <unistd.h>

#include "base/parse.h"
#include "base/text.h"
#include "http/exchange/exchange.h"
#include "http/exchange/heads/value.h"
#include "http/exchange/options/rows.h"
#include "http/request/body.h"
#include "http/routing/hooks.h"
#include "http/routing/settings.h"
#include "http/variables/variables.h"
#include "server/module.h"

/* Most bytes of a body that becomes a value; memcached's own limit is usually 1 MB. */
#define VALUE_MAX (16 * 1024 * 1024)
#define LINE_MAX 4096 /* bytes of a line of an answer */
#define KEY_MAX 250   /* bytes of a key, memcached's limit */

enum memc_kind {
    MEMC_GET,
    MEMC_STORE,
    MEMC_DELETE,
    MEMC_COUNT,
    MEMC_FLUSH,
    MEMC_STATS,
    MEMC_VERSION
};

/* clang-format off */
static const struct memc_command {
    const char *name;
    enum memc_kind kind;
    unsigned methods; /* methods that select this command if $memc_cmd is not set */
} commands[] = {
    {"get", MEMC_GET, METHOD_GET | METHOD_HEAD},
    {"set", MEMC_STORE, METHOD_PUT},
    {"add", MEMC_STORE, METHOD_POST},
    {"replace", MEMC_STORE, 0},
    {"append", MEMC_STORE, 0},
    {"prepend", MEMC_STORE, 0},
    {"delete", MEMC_DELETE, METHOD_DELETE},
    {"incr", MEMC_COUNT, 0},
    {"decr", MEMC_COUNT, 0},
    {"flush_all", MEMC_FLUSH, 0},
    {"stats", MEMC_STATS, 0},
    {"version", MEMC_VERSION, 0},
};
/* clang-format on */
#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

/* Settings of a location, besides those of the family. */
struct memc_settings {
    struct pass_target target;
    struct vec allowed; /* struct str: allowed commands; none = all */
    bool tells_modification;
    const struct variable *command, *key, *flags, *exptime, *value; /* NULL without memc_pass */
};

/* In the request's arena, used for all attempts. */
struct memc_state {
    const struct memc_command *command;
    struct value_reading value; /* its key is empty if the command has none */
    bool is_value;              /* the answer is a value */
    bool has_ended;             /* all lines were read */
    /* The answer says that the command was not understood, so it is unknown what follows. */
    bool is_misread;
};

static struct settings_key memc_key;
static struct settings_key memc_family_key;
static const struct exchange_family memc_family;

/* ---- the request ---- */

/* The value of a variable; empty if it has none. */
static struct str value_of(struct exchange *x, const struct variable *variable)
{
    struct str text = STR_NONE;

    return variable_get(&x->request->env, variable, &text) ? text : STR_NONE;
}

static bool memc_refuse(struct exchange *x, unsigned status)
{
    x->request->response.status = status;
    return false;
}

static const struct memc_command *find_command(struct exchange *x, struct str name)
{
    const struct request *request = x->request;

    for (size_t i = 0; i < COMMANDS; i++) {
        if (name.len != 0 ? str_is(name, commands[i].name)
                          : (commands[i].methods & request->method) != 0) {
            return &commands[i];
        }
    }
    if (name.len != 0) {
        log_error(&request->log, 0, "ngx_memc: unknown $memc_cmd \"%.*s\"", STR_ARG(name));
    } else {
        log_error(&request->log, 0, "ngx_memc: $memc_cmd variable not found for HTTP %.*s requests",
                  STR_ARG(request->method_name));
    }
    return NULL;
}

static bool is_allowed(struct exchange *x, const struct memc_command *command)
{
    const struct memc_settings *own = x->module_settings;

    vec_each(const struct str, name, &own->allowed) {
        if (str_is(*name, command->name)) {
            return true;
        }
    }
    if (own->allowed.count != 0) {
        log_error(&x->request->log, 0, "ngx_memc: memcached command \"%s\" not allowed",
                  command->name);
    }
    return own->allowed.count == 0;
}

/* Reads a variable as a number up to `most`; empty if the variable is. */
static bool memc_read_number(struct exchange *x, const struct variable *variable, uint64_t most,
                             struct str *out)
{
    uint64_t number;

    *out = value_of(x, variable);
    if (out->len == 0 || (parse_uint(*out, &number) && number <= most)) {
        return true;
    }
    log_error(&x->request->log, 0, "variable \"$%.*s\" takes invalid value: %.*s",
              STR_ARG(variable->name), STR_ARG(*out));
    return false;
}

/* The same; "0" if the variable is empty. */
static bool read_number_or_zero(struct exchange *x, const struct variable *variable, uint64_t most,
                                struct str *out)
{
    if (!memc_read_number(x, variable, most, out)) {
        return false;
    }
    if (out->len == 0) {
        *out = STR("0");
        variable_assign(&x->request->env, variable, *out);
    }
    return true;
}

/* Is it a valid key for memcached? With an invalid one, memcached would interpret the value of a
 * `set`, which may come from the client, as commands. */
static bool is_key(const struct exchange *x, struct str key)
{
    if (key.len == 0) {
        log_error(&x->request->log, 0, "the \"$memc_key\" variable is not set");
    } else if (key.len > KEY_MAX) {
        log_error(&x->request->log, 0, "the \"$memc_key\" variable is too long: %zu bytes",
                  key.len);
    }
    return key.len != 0 && key.len <= KEY_MAX;
}

/* Reads the client's body, even from a file. Blocks on the disk. False: it is too large, or cannot
 * be read. */
static bool body_bytes(struct exchange *x, struct str *out)
{
    const struct request_body *body = request_passed_body(x->request);
    size_t done = 0;

    *out = body == NULL ? STR("") : body->bytes;
    if (body == NULL || body->fd == -1 || body->size == 0) {
        return true;
    }
    if (body->size > VALUE_MAX) {
        return memc_refuse(x, 413);
    }
    arena_allow(&x->request->arena, (size_t) body->size);
    char *buffer = arena_text(&x->request->arena, (size_t) body->size);
    while (done < body->size) {
        ssize_t n = pread(body->fd, buffer + done, (size_t) body->size - done, (off_t) done);
        if (n <= 0 && errno != EINTR) {
            log_crit(&x->request->log, errno, "pread() \"%.*s\" failed", STR_ARG(body->file_name));
            return memc_refuse(x, 500);
        }
        done += n > 0 ? (size_t) n : 0;
    }
    *out = (struct str){buffer, done};
    return true;
}

/* Makes "set key flags exptime length", and the value. With a number that memcached refuses, it
 * would interpret the value as commands. */
static bool make_store(struct exchange *x, const struct memc_state *state)
{
    const struct memc_settings *own = x->module_settings;
    struct arena *arena = &x->request->arena;
    struct str flags;
    struct str exptime;
    struct str value;

    if (!read_number_or_zero(x, own->flags, UINT32_MAX, &flags) ||
        !read_number_or_zero(x, own->exptime, INT64_MAX, &exptime)) {
        return memc_refuse(x, 400);
    }
    if (!variable_get(&x->request->env, own->value, &value) && !body_bytes(x, &value)) {
        return false;
    }
    const struct str parts[] = {
        arena_printf(arena, "%s %.*s %.*s %.*s %zu\r\n", state->command->name,
                     STR_ARG(state->value.key), STR_ARG(flags), STR_ARG(exptime), value.len),
        value,
        STR("\r\n"),
    };
    x->head = arena_join(arena, parts, 3);
    return true;
}

/* Makes a command of one line, with or without a number at its end. */
static bool make_line(struct exchange *x, const struct memc_state *state)
{
    const struct memc_settings *own = x->module_settings;
    enum memc_kind kind = state->command->kind;
    struct str number = STR_NONE;
    bool is_sound = true;

    if (kind == MEMC_COUNT) {
        uint64_t count;

        number = value_of(x, own->value);
        is_sound = parse_uint(number, &count);
        if (!is_sound) {
            log_error(&x->request->log, 0,
                      "variable \"$memc_value\" is invalid for incr/decr: %.*s", STR_ARG(number));
        }
    } else if (kind == MEMC_DELETE || kind == MEMC_FLUSH) {
        is_sound = memc_read_number(x, own->exptime, INT64_MAX, &number);
    }
    if (!is_sound) {
        return memc_refuse(x, 400);
    }
    x->head = arena_printf(&x->request->arena, "%s%s%.*s%s%.*s\r\n", state->command->name,
                           state->value.key.len != 0 ? " " : "", STR_ARG(state->value.key),
                           number.len != 0 ? " " : "", STR_ARG(number));
    return true;
}

static bool memc_make_request(struct exchange *x)
{
    const struct memc_settings *own = x->module_settings;
    struct request *request = x->request;
    struct memc_state *state = arena_new(&request->arena, struct memc_state);

    x->state = state;
    state->command = find_command(x, value_of(x, own->command));
    if (state->command == NULL) {
        return memc_refuse(x, 400);
    }
    if (!is_allowed(x, state->command)) {
        return memc_refuse(x, 403);
    }
    if (state->command->kind < MEMC_FLUSH) {
        state->value.key = escape_str(&request->arena, value_of(x, own->key), ESCAPE_MEMCACHED);
        if (!is_key(x, state->value.key)) {
            return memc_refuse(x, 400);
        }
    }
    return state->command->kind == MEMC_STORE ? make_store(x, state) : make_line(x, state);
}

/* ---- the response ---- */

static void memc_begin_response(struct exchange *x)
{
    struct memc_state *state = x->state;

    value_begin(&state->value);
    state->is_value = state->has_ended = state->is_misread = false;
}

static enum head_result memc_read_value(struct exchange *x, struct str line)
{
    const struct memc_settings *own = x->module_settings;
    struct memc_state *state = x->state;
    struct memcached_value value;
    char digits[20];

    if (!value_announced(x, &state->value, line, &value)) {
        return HEAD_BAD;
    }
    state->is_value = true;
    struct str flags =
        arena_dup(&x->request->arena, str_from(digits, format_uint(digits, value.flags)));
    variable_assign(&x->request->env, own->flags, flags);
    if (own->tells_modification && value.flags <= UINT32_MAX) {
        char *date = arena_text(&x->request->arena, HTTP_DATE_LENGTH);
        fields_add_known(&x->response.fields, &x->request->arena, FIELD_LAST_MODIFIED,
                         str_from(date, http_date_format(date, (time_t) value.flags)));
    }
    return HEAD_DONE;
}

/* The status for a line that is the whole answer; 0: the line has another meaning for this
 * command. */
static unsigned status_of(const struct memc_state *state, struct str line)
{
    enum memc_kind kind = state->command->kind;

    if (kind == MEMC_GET) {
        return 0; /* an error is not a value, as with memcached_pass */
    }
    if (str_is(line, "ERROR") || str_starts(line, STR("CLIENT_ERROR")) ||
        str_starts(line, STR("SERVER_ERROR"))) {
        return 502;
    }
    switch (kind) {
    case MEMC_STORE:
        return str_is(line, "STORED")                                 ? 201
               : str_is(line, "NOT_STORED") || str_is(line, "EXISTS") ? 200
                                                                      : 0;
    case MEMC_DELETE:
        return str_is(line, "DELETED") ? 200 : 0;
    case MEMC_COUNT:
        return line.len != 0 && ascii_is_digit((unsigned char) *line.data) ? 201 : 0;
    case MEMC_FLUSH:
        return str_is(line, "OK") ? 200 : 0;
    case MEMC_STATS:
        return str_starts(line, STR("STAT ")) || str_is(line, "END") ? 200 : 0;
    case MEMC_VERSION:
        return str_starts(line, STR("VERSION ")) ? 200 : 0;
    default:
        return 0;
    }
}

/* The first line has the result. The line before a value is consumed; otherwise the line is the
 * body, or the first part of it. */
static enum head_result memc_read_head(struct exchange *x)
{
    struct memc_state *state = x->state;
    struct str line;
    enum head_result result = value_line(x, &line);

    if (result != HEAD_DONE) {
        return result;
    }
    unsigned status = status_of(state, line);
    if (status != 0) {
        state->is_misread = status == 502 && !str_starts(line, STR("SERVER_ERROR"));
        x->response.status = status;
        x->response.content_length =
            state->command->kind == MEMC_STATS && status == 200 ? -1 : (int64_t) line.len + 2;
        response_set_type(x->request);
        return HEAD_DONE;
    }
    if (str_is(line, state->command->kind == MEMC_GET ? "END" : "NOT_FOUND")) {
        result = value_not_found(x);
    } else if (state->command->kind == MEMC_GET && str_starts(line, STR("VALUE "))) {
        result = memc_read_value(x, line);
    } else {
        return value_refuse(x, line);
    }
    exchange_consume(x, line.len + 2);
    return result;
}

/* Reads one line of an answer that is not a value; only stats has several. */
static enum body_result read_lines(struct exchange *x, struct str *data)
{
    struct memc_state *state = x->state;
    struct str input = exchange_input(x);
    const char *end = input.len == 0 ? NULL : memchr(input.data, '\n', input.len);

    if (state->has_ended) {
        x->is_reusable = !state->is_misread;
        return BODY_END;
    }
    if (end == NULL) {
        if (input.len < LINE_MAX) {
            return BODY_MORE;
        }
        value_refuse(x, input);
        return BODY_BAD;
    }
    *data = str_from(input.data, end + 1);
    state->has_ended = x->response.content_length != -1 || str_is(*data, "END\r\n");
    exchange_consume(x, data->len);
    return BODY_DATA;
}

static enum body_result memc_read_body(struct exchange *x, struct str *data)
{
    struct memc_state *state = x->state;

    if (x->response.has_no_body) {
        return BODY_END;
    }
    return state->is_value ? value_read(x, &state->value, data) : read_lines(x, data);
}

static const struct protocol memc_protocol = {
    .family = &memc_family,
    .name = STR_INIT("memcached"),
    .channel = &whole_connection,
    .make_request = memc_make_request,
    .begin_response = memc_begin_response,
    .read_head = memc_read_head,
    .read_body = memc_read_body,
};

/* MAY WAIT. */
static enum handler_result memc_answer(struct request *request)
{
    const struct memc_settings *own = location_settings(request->location, &memc_key);
    const struct exchange_settings *settings =
        location_settings(request->location, &memc_family_key);
    enum handler_result result = request_read_body(request); /* it may be the value */

    if (result != HANDLER_NEXT) {
        return result;
    }
    struct exchange *x = exchange_new(request, &memc_protocol, settings, own);
    exchange_set_target(x, &own->target);
    x->body_mode = SENT_BODY_NONE;
    return exchange_run(x);
}

/* ---- variables ---- */

/* These variables have a value only if `set`, `map` or an answer assigned one. */
static bool get_none(struct variable_env *env, const struct variable *variable, struct str *out)
{
    return false;
}

static bool get_flags_time(struct variable_env *env, const struct variable *variable,
                           struct str *out)
{
    struct str flags;
    uint64_t seconds;

    if (!variable_get_by_name(env, STR("memc_flags"), &flags) || !parse_uint(flags, &seconds) ||
        seconds > UINT32_MAX) {
        return false;
    }
    char *date = arena_text(env->arena, HTTP_DATE_LENGTH);
    return variable_give(out, str_from(date, http_date_format(date, (time_t) seconds)));
}

static const struct variable memc_variables[] = {
    {.name = STR_INIT("memc_cmd"),
     .doc = "Command of `memc_pass`, for example `get`; required for commands that the "
            "request method does not select.",
     .get = get_none,
     .flags = VARIABLE_CHANGEABLE},
    {.name = STR_INIT("memc_key"),
     .doc = "Key of `memc_pass`; must be set.",
     .get = get_none,
     .flags = VARIABLE_CHANGEABLE},
    {.name = STR_INIT("memc_flags"),
     .doc = "Flags of the value.",
     .get = get_none,
     .flags = VARIABLE_CHANGEABLE},
    {.name = STR_INIT("memc_exptime"),
     .doc = "Expiration time of the value, in seconds.",
     .get = get_none,
     .flags = VARIABLE_CHANGEABLE},
    {.name = STR_INIT("memc_value"),
     .doc = "Value to store, in place of the request body.",
     .get = get_none,
     .flags = VARIABLE_CHANGEABLE},
    {.name = STR_INIT("memc_flags_as_http_time"),
     .doc = "Flags of the value as an HTTP date, for Last-Modified.",
     .get = get_flags_time,
     .flags = VARIABLE_VOLATILE},
    {.name = {NULL, 0}},
};

/* ---- directives ---- */

static bool memc_pass_apply(struct conf_scope *scope, const struct directive *row,
                            struct conf_node *node, void *settings)
{
    struct memc_settings *own = settings;
    struct variable_set *set = conf_variables(scope->conf);

    own->command = variable_use(scope->conf, node, set, STR("memc_cmd"));
    own->key = variable_use(scope->conf, node, set, STR("memc_key"));
    own->flags = variable_use(scope->conf, node, set, STR("memc_flags"));
    own->exptime = variable_use(scope->conf, node, set, STR("memc_exptime"));
    own->value = variable_use(scope->conf, node, set, STR("memc_value"));
    return own->command != NULL && own->key != NULL && own->flags != NULL && own->exptime != NULL &&
           own->value != NULL && pass_target_read(scope, node, node->args[1], 0, &own->target) &&
           pass_handler_set(scope, node, memc_answer);
}

static bool allowed_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings)
{
    for (unsigned i = 1; i < node->count; i++) {
        size_t command = 0;
        while (command < COMMANDS && !str_is(node->args[i], commands[command].name)) {
            command++;
        }
        if (command == COMMANDS) {
            return conf_error(scope->conf, node, "memcached command \"%.*s\" not supported",
                              STR_ARG(node->args[i]));
        }
    }
    return true;
}

#define S struct memc_settings
static const struct directive memc_rows[] = {
    {"memc_pass", IN_LOCATION | IN_LOCATION_IF, CUSTOM_FIELD(S, target, memc_pass_apply),
     ARGS(1, 1), .syntax = "address",
     .doc = "Passes requests to a memcached server or a group of them. The command is "
            "`$memc_cmd`: get, set, add, replace, append, prepend, delete, incr, decr, "
            "flush_all, stats or version. If it is not set, the request method selects it: "
            "get for GET and HEAD, set for PUT, add for POST, delete for DELETE. The value "
            "to store is `$memc_value`, or the request body."},
    {"memc_cmds_allowed", IN_HTTP_ALL | IN_LOCATION_IF, STRINGS(S, allowed), .apply = allowed_apply,
     .syntax = "command ...", .doc = "Commands that are allowed; others are answered with 403."},
    {"memc_flags_to_last_modified", IN_HTTP_ALL | IN_LOCATION_IF, FLAG(S, tells_modification),
     .initial = "off",
     .doc = "Whether the flags of an entry are sent as Last-Modified, as a time in seconds "
            "since the Epoch."},
    {0},
};
#undef S

static const struct directive memc_family_rows[] = {
    EXCHANGE_CONNECT_ROWS("memc", bare_next_upstream_words),
    {0},
};

static const struct directive_table memc_table = {
    .key = &memc_key,
    .rows = memc_rows,
    .contexts = IN_HTTP_LOCATION_SETTINGS,
    .size = sizeof(struct memc_settings),
};
static const struct exchange_family memc_family = {
    .prefix = "memc",
    .table = EXCHANGE_TABLE(memc_family_key, memc_family_rows, exchange_bare_finish),
};
static const struct directive_table *const memc_tables[] = {&memc_table, &memc_family.table, NULL};
static const struct http_module memc_hooks = {.variables = memc_variables};

const struct module ngx_http_memc_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_memc_module",
    .kind = MODULE_HTTP,
    .tables = memc_tables,
    .hooks = &memc_hooks,
};
