/* ngx_stream_ssl_preread_module: the contents of a TLS client's ClientHello, without a response to
 * it. */
#include "shared/variables/give.h"
#include "stream/modules/ssl_preread/hello.h"
#include "stream/session/preread.h"

static struct settings_key preread_key;

/* What was read from a session. */
struct preread {
    struct hello hello;
    bool is_done; /* nothing more will be read */
    bool is_none; /* the input is not a handshake: nothing is known */
};

/* The name in lower case, as servers are looked up. */
static struct str lower(struct session *session, struct str name)
{
    char *text = arena_text(&session->arena, name.len);

    for (size_t i = 0; i < name.len; i++) {
        text[i] = (char) ascii_lower((unsigned char) name.data[i]);
    }
    return (struct str){text, name.len};
}

/* Passes the session to the server with this name. */
static void choose_server(struct session *session, struct hello *hello)
{
    hello->name = lower(session, hello->name);
    if (hello->name.len != 0) {
        struct str name = hello->name;

        name.len -= name.data[name.len - 1] == '.';
        session_choose_server(session, name);
    }
}

static enum session_step stream_ssl_preread_look(struct session *session)
{
    if (session_input(session).len == 0) {
        return SESSION_MORE;
    }
    struct preread *preread = session_data(session, &preread_key, sizeof(*preread));

    if (preread->is_done) {
        return SESSION_NEXT;
    }
    switch (hello_read(&preread->hello, session_input(session), &session->arena)) {
    case HELLO_MORE:
        return SESSION_MORE;
    case HELLO_DONE:
        preread->is_done = true;
        choose_server(session, &preread->hello);
        break;
    case HELLO_NONE:
        preread->is_done = preread->is_none = true;
        break;
    }
    return SESSION_NEXT;
}

/* ---- variables ---- */

static const struct hello *hello_of(struct variable_env *env)
{
    const struct preread *preread = session_data(variable_session(env), &preread_key, 0);

    return preread == NULL || preread->is_none ? NULL : &preread->hello;
}

static bool get_name(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct hello *hello = hello_of(env);

    return hello != NULL && variable_give(out, hello->name);
}

static bool get_protocol(struct variable_env *env, const struct variable *variable, struct str *out)
{
    const struct hello *hello = hello_of(env);

    return hello != NULL && variable_give(out, hello_version_name(hello->version));
}

static bool get_protocols(struct variable_env *env, const struct variable *variable,
                          struct str *out)
{
    const struct hello *hello = hello_of(env);

    return hello != NULL && variable_give(out, hello->protocols);
}

static const struct variable variables[] = {
    {.name = STR_INIT("ssl_preread_server_name"),
     .doc = "Server name that the client requested by SNI.",
     .get = get_name},
    {.name = STR_INIT("ssl_preread_protocol"),
     .doc = "Highest TLS version that the client offered.",
     .get = get_protocol},
    {.name = STR_INIT("ssl_preread_alpn_protocols"),
     .doc = "Protocols that the client offered by ALPN, separated by commas.",
     .get = get_protocols},
    {.name = {NULL, 0}},
};

/* ---- the module ---- */

PREREAD_MODULE(ngx_stream_ssl_preread_module, "ssl_preread", stream_ssl_preread_look, variables,
               "Extracts the server name, the versions and the ALPN protocols from the "
               "ClientHello message of a client, without terminating TLS.");
