/* Connections to the servers of a store: commands are pipelined, replies come in the order of the
 * commands. */
#include <errno.h>
#include <stdlib.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/parse.h"
#include "store/private.h"
#include "upstream/connection.h"

enum {
    READS_MAX = 16,       /* on a connection in one turn of the loop */
    INPUT_FIRST = 4096,   /* bytes */
    STALL_LEAST_MS = 200, /* a stalled connection is kept for this time, or ten timeouts */
    RETRY_FIRST_MS = 100, /* after the first failure; doubled with each further one */
    RETRY_MOST_MS = 5000,
};

/* ---- requests ---- */

/* Wakes the caller with the result; a request without a caller is freed. */
static void request_finish(struct store_request *request, enum store_result result,
                           struct str reply)
{
    list_remove(&request->node);
    if (request->is_abandoned) {
        free(request);
        return;
    }
    request->result = result;
    request->is_done = true;
    if (result == STORE_OK) {
        request->reply = arena_dup(request->arena, reply);
    }
    wait_signal_later(&request->done);
}

static void requests_fail(struct list *list)
{
    while (!list_is_empty(list)) {
        struct store_request *request = container_of(list->next, struct store_request, node);

        request_finish(request, STORE_GONE, STR_NONE);
    }
}

/* ---- a connection ---- */

static void link_close(struct store_link *link)
{
    if (link->conn != NULL) {
        conn_close(link->conn);
        link->conn = NULL;
    }
    link->scan = (struct resp_scan){.at = 0};
    link->stalled_ms = 0;
    link->sent_count = 0;
    requests_fail(&link->sent);
}

/* Schedules the next attempt, and fails the requests that wait for a connection. */
static void node_failed(struct store_node *node)
{
    uint64_t pause_ms = RETRY_FIRST_MS;

    for (unsigned i = 0; i < node->failures && pause_ms < RETRY_MOST_MS; i++) {
        pause_ms *= 2;
    }
    pause_ms = pause_ms < RETRY_MOST_MS ? pause_ms : RETRY_MOST_MS;
    node->failures++;
    node->retry_ms = clock_now.now_ms + pause_ms - random_uint32() % (unsigned) (pause_ms / 4);
    store_count(node->store, STORE_FAILURES);
    requests_fail(&node->waiting);
    store_route_is_old(node->store);
}

bool store_node_is_up(const struct store_node *node)
{
    for (unsigned i = 0; i < STORE_LINKS; i++) {
        if (node->links[i].state == LINK_UP) {
            return true;
        }
    }
    return false;
}

/* Ends the connection because of an error of the server. If it is starting, its fiber ends it. */
static void link_fail(struct store_link *link, const char *what)
{
    struct store_node *node = link->node;
    bool was_up = link->state == LINK_UP;

    link_close(link);
    if (!was_up) {
        link->wrong = what;
        return;
    }
    link->state = LINK_DOWN;
    if (!store_node_is_up(node)) {
        store_is_gone(node->store, node, what);
        node_failed(node);
    }
}

/* Handles a complete reply. Gives what is wrong with it, or NULL. */
static const char *link_reply(struct store_link *link, struct str reply)
{
    struct str rest = reply;
    struct resp_value first;

    if (!resp_next(&rest, &first)) {
        return "sent what is no reply";
    }
    if (first.type == RESP_PUSH) {
        return NULL;
    }
    if (list_is_empty(&link->sent)) {
        return "sent a reply without a command";
    }
    struct store_request *request = container_of(link->sent.next, struct store_request, node);
    link->stalled_ms = 0;
    if (request->skipped > 0) {
        request->skipped--;
        return NULL;
    }
    link->sent_count--;
    if (!request->is_abandoned) {
        store_count(link->node->store, STORE_REPLIES);
    }
    request_finish(request, STORE_OK, reply);
    return NULL;
}

/* Handles all complete replies. Gives what is wrong, or NULL. */
static const char *link_take(struct store_link *link)
{
    const struct store_settings *settings = link->node->store->settings;

    for (;;) {
        struct str input = conn_input(link->conn);

        if (input.len == 0) {
            return NULL;
        }
        switch (resp_scan(&link->scan, input, settings->reply_max)) {
        case RESP_MORE:
            return NULL;
        case RESP_BAD:
            return "sent what is no reply, or one larger than reply_max";
        case RESP_WHOLE:
            break;
        }
        size_t size = link->scan.at;
        const char *wrong = link_reply(link, str_head(input, size));
        if (wrong != NULL) {
            return wrong;
        }
        conn_consume(link->conn, size);
        store_count_bytes(link->node->store, STORE_BYTES_IN, size);
        link->scan = (struct resp_scan){.at = 0};
    }
}

/* Is there a reply that a caller waits for? */
static bool link_is_awaited(const struct store_link *link)
{
    list_each(item, &link->sent) {
        if (!container_of(item, struct store_request, node)->is_abandoned) {
            return true;
        }
    }
    return false;
}

/* The worker is ending, and no reply is awaited: later requests get another connection. */
static bool link_has_ended(const struct store_link *link)
{
    return link->node->store->is_ending && link->state == LINK_UP && !link_is_awaited(link);
}

static void link_input(struct conn *conn)
{
    struct store_link *link = conn->user;
    uint64_t most = link->node->store->settings->reply_max + INPUT_FIRST;

    for (unsigned i = 0; i < READS_MAX && conn_fill(conn, INPUT_FIRST, most); i++) {
        const char *wrong = link_take(link);
        if (wrong != NULL) {
            link_fail(link, wrong);
            return;
        }
    }
    if (conn->is_broken || conn->is_input_closed) {
        link_fail(link, "closed the connection");
        return;
    }
    if (link_has_ended(link)) {
        link->state = LINK_DOWN;
        link_close(link);
        return;
    }
    conn_input_release(conn);
    if (!conn_watch(conn)) {
        link_fail(link, "could not be watched");
    }
}

static const struct conn_owner link_owner = {.input = link_input};

static void link_write(struct store_link *link, struct str bytes)
{
    conn_write(link->conn, bytes);
    store_count_bytes(link->node->store, STORE_BYTES_OUT, bytes.len);
    conn_flush_later(link->conn);
}

/* False: the connection has too much to do. */
static bool link_send(struct store_link *link, struct store_request *request)
{
    if (link->conn == NULL || link->sent_count >= STORE_PENDING_MAX ||
        conn_unsent(link->conn) > STORE_UNSENT_MAX) {
        return false;
    }
    if (request->skipped != 0) {
        link_write(link, STR("*1\r\n$6\r\nASKING\r\n"));
    }
    link_write(link, request->bytes);
    request->link = link;
    list_push_back(&link->sent, &request->node);
    link->sent_count++;
    store_count(link->node->store, STORE_REQUESTS);
    return true;
}

/* Ends a connection that was stalled for too long. */
static void link_check(struct store_link *link)
{
    uint64_t most = link->node->store->settings->timeout_ms * 10;

    most = most < STALL_LEAST_MS ? STALL_LEAST_MS : most;
    if (link->state == LINK_UP && link->stalled_ms != 0 &&
        clock_now.now_ms - link->stalled_ms > most) {
        link_fail(link, "did not answer");
    }
}

/* ---- the start of a connection ---- */

/* Sends a command of the connection's start. MAY WAIT. NULL: a reply came. */
static const char *link_ask(struct store_link *link, struct arena *arena, struct str bytes,
                            uint64_t deadline_ms, struct str *reply)
{
    struct store_request *request = calloc(1, sizeof(*request));

    if (request == NULL) {
        return "no memory";
    }
    request->bytes = bytes;
    request->arena = arena;
    if (!link_send(link, request)) {
        free(request);
        return "closed the connection";
    }
    fiber_wait(&request->done, deadline_ms);
    if (!request->is_done) {
        request->is_abandoned = true;
        return "did not answer";
    }
    const char *wrong = request->result == STORE_OK ? NULL : "closed the connection";
    *reply = request->reply;
    free(request);
    return wrong;
}

/* Reads the role from the reply to HELLO, which is a map. */
static bool reply_is_of_primary(struct str reply)
{
    int64_t count = resp_next_list(&reply);
    struct str name, role;

    for (; count >= 2; count -= 2) {
        if (!resp_next_string(&reply, &name)) {
            return false;
        }
        if (str_is(name, "role")) {
            return resp_next_string(&reply, &role) && str_is(role, "master");
        }
        if (!resp_skip(&reply, 1)) {
            return false;
        }
    }
    return false;
}

/* An error reply of the server, as the reason of a failure; NULL if it is none. */
static const char *error_text(struct arena *arena, struct str reply)
{
    struct resp_value value;

    if (!resp_next(&reply, &value)) {
        return "sent an empty reply";
    }
    if (value.type != RESP_ERROR) {
        return NULL;
    }
    return arena_printf(arena, "refused the connection: \"%.*s\"",
                        STR_ARG(str_head(value.text, 200)))
        .data;
}

/* Sends HELLO and SELECT. MAY WAIT. NULL, or the reason of a failure. */
static const char *link_greet(struct store_link *link, struct arena *arena, uint64_t deadline_ms)
{
    const struct store_settings *settings = link->node->store->settings;
    struct str words[8] = {STR("HELLO"), STR("3")}, reply;
    size_t count = 2;
    char number[20];

    if (settings->password.len != 0 && !link->node->is_sentinel) {
        words[count++] = STR("AUTH");
        words[count++] = settings->user.len == 0 ? STR("default") : settings->user;
        words[count++] = settings->password;
    }
    words[count++] = STR("SETNAME");
    words[count++] = STR("portunus");
    const char *wrong =
        link_ask(link, arena, resp_command(arena, words, count), deadline_ms, &reply);
    wrong = wrong == NULL ? error_text(arena, reply) : wrong;
    if (wrong != NULL || link->node->is_sentinel) {
        return wrong;
    }
    if (settings->mode != STORE_CLUSTER && !reply_is_of_primary(reply)) {
        return "is no primary";
    }
    if (settings->database == 0) {
        return NULL;
    }
    words[0] = STR("SELECT");
    words[1] = str_from(number, format_uint(number, (uint64_t) settings->database));
    wrong = link_ask(link, arena, resp_command(arena, words, 2), deadline_ms, &reply);
    return wrong == NULL ? error_text(arena, reply) : wrong;
}

/* The host that its certificate must match: the server as written, or the address that a cluster or
 * sentinel gave. */
static struct str node_host(const struct store_node *node, char text[ADDR_TEXT_MAX])
{
    return node->host.len != 0 ? node->host
                               : (struct str){text, addr_format(&node->addr, false, text)};
}

/* MAY WAIT. NULL: it is up; else the reason of the failure. */
static const char *link_connect(struct store_link *link, struct arena *arena)
{
    static const struct log silent = {.sinks = NULL};
    struct store_node *node = link->node;
    const struct store_settings *settings = node->store->settings;
    uint64_t deadline_ms = clock_now.now_ms + settings->connect_timeout_ms;
    struct upstream_connection_tls tls = {.context = settings->tls.context};
    struct upstream_connection_options options = {.keepalive = true, .tells_timeout = true};
    bool is_logged = atomic_load(&node->store->counts->is_gone) == 0;
    struct upstream_target target = {.addr = node->addr,
                                     .name = {node->name, node->name_length},
                                     .log = is_logged && settings->uses_tls ? log_main : &silent};
    char host[ADDR_TEXT_MAX];
    struct conn *conn;
    int error = 0;

    if (settings->uses_tls && !node->is_sentinel) {
        tls.options.name = settings->tls.name.len == 0 ? node_host(node, host) : settings->tls.name;
        tls.options.verifies = settings->tls.verifies;
        tls.options.sends_name = settings->tls.sends_name;
        tls.options.identity = tls_client_identity(settings->tls.context, &tls.options);
        options.tls = &tls;
    }
    switch (upstream_connection_reach(&target, &options, deadline_ms, &conn, &error)) {
    case UPSTREAM_CONNECT_OK:
        break;
    case UPSTREAM_CONNECT_TIMED_OUT:
        return "could not be connected in time";
    case UPSTREAM_CONNECT_CANCELLED:
        return "is not needed any more";
    case UPSTREAM_CONNECT_FAILED:
    case UPSTREAM_CONNECT_ERROR:
        return error == 0
                   ? "could not be connected"
                   : arena_printf(arena, "could not be connected (%s)", strerror(error)).data;
    }
    conn->owner = &link_owner;
    conn->user = link;
    conn->log = log_main;
    conn_set_nodelay(conn, true);
    conn_backend_is_busy(conn, false); /* it belongs to the worker, not to a request */
    link->conn = conn;
    link->wrong = NULL;
    if (!conn_watch(conn)) {
        return "could not be watched";
    }
    const char *wrong = link_greet(link, arena, deadline_ms);
    return link->wrong != NULL ? link->wrong : wrong;
}

static void link_up(struct store_link *link)
{
    struct store_node *node = link->node;

    link->state = LINK_UP;
    node->failures = 0;
    store_count(node->store, STORE_CONNECTS);
    while (!list_is_empty(&node->waiting)) {
        struct store_request *request =
            container_of(node->waiting.next, struct store_request, node);

        list_remove(&request->node);
        if (!link_send(link, request)) {
            request_finish(request, STORE_GONE, STR_NONE);
        }
    }
    store_is_back(node->store, node);
    store_route_is_old(node->store);
    if (link_has_ended(link)) {
        link->state = LINK_DOWN;
        link_close(link);
    }
}

static void link_run_start(void *arg)
{
    struct store_link *link = arg;
    struct store_node *node = link->node;
    struct arena arena;

    link->starter = fiber_self();
    arena_init(&arena);
    const char *wrong = link_connect(link, &arena);
    link->starter = NULL;
    if (wrong == NULL && !fiber_is_cancelled()) {
        link_up(link);
    } else {
        link_close(link);
        link->state = LINK_DOWN;
        if (fiber_is_cancelled()) {
            requests_fail(&node->waiting); /* it is not the server's fault */
        } else {
            if (!store_node_is_up(node)) {
                store_is_gone(node->store, node, wrong);
            }
            node_failed(node);
        }
    }
    arena_free(&arena);
}

static void link_start(struct store_link *link)
{
    link->state = LINK_STARTING;
    if (fiber_start(link_run_start, link, NULL) == FIBER_NO_STACK) {
        link->state = LINK_DOWN;
        node_failed(link->node);
    }
}

/* ---- a server ---- */

struct store_node *store_node_new(struct store *store, const struct addr *addr, struct str host,
                                  bool is_sentinel)
{
    struct store_node *node = calloc(1, sizeof(*node));

    if (node == NULL) {
        return NULL;
    }
    node->store = store;
    node->addr = *addr;
    node->name_length = addr_format(addr, true, node->name);
    node->host = host;
    node->is_sentinel = is_sentinel;
    list_init(&node->waiting);
    for (unsigned i = 0; i < STORE_LINKS; i++) {
        node->links[i].node = node;
        list_init(&node->links[i].sent);
    }
    return node;
}

void store_node_close(struct store_node *node)
{
    for (unsigned i = 0; i < STORE_LINKS; i++) {
        struct store_link *link = &node->links[i];

        if (link->starter != NULL) {
            fiber_cancel(link->starter);
        } else {
            link->state = LINK_DOWN;
        }
        link_close(link);
    }
    requests_fail(&node->waiting);
}

void store_node_retire(struct store_node *node)
{
    for (unsigned i = 0; i < STORE_LINKS; i++) {
        struct store_link *link = &node->links[i];

        if (link->starter != NULL) {
            fiber_cancel(link->starter);
        } else if (!link_is_awaited(link)) {
            link->state = LINK_DOWN;
            link_close(link);
        }
    }
    requests_fail(&node->waiting);
}

/* The connection for the next command, or NULL; *is_starting: one is being made. A spare one is
 * made while the first is stalled. */
static struct store_link *node_link(struct store_node *node, bool *is_starting)
{
    struct store_link *free_link = NULL;

    *is_starting = false;
    for (unsigned i = 0; i < STORE_LINKS; i++) {
        link_check(&node->links[i]);
    }
    for (unsigned i = 0; i < STORE_LINKS; i++) {
        struct store_link *link = &node->links[i];

        if (link->state == LINK_UP && link->stalled_ms == 0) {
            return link;
        }
        *is_starting |= link->state == LINK_STARTING;
        free_link = link->state == LINK_DOWN && free_link == NULL ? link : free_link;
    }
    if (!*is_starting && free_link != NULL && clock_now.now_ms >= node->retry_ms &&
        !node->store->is_closed) {
        link_start(free_link);
        *is_starting = free_link->state == LINK_STARTING;
    }
    return NULL;
}

bool store_node_connect(struct store_node *node)
{
    bool is_starting;

    return node_link(node, &is_starting) != NULL || is_starting;
}

/*
 * The request timed out, or its caller was cancelled; neither is proof of an error of the server.
 * The connection keeps the request, so that its reply is not taken for that of another one.
 */
static void request_abandon(struct store_request *request, bool has_timed_out)
{
    struct store_link *link = request->link;

    if (link == NULL) {
        list_remove(&request->node);
        free(request);
        return;
    }
    request->is_abandoned = true;
    if (link->stalled_ms == 0 && has_timed_out) {
        link->stalled_ms = clock_now.now_ms;
    }
    if (link_has_ended(link)) {
        link->state = LINK_DOWN;
        link_close(link);
    }
}

struct store_request *store_node_send(struct store_node *node, struct str bytes, bool is_asking,
                                      struct arena *arena)
{
    struct store_request *request = calloc(1, sizeof(*request));
    bool is_starting;

    if (request == NULL) {
        return NULL;
    }
    request->bytes = bytes;
    request->arena = arena;
    request->skipped = is_asking;
    request->to = node;
    struct store_link *link = node_link(node, &is_starting);
    if (link == NULL && is_starting) {
        list_push_back(&node->waiting, &request->node);
    } else if (link == NULL || !link_send(link, request)) {
        free(request);
        return NULL;
    }
    node->users++;
    return request;
}

enum store_result store_node_reply(struct store_request *request, uint64_t deadline_ms,
                                   struct str *reply)
{
    enum wait_result waited =
        request->is_done ? WAIT_READY : fiber_wait(&request->done, deadline_ms);

    request->to->users--;
    if (!request->is_done) {
        request_abandon(request, waited != WAIT_CANCELLED);
        return waited == WAIT_CANCELLED ? STORE_CANCELLED : STORE_TIMED_OUT;
    }
    enum store_result result = request->result;
    *reply = request->reply;
    free(request);
    return result;
}
