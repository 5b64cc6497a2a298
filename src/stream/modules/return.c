/* ngx_stream_return_module: a text for the client, and the end. */
#include <errno.h>

#include "base/clock.h"
#include "server/module.h"
#include "stream/session/hooks.h"
#include "stream/session/session.h"
#include "stream/session/story.h"

/* The client has to take some of the text in this time. */
#define SEND_TIMEOUT_MS 60000

struct return_settings {
    struct template *text; /* never inherited */
};

static struct settings_key return_key;

/* ---- the text leaves, without a fiber ---- */

static void text_sent(struct conn *conn)
{
    struct session *session = conn->user;

    if (conn->is_broken || conn_unsent(conn) == 0) {
        session_end(session, SESSION_OK);
    }
}

static void text_input(struct conn *conn)
{
    if (conn->is_broken) {
        text_sent(conn);
    }
}

static void text_timed_out(struct conn *conn)
{
    struct session *session = conn->user;

    log_info(&session->log, ETIMEDOUT, "connection timed out");
    session_end(session, SESSION_OK);
}

static const struct conn_owner text_owner = {text_input, text_sent, text_timed_out};

static void text_abort(struct session *session)
{
    session_end(session, SESSION_OK);
}

static const struct session_holder text_holder = {.abort = text_abort};

static enum session_step give_text(struct session *session)
{
    const struct return_settings *settings = stream_settings(session->server, &return_key);
    struct conn *conn = session->conn;
    struct str text = template_text(settings->text, &session->env);

    session->log.action = "returning text";
    if (text.len == 0) {
        return SESSION_ENDED;
    }
    if (conn == NULL) {
        session_send_datagram(session, text);
        return SESSION_ENDED;
    }
    conn_write(conn, text);
    if (!conn_flush(conn) || conn_unsent(conn) == 0) {
        return SESSION_ENDED;
    }
    conn->owner = &text_owner;
    conn_set_deadline(conn, clock_now.now_ms + SEND_TIMEOUT_MS);
    if (!conn_watch(conn)) {
        return session_fail(session, SESSION_INTERNAL_ERROR);
    }
    return session_carry(session, &text_holder);
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
     .inherit = INHERIT_NEVER, .doc = "Sends this text to the client, and closes."},
    {0},
};

static const struct directive_table return_table = {
    .key = &return_key,
    .rows = return_rows,
    .contexts = IN_STREAM | IN_STREAM_SERVER,
    .size = sizeof(struct return_settings),
};
static const struct directive_table *const tables[] = {&return_table, NULL};

const struct module ngx_stream_return_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_stream_return_module",
    .kind = MODULE_STREAM,
    .tables = tables,
};
