/* How a session runs (story.c), and the stages in which it waits without a fiber: the interfaces of
 * this package's parts to each other, and to code that makes sessions of something else than
 * accepted connections (UDP). Implemented in story.c, accept.c, datagram.c, session.c and stages.c.
 */
#ifndef STREAM_SESSION_STORY_H
#define STREAM_SESSION_STORY_H

#include "stream/session/session.h"

/* Asks who is let in, once more, of a client that came from another address. False, logged: not
 * this one. */
bool session_is_let_in(struct session *session);

/* A session that is asked for values of variables alone: of that client, cleared before. The arena
 * is the caller's to free. */
void session_to_ask(struct session *session, const struct stream_listen *listen,
                    const struct addr *client);

/* A session in its first stage, on a connection or a flow, which it owns from here on; counted. */
struct session *session_new(const struct stream_listen *listen, struct conn *conn);

/* Called for each listener of TCP (struct listener.accepted, and .passed). */
void stream_accepted(struct listener *listener, int fd, const struct addr *peer);
void stream_passed(struct listener *listener, struct conn *conn);

/* Called for each listener of UDP (struct listener.began). */
void stream_began(struct listener *listener, struct datagram_flow *flow);
/* What tells a client of that listener from others, where udp_flow_key has variables; in room that
 * the next call uses (struct listener.flow_key). */
struct str stream_flow_key(struct listener *listener, const struct addr *peer);
/* The session lets its flow and what waits of it go. */
void session_leave_flow(struct session *session);
/* The first datagram that waits; empty if none does. */
struct str session_first_datagram(const struct session *session);

/* The line of its log that tells of a client. */
void session_log_client(const struct session *session, const struct addr *peer);

/* Continues from the session's stage, on a fiber of its own. The session may be over when it
 * returns. */
void session_go_on(struct session *session);

/* The same for content that had left, on a fiber of its own: `handler` continues it. */
void session_content(struct session *session, session_handler handler);

/* It is at this stage from now on; the only place that says whom the loop tells. */
void session_enter(struct session *session, enum session_stage stage);

/* The story has no fiber until more comes of the client, or its stage's time is up. The session may
 * be over. */
void session_await(struct session *session);

/* Breaks it off, whatever it does: its fiber unwinds, its holder ends it, or it is over. */
void session_abort(struct session *session);
/* Worker hook: worker_shutdown_timeout is over, or the worker is asked to end at once. */
void sessions_abort(void);

/* Variables of the core, ended by an empty name. */
extern const struct variable session_variables[];

#endif
