/* From an accepted socket to a session. */
#include <unistd.h>

#include "base/clock.h"
#include "server/generation.h"
#include "stream/session/story.h"

void session_log_client(const struct session *session, const struct addr *peer)
{
    struct str server = session->listen->address.listener->text;
    struct log log = session->log;
    char buffer[ADDR_TEXT_MAX];
    struct str client = STR("unix:");

    if (peer->len != 0 && peer->any.sa_family != AF_UNIX) {
        client = (struct str){buffer, addr_format(peer, true, buffer)};
    }
    log.describe = NULL;
    log.action = NULL;
    log_info(&log, 0, "%sclient %.*s connected to %.*s", session->listen->is_udp ? "udp " : "",
             STR_ARG(client), STR_ARG(server));
}

/* Starts the session, with a PROXY header if the address expects one. */
static void stream_accept_begin(struct session *session)
{
    struct conn *conn = session->conn;
    struct addr peer;

    if (session->log.level >= LOG_INFO) {
        conn_peer(conn, &peer);
        session_log_client(session, &peer);
    }
    if (session->listen->address.is_proxy_protocol) {
        session_enter(session, SESSION_PROXY_HEADER);
        if (session_input(session).len != 0) {
            conn_take_up(conn);
        } else {
            conn_start(conn);
        }
    } else {
        session_enter(session, SESSION_BEGINNING);
        session_go_on(session);
    }
}

void stream_accepted(struct listener *listener, int fd, const struct addr *peer)
{
    struct stream_listen *listen = listener->user;
    struct conn *conn = conn_new(fd, peer, NULL, &listen->log);

    counters_mine->accepted++;
    if (conn == NULL) {
        counters_mine->limited++;
        close(fd);
        return;
    }
    counters_mine->handled++;
    conn->listener = listener;
    stream_accept_begin(session_new(listen, conn));
}

void stream_passed(struct listener *listener, struct conn *conn)
{
    conn->listener = listener;
    stream_accept_begin(session_new(listener->user, conn));
}
