/* A session: creation, information about its client, end. */
#include "stream/session/session.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "base/keyed.h"
#include "conf/conf.h"
#include "net/datagram/flow.h"
#include "stream/session/settings.h"
#include "stream/session/story.h"

const struct subject_kind session_subject = {.name = "session"};

/* The pool of free structs; last in, first out. */
struct free_session {
    struct free_session *next;
};
static struct free_session *free_sessions;

static struct session *session_take(void)
{
    struct free_session *first = free_sessions;

    if (first != NULL) {
        free_sessions = first->next;
        return memset(first, 0, sizeof(struct session));
    }
    struct session *session = calloc(1, sizeof(*session));
    if (session == NULL) {
        fatal_no_memory(sizeof(*session));
    }
    return session;
}

static void session_give_back(struct session *session)
{
    struct free_session *freed = (struct free_session *) (void *) session;

    session->magic = 0;
    freed->next = free_sessions;
    free_sessions = freed;
}

/* ---- log lines ---- */

static struct str client_text(const struct session *session, char buffer[ADDR_TEXT_MAX])
{
    struct addr client;

    session_client(session, &client);
    if (client.len == 0 || client.any.sa_family == AF_UNIX) {
        return STR("unix:");
    }
    return (struct str){buffer, addr_format(&client, false, buffer)};
}

static void stream_session_describe(const struct log *log, struct writer *out)
{
    const struct session *session = log->subject;
    struct str server = session->listen->address.listener->text;
    char buffer[ADDR_TEXT_MAX];
    struct str client = client_text(session, buffer);

    log_member(out, session->listen->is_udp ? "udp client" : "client");
    writer_put(out, client);
    log_member(out, "server");
    writer_put(out, server);
    if (session->holder != NULL && session->holder->describe != NULL) {
        session->holder->describe(session, out);
    }
}

/* ---- creation ---- */

/* Called when the arena exceeds session_memory_limit; story.c ends the session. */
static void memory_is_over(struct arena_account *account)
{
    struct session *session = container_of(account, struct session, memory);

    if (!session->is_over_memory) {
        session->is_over_memory = true;
        counters_mine->limited++;
        log_error(&session->log, 0, "the session exceeds session_memory_limit");
    }
}

/* Initializes a zeroed session. */
static void session_set_up(struct session *session, const struct stream_listen *listen)
{
    const struct stream_server *server = listen->default_server;

    session->magic = SESSION_MAGIC;
    session->stage = SESSION_BEGINNING;
    session->listen = listen;
    session->server = server;
    session->start_ms = clock_now.now_ms;
    arena_init_small(&session->arena);
    session->memory.limit = server->session_memory_limit;
    session->memory.over = memory_is_over;
    session->arena.account = &session->memory;
    session->log = listen->log;
    session->log.describe = stream_session_describe;
    session->log.subject = session;
    session->env = (struct variable_env){
        .kind = &session_subject,
        .set = &server->main->variables,
        .arena = &session->arena,
        .log = &session->log,
    };
}

void session_to_ask(struct session *session, const struct stream_listen *listen,
                    const struct addr *client)
{
    session_set_up(session, listen);
    session->client = client;
    session->has_client = true;
}

struct session *session_new(const struct stream_listen *listen, struct conn *conn)
{
    struct session *session = session_take();

    session_set_up(session, listen);
    session->conn = conn;
    if (conn != NULL) {
        session->log.connection = conn_number(conn);
        conn->user = session;
        conn->log = &session->log;
    }
    counters_mine->active++;
    return session;
}

struct session *session_of(const struct conn *conn)
{
    struct session *session = conn->listener != NULL ? conn->user : NULL;

    return session != NULL && session->magic == SESSION_MAGIC ? session : NULL;
}

/* ---- information ---- */

struct str session_input(const struct session *session)
{
    if (session->conn == NULL) {
        return session_first_datagram(session);
    }
    return conn_input(session->conn);
}

void session_write(struct session *session, struct str text)
{
    conn_write(session->conn, text);
}

void session_replace_input(struct session *session, size_t used, struct str bytes)
{
    conn_input_replace(session->conn, used, bytes);
}

void *session_data(struct session *session, const void *key, size_t size)
{
    return keyed_data(&session->data, &session->arena, key, size);
}

void session_set_server(struct session *session, const struct stream_server *server)
{
    session->server = server;
    session->log.sinks = server->error_log;
    session->log.level = server->error_log_level;
}

bool session_choose_server(struct session *session, struct str name)
{
    const struct stream_listen *listen = session->listen;
    /* Captures of a regular expression are slices of the name. */
    const struct server_name *found =
        server_names_find(&listen->names, arena_dup(&session->arena, name), &session->env);

    session_set_server(session, found == NULL ? listen->default_server : found->owner);
    return found != NULL;
}

void session_peer(const struct session *session, struct addr *out)
{
    out->len = 0;
    if (session->conn != NULL) {
        conn_peer(session->conn, out);
    } else if (session->flow != NULL) {
        *out = session->flow->peer;
    }
}

void session_client(const struct session *session, struct addr *out)
{
    if (session->has_client) {
        *out = *session->client;
    } else {
        session_peer(session, out);
    }
}

void session_set_client(struct session *session, const struct addr *client)
{
    struct addr *copy = arena_alloc(&session->arena, sizeof(*copy));

    *copy = *client;
    session->client = copy;
    session->has_client = true;
}

struct str session_client_text(struct session *session)
{
    char *buffer = arena_text(&session->arena, ADDR_TEXT_MAX);

    return client_text(session, buffer);
}

bool session_local(const struct session *session, struct addr *out)
{
    const struct listen_address *address = &session->listen->address;
    socklen_t len = sizeof(*out) - offsetof(struct addr, any);

    if (session->flow != NULL) {
        datagram_flow_local(session->flow, out);
        return true;
    }
    if (!address->needs_local_address || session->conn == NULL) {
        *out = address->listener->addr;
        return true;
    }
    out->len = 0;
    if (getsockname(session->conn->source.fd, &out->any, &len) == -1) {
        return false;
    }
    out->len = len;
    return true;
}

void session_count(const struct session *session, uint64_t *received, uint64_t *sent)
{
    uint64_t more_received = 0, more_sent = 0;

    if (session->holder != NULL && session->holder->count != NULL) {
        session->holder->count(session, &more_received, &more_sent);
    }
    *received = session->received + more_received;
    *sent = session->sent + more_sent + (session->conn != NULL ? session->conn->sent : 0);
}

uint64_t session_number(const struct session *session)
{
    return session->log.connection;
}

/* ---- the end ---- */

static void run_log(struct session *session)
{
    const struct session_handlers *handlers = &session->server->phases[STREAM_LOG];

    for (unsigned i = 0; i < handlers->count; i++) {
        handlers->items[i](session);
    }
}

/* Frees everything but the connection, and gives that. */
static struct conn *dismantle(struct session *session)
{
    const struct stream_listen *listen = session->listen;
    struct conn *conn = session->conn;

    session_leave_flow(session);
    session->holder = NULL;
    arena_free(&session->arena);
    free(session->proxy);
    session_give_back(session);
    counters_mine->active--;
    if (conn != NULL) {
        conn->log = (struct log *) &listen->log;
        conn->user = NULL;
    }
    return conn;
}

struct conn *session_part(struct session *session)
{
    CHECK_MAGIC(session, SESSION_MAGIC);
    session->is_over = true;
    return dismantle(session);
}

void session_end(struct session *session, unsigned status)
{
    CHECK_MAGIC(session, SESSION_MAGIC);
    session->is_over = true;
    session->status = (uint16_t) status;
    session->log.action = NULL;
    run_log(session);
    struct conn *conn = dismantle(session);

    if (conn != NULL) {
        conn_close(conn);
    }
}

/* ---- settings ---- */

struct settings_key stream_main_key;
struct settings_key stream_server_key;

struct stream_main *stream_main_of(struct conf *conf)
{
    const struct generation *generation = conf->generation;

    return generation->stream;
}
