/* ngx_stream_mqtt_filter_module: replaces the client id, user name and password of an MQTT client's
 * CONNECT. */
#include "server/generation.h"
#include "server/module.h"
#include "stream/session/hooks.h"
#include "stream/session/session.h"
#include "stream/words/mqtt.h"

/* A member without a comment is the value of the directive of its name. */
struct mqtt_settings {
    bool is_on;
    struct buffers buffers;
    uint64_t rewrite_buffer_size;
    uint64_t most_read, most_written;          /* derived: largest CONNECT in bytes */
    struct template *fields[MQTT_FIELD_COUNT]; /* of mqtt_set_connect; NULL: unchanged */
};

static struct settings_key mqtt_key;

static const char *const field_names[] =
    {[MQTT_CLIENTID] = "clientid", [MQTT_USERNAME] = "username", [MQTT_PASSWORD] = "password"};

/* ---- a session ---- */

static enum session_step refuse_size(struct session *session, size_t size)
{
    counters_mine->limited++;
    log_error(&session->log, 0, "MQTT CONNECT packet is too large: %zu bytes", size);
    return session_fail(session, SESSION_BAD_REQUEST);
}

/* False: a value is longer than MQTT allows (logged). */
static bool set_fields(struct session *session, const struct mqtt_settings *settings,
                       struct mqtt_connect *connect)
{
    for (enum mqtt_field field = 0; field < MQTT_FIELD_COUNT; field++) {
        if (settings->fields[field] == NULL) {
            continue;
        }
        struct str value = template_text(settings->fields[field], &session->env);
        if (value.len > MQTT_TEXT_MAX) {
            log_error(&session->log, 0, "mqtt_set_connect %s: %zu bytes are more than MQTT has",
                      field_names[field], value.len);
            return false;
        }
        mqtt_connect_set(connect, field, value);
    }
    return true;
}

/* Replaces the message; the input after it is unchanged. */
static enum session_step rewrite(struct session *session, const struct mqtt_settings *settings,
                                 struct mqtt_connect *connect)
{
    if (!set_fields(session, settings, connect)) {
        return session_fail(session, SESSION_INTERNAL_ERROR);
    }
    size_t size = mqtt_connect_size(connect);
    if (size > settings->most_written) {
        return refuse_size(session, size);
    }
    char *text = conn_buffer_alloc((uint32_t) size);
    mqtt_connect_write(connect, text);
    session_replace_input(session, connect->size, (struct str){text, size});
    conn_buffer_free(text, (uint32_t) size);
    return SESSION_NEXT;
}

/* Runs in preread after the modules that look at the client's own input: those are listed after
 * this module in auto/modules, and later modules run first. */
static enum session_step filter(struct session *session)
{
    const struct mqtt_settings *settings = stream_settings(session->server, &mqtt_key);
    struct str input = session_input(session);
    struct mqtt_connect connect;

    if (!session_has_connection(session)) {
        return SESSION_NEXT; /* UDP, which does not carry MQTT */
    }
    if (input.len == 0) {
        return SESSION_MORE;
    }
    enum mqtt_result result = mqtt_connect_read(input, &connect);
    if (result == MQTT_NONE) {
        log_info(&session->log, 0, "client did not send an MQTT CONNECT packet");
        return session_fail(session, SESSION_BAD_REQUEST);
    }
    if (connect.size > settings->most_read) {
        return refuse_size(session, connect.size);
    }
    return result == MQTT_MORE ? SESSION_MORE : rewrite(session, settings, &connect);
}

/* ---- the directives ---- */

static bool set_connect_apply(struct conf_scope *scope, const struct directive *row,
                              struct conf_node *node, void *arg)
{
    struct mqtt_settings *settings = arg;

    for (unsigned field = 0; field < MQTT_FIELD_COUNT; field++) {
        if (str_is(node->args[1], field_names[field])) {
            return conf_value_template(scope, node, 2, &settings->fields[field]);
        }
    }
    return conf_error(scope->conf, node,
                      "unknown field \"%.*s\", it must be \"clientid\", \"username\" or "
                      "\"password\"",
                      STR_ARG(node->args[1]));
}

/* The whole CONNECT is needed, so the preread buffer has to hold it. */
static bool stream_mqtt_filter_finish(struct conf_scope *scope, void *arg)
{
    struct mqtt_settings *settings = arg;
    uint64_t most;

    if (__builtin_mul_overflow(settings->buffers.number, settings->buffers.size, &most) ||
        most > MQTT_MESSAGE_MAX) {
        most = MQTT_MESSAGE_MAX;
    }
    settings->most_read = settings->most_written = most;
    if (scope->context != IN_STREAM_SERVER) {
        return true;
    }
    if (conf_is_set(scope, &mqtt_key, "mqtt_rewrite_buffer_size")) {
        settings->most_written = settings->rewrite_buffer_size;
    }
    struct stream_server *server = scope_stream_server(scope);
    if (settings->is_on && server->preread_buffer_size < most) {
        server->preread_buffer_size = most;
    }
    return true;
}

#define S struct mqtt_settings
#define IN_BOTH IN_STREAM | IN_STREAM_SERVER
static const struct directive rows[] = {
    {"mqtt", IN_BOTH, FLAG(S, is_on), .initial = "off",
     .doc = "Whether TCP clients must use MQTT (3.1, 3.1.1, 5.0). A session that does not start "
            "with CONNECT ends with status 400."},
    {"mqtt_buffers", IN_BOTH, BUFFERS(S, buffers), .initial = "100 1k",
     .doc = "Number and size of buffers. Together they limit the size of CONNECT, both before "
            "and after the rewrite."},
    {"mqtt_rewrite_buffer_size", IN_STREAM_SERVER, SIZE(S, rewrite_buffer_size), .initial = "4k",
     .replaced_by = "mqtt_buffers", .doc = "If set, largest size of CONNECT after the rewrite."},
    {"mqtt_set_connect", IN_STREAM_SERVER, CUSTOM(set_connect_apply), ARGS(2, 2),
     .repeat = REPEAT_CUSTOM, .syntax = "clientid | username | password value",
     .doc = "Sets a field of CONNECT to this value. An empty user name or password is omitted; a "
            "password is also omitted if the user name is."},
    {0},
};
#undef S

static const struct session_hook session_hooks[] = {
    {.phase = STREAM_PREREAD,
     .run = filter,
     .when = SETTING(mqtt_key, struct mqtt_settings, is_on)},
    {.run = NULL},
};
static const struct stream_module hooks = {.hooks = session_hooks};

const struct module ngx_stream_mqtt_filter_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_mqtt_filter_module",
    .kind = MODULE_STREAM,
    .table = {.key = &mqtt_key,
              .rows = rows,
              .contexts = IN_BOTH,
              .size = sizeof(struct mqtt_settings),
              .finish = stream_mqtt_filter_finish},
    .hooks = &hooks,
};
