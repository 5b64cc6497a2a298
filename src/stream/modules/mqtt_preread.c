/* ngx_stream_mqtt_preread_module: who a client of MQTT says it is, without an answer to it. */
#include "server/module.h"
#include "shared/variables/give.h"
#include "stream/session/hooks.h"
#include "stream/session/session.h"
#include "stream/words/mqtt.h"

struct preread_settings {
    bool is_on;
};

static struct settings_key preread_key;

/* What was found out of a session. */
struct preread {
    struct str clientid, username; /* in the session's arena */
    bool is_done;                  /* nothing more will be */
    bool is_known;                 /* it is a CONNECT */
};

static enum session_step stream_mqtt_preread_look(struct session *session)
{
    struct str input = session_input(session);
    struct mqtt_connect connect;

    if (input.len == 0) {
        return SESSION_MORE;
    }
    struct preread *preread = session_data(session, &preread_key, sizeof(*preread));
    if (preread->is_done) {
        return SESSION_NEXT;
    }
    enum mqtt_result result = mqtt_connect_read(input, &connect);
    if (result == MQTT_MORE && !connect.has_names) {
        return SESSION_MORE;
    }
    preread->is_done = true;
    preread->is_known = connect.has_names;
    if (connect.has_names) {
        preread->clientid = arena_dup(&session->arena, connect.fields[MQTT_CLIENTID]);
        preread->username = arena_dup(&session->arena, connect.fields[MQTT_USERNAME]);
    }
    return SESSION_NEXT;
}

/* ---- variables ---- */

static const struct preread *known_of(struct variable_env *env)
{
    const struct preread *preread = session_data(variable_session(env), &preread_key, 0);

    return preread != NULL && preread->is_known ? preread : NULL;
}

static bool get_clientid(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct preread *preread = known_of(env);

    return preread != NULL && variable_give(out, preread->clientid);
}

static bool get_username(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct preread *preread = known_of(env);

    return preread != NULL && variable_give(out, preread->username);
}

static const struct variable variables[] = {
    {.name = STR_INIT("mqtt_preread_clientid"),
     .doc = "Client id of the CONNECT packet.",
     .get = get_clientid},
    {.name = STR_INIT("mqtt_preread_username"),
     .doc = "User name of the CONNECT packet.",
     .get = get_username},
    {.name = {NULL, 0}},
};

/* ---- the module ---- */

static const struct directive rows[] = {
    {"mqtt_preread", IN_STREAM | IN_STREAM_SERVER, FLAG(struct preread_settings, is_on),
     .initial = "off",
     .doc = "Reads what a client of MQTT (3.1, 3.1.1, 5.0) begins with: its client id and its user "
            "name."},
    {0},
};

static const struct session_hook session_hooks[] = {
    {.phase = STREAM_PREREAD,
     .run = stream_mqtt_preread_look,
     .when = SETTING(preread_key, struct preread_settings, is_on)},
    {.run = NULL},
};
static const struct stream_module hooks = {.variables = variables, .hooks = session_hooks};

const struct module ngx_stream_mqtt_preread_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_mqtt_preread_module",
    .kind = MODULE_STREAM,
    .table = {.key = &preread_key,
              .rows = rows,
              .contexts = IN_STREAM | IN_STREAM_SERVER,
              .size = sizeof(struct preread_settings)},
    .hooks = &hooks,
};
