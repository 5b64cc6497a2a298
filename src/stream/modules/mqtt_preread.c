/* ngx_stream_mqtt_preread_module: client id and user name of an MQTT client, read without a
 * response to it. */
#include "shared/variables/give.h"
#include "stream/session/preread.h"
#include "stream/words/mqtt.h"

static struct settings_key preread_key;

/* What was read from a session. */
struct preread {
    struct str clientid, username; /* in the session's arena */
    bool is_done;                  /* nothing more will be read */
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
     .doc = "Client identifier in the CONNECT packet.",
     .get = get_clientid},
    {.name = STR_INIT("mqtt_preread_username"),
     .doc = "User name in the CONNECT packet.",
     .get = get_username},
    {.name = {NULL, 0}},
};

/* ---- the module ---- */

PREREAD_MODULE(
    ngx_stream_mqtt_preread_module, "mqtt_preread", stream_mqtt_preread_look, variables,
    "Extracts the client identifier and the user name from the CONNECT packet of an MQTT "
    "client (3.1, 3.1.1, 5.0).");
