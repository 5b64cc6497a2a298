/* ngx_stream_rdp_preread_module: the cookie or the routing token in the first message of an RDP
 * client. */
#include "shared/variables/give.h"
#include "stream/modules/rdp_preread/request.h"
#include "stream/session/preread.h"

static struct settings_key preread_key;

/* What was read from a session. */
struct preread {
    struct str cookie; /* in the session's arena; empty = none */
    bool is_done;      /* nothing more will be read */
};

static enum session_step stream_rdp_preread_look(struct session *session)
{
    struct str cookie, input = session_input(session);

    if (input.len == 0) {
        return SESSION_MORE;
    }
    struct preread *preread = session_data(session, &preread_key, sizeof(*preread));
    if (preread->is_done) {
        return SESSION_NEXT;
    }
    if (rdp_request_read(input, &cookie) == RDP_MORE) {
        return SESSION_MORE;
    }
    preread->is_done = true;
    preread->cookie = arena_dup(&session->arena, cookie);
    return SESSION_NEXT;
}

/* ---- variables ---- */

static struct str cookie_of(struct variable_env *env)
{
    const struct preread *preread = session_data(variable_session(env), &preread_key, 0);

    return preread == NULL ? STR_NONE : preread->cookie;
}

static bool get_cookie(struct variable_env *env, const struct variable *variable, struct str *out)
{
    *out = cookie_of(env);
    return out->len != 0;
}

static bool stream_rdp_preread_get_value(struct variable_env *env, const struct variable *variable,
                                         struct str *out)
{
    return rdp_cookie_value(cookie_of(env), variable->rest, out);
}

static const struct variable variables[] = {
    {.name = STR_INIT("rdp_cookie"),
     .doc = "Cookie in the RDP connection request.",
     .get = get_cookie},
    {.name = STR_INIT("rdp_cookie_"),
     .doc = "Value of the field with this name in the RDP cookie.",
     .get = stream_rdp_preread_get_value,
     .flags = VARIABLE_PREFIX},
    {.name = {NULL, 0}},
};

/* ---- the module ---- */

PREREAD_MODULE(ngx_stream_rdp_preread_module, "rdp_preread", stream_rdp_preread_look, variables,
               "Extracts the cookie or the routing token from the connection request of an "
               "RDP client.");
