/* How a session runs (story.c), and the stages in which it waits without a fiber: interfaces
 * between the files of this package, and for code that makes sessions without an accepted
 * connection (UDP). Implemented in story.c, accept.c, datagram.c, session.c and stages.c. */
#ifndef STREAM_SESSION_STORY_H
#define STREAM_SESSION_STORY_H

#include "stream/session/session.h"

/* Runs the access phase again for a client whose address has changed. False: it is denied
 * (logged). */
bool session_is_let_in(struct session *session);

/* Initializes a zeroed session that only serves to evaluate variables for this client. The caller
 * frees its arena. */
void session_to_ask(struct session *session, const struct stream_listen *listen,
                    const struct addr *client);

/* A session in its first stage, on a connection or a flow, which it owns from now on; counted. */
struct session *session_new(const struct stream_listen *listen, struct conn *conn);

/* Callbacks of TCP listeners (struct listener.accepted and .passed). */
void stream_accepted(struct listener *listener, int fd, const struct addr *peer);
void stream_passed(struct listener *listener, struct conn *conn);

/* Callback of UDP listeners (struct listener.began). */
void stream_began(struct listener *listener, struct datagram_flow *flow);
/* The key of a client of the listener, if udp_flow_key has variables; valid until the next call
 * (struct listener.flow_key). */
struct str stream_flow_key(struct listener *listener, const struct addr *peer);
/* Closes the session's flow and drops its queued datagrams. */
void session_leave_flow(struct session *session);
/* The first queued datagram; empty if there is none. */
struct str session_first_datagram(const struct session *session);

/* Logs the connected client. */
void session_log_client(const struct session *session, const struct addr *peer);

/* Continues from the session's stage, on a new fiber. The session may be over when this returns. */
void session_go_on(struct session *session);

/* The same for content that had left its fiber: continues with `handler` on a new one. */
void session_content(struct session *session, session_handler handler);

/* Enters a stage; only this function sets the callbacks of the loop. */
void session_enter(struct session *session, enum session_stage stage);

/* Waits without a fiber for input, or for the timeout of the stage. The session may be over when
 * this returns. */
void session_await(struct session *session);

/* Aborts the session in any stage: its fiber is cancelled, its holder ends it, or it ends here. */
void session_abort(struct session *session);
/* Worker hook: worker_shutdown_timeout has passed, or the worker has to end at once. */
void sessions_abort(void);

/* Variables of the core; ends with an empty name. */
extern const struct variable session_variables[];

#endif
