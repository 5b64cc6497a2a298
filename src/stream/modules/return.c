/* ngx_stream_return_module: sends a text to the client and closes. */
#include "server/module.h"
#include "stream/session/hooks.h"
#include "stream/session/session.h"

/* The client has to accept some of the text within this time. */
#define SEND_TIMEOUT_MS 60000

struct return_settings {
    struct template *text; /* never inherited */
};

static struct settings_key return_key;

static enum session_step give_text(struct session *session)
{
    const struct return_settings *settings = stream_settings(session->server, &return_key);
    struct str text = template_text(settings->text, &session->env);

    session->log.action = "returning text";
    if (text.len == 0) {
        return SESSION_ENDED;
    }
    if (!session_has_connection(session)) {
        session_send_datagram(session, text);
        return SESSION_ENDED;
    }
    session_write(session, text);
    return session_end_sent(session, SEND_TIMEOUT_MS);
}

/* ---- the directive ---- */

static bool return_apply(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    scope_stream_server(scope)->content = give_text;
    return true;
}

static const struct directive return_rows[] = {
    {"return", IN_STREAM_SERVER, TEMPLATE(struct return_settings, text), .apply = return_apply,
     .inherit = INHERIT_NEVER, .doc = "Sends the value to the client and closes the connection."},
    {0},
};

const struct module ngx_stream_return_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_return_module",
    .kind = MODULE_STREAM,
    .table = {.key = &return_key,
              .rows = return_rows,
              .contexts = IN_STREAM | IN_STREAM_SERVER,
              .size = sizeof(struct return_settings)},
};
