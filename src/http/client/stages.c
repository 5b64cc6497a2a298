/* The stages of a connection, and how one goes from one to the next. */
#include "base/fatal.h"
#include "http/client/stages.h"

#include <errno.h>

#include "base/clock.h"
#include "server/generation.h"

/* The client has just connected, and is about to speak, or its connection ends anyway. */
static void stay(struct http_connection *connection)
{
}

static void serving_quit(struct http_connection *connection)
{
    if (connection->protocol->quit != NULL) {
        connection->protocol->quit(connection);
    }
}

static void protocol_abort(struct http_connection *connection)
{
    connection->is_aborted = true;
    connection->protocol->abort(connection);
}

/* No request is worked on. */
static void break_off(struct http_connection *connection)
{
    conn_fail(connection->conn, ECANCELED);
    connection_close(connection);
}

static void ignore_input(struct conn *conn)
{
}

static const struct {
    const char *action; /* what log lines say that the connection is doing; NULL: the protocol's */
    struct conn_owner owner; /* what the loop tells; no input: the protocol's */
    void (*quit)(struct http_connection *connection);  /* the worker is on its way out */
    void (*abort)(struct http_connection *connection); /* breaks off at once */
} stages[] = {
    [STAGE_PROXY_HEADER] = {.action = "reading PROXY protocol",
                            .owner = {.input = proxy_header_input,
                                      .timed_out = proxy_header_timeout},
                            .quit = stay,
                            .abort = break_off},
    [STAGE_HANDSHAKE] = {.action = "SSL handshaking",
                         .owner = {.input = handshake_input, .timed_out = handshake_timeout},
                         .quit = stay,
                         .abort = break_off},
    [STAGE_DETECTION] = {.action = "waiting for request",
                         .owner = {.input = detection_input, .timed_out = detection_timeout},
                         .quit = stay,
                         .abort = break_off},
    [STAGE_SERVING] = {.quit = serving_quit, .abort = protocol_abort},
    [STAGE_IDLE] = {.quit = idle_quit, .abort = protocol_abort},
    [STAGE_LINGERING] = {.action = "waiting for request",
                         .owner = {.input = linger_input, .timed_out = linger_timeout},
                         .quit = stay,
                         .abort = break_off},
    [STAGE_ENDING] = {.action = "waiting for request",
                      .owner = {.input = ignore_input},
                      .quit = stay,
                      .abort = stay},
};

void connection_enter(struct http_connection *connection, enum connection_stage stage)
{
    CHECK_MAGIC(connection, HTTP_CONNECTION_MAGIC);
    const struct conn_owner *owner = &stages[stage].owner;

    connection->stage = (uint8_t) stage;
    connection->conn->owner = owner->input != NULL ? owner : &connection->protocol->owner;
}

void connection_serve(struct http_connection *connection, const struct http_protocol *protocol)
{
    CHECK_MAGIC(connection, HTTP_CONNECTION_MAGIC);
    connection->protocol = protocol;
    connection_enter(connection, STAGE_SERVING);
    if (protocol->begin != NULL) {
        protocol->begin(connection);
    }
}

void connection_settle(struct deferred *deferred)
{
    struct http_connection *connection = container_of(deferred, struct http_connection, settle);

    if (connection->stage == STAGE_ENDING) {
        connection_end(connection);
    } else {
        connection->protocol->settle(connection);
    }
}

const char *connection_action(const struct http_connection *connection)
{
    const char *action = stages[connection->stage].action;

    return action != NULL ? action : connection->protocol->action;
}

/* ---- the worker goes ---- */

/* The client's connection that this is, or NULL: backends have none. Whatever a listener's
 * connections belong to begins with a magic number. */
static struct http_connection *client_of(const struct conn *conn)
{
    struct http_connection *connection = conn->listener != NULL ? conn->user : NULL;

    return connection != NULL && connection->magic == HTTP_CONNECTION_MAGIC ? connection : NULL;
}

static void quit_one(struct conn *conn, void *arg)
{
    struct http_connection *connection = client_of(conn);

    if (connection != NULL) {
        stages[connection->stage].quit(connection);
    }
}

/*
 * The successor gets connections in pieces, and those that wait for their turn are served here
 * meanwhile: hundreds of thousands take it more than a second.
 */
enum { QUIT_PIECE = 256, QUIT_EVERY_MS = 1 };

static struct conn_walk quit_walk;
static struct timer quit_timer;

static void quit_go_on(void)
{
    timer_set(&quit_timer, clock_now.now_ms + QUIT_EVERY_MS);
}

static void quit_piece(struct timer *timer)
{
    if (handover_now != NULL && handover_now->is_behind != NULL &&
        handover_now->is_behind(handover_now)) {
        handover_now->caught_up = quit_go_on;
    } else if (conn_walk(&quit_walk, QUIT_PIECE, quit_one, NULL)) {
        quit_go_on();
    }
}

void connections_quit(void)
{
    if (handover_now == NULL || handover_now->is_behind == NULL) {
        conn_each(quit_one, NULL);
        return;
    }
    quit_walk = (struct conn_walk){0};
    if (quit_timer.fire == NULL) {
        timer_init(&quit_timer, quit_piece); /* it may run: QUIT comes while a reload hands over */
    }
    quit_piece(&quit_timer);
}

static void abort_one(struct conn *conn, void *arg)
{
    struct http_connection *connection = client_of(conn);

    if (connection != NULL) {
        stages[connection->stage].abort(connection);
    }
}

void connections_abort(void)
{
    conn_each(abort_one, NULL);
}
