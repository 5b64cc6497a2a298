/* FCGI_GET_VALUES to a backend without known facts: on an idle connection, after its first request.
 * Many backends take the version and the id for their answers from the first record that they see,
 * or know only BEGIN_REQUEST; so it must not come first. The connection is not used meanwhile, and
 * is closed afterwards. */
#include "base/clock.h"
#include "http/modules/backends/fastcgi/connection.h"

#define ANSWER_MS 250        /* time for the answer; the backend has nothing else to do */
#define ANSWER_SIZE_MAX 4096 /* largest record that is read */

/* Reads the answer to FCGI_GET_VALUES. False: it is complete, or none will come; the connection is
 * closed. */
static bool read_values(struct fastcgi_connection *state)
{
    struct conn *conn = state->connection->conn;

    while (conn_fill(conn, 512, RECORD_HEADER_SIZE + ANSWER_SIZE_MAX)) {
        struct str input = conn_input(conn);

        if (input.len < RECORD_HEADER_SIZE) {
            continue;
        }
        struct record record = record_read(input.data);
        bool is_answer = record.version == RECORD_VERSION && record.id == 0 &&
                         record.type == RECORD_GET_VALUES_RESULT &&
                         record.content <= ANSWER_SIZE_MAX;

        input = str_skip(input, RECORD_HEADER_SIZE);
        if (is_answer && input.len < record.content) {
            continue;
        }
        fastcgi_facts_settle(state->connection->cell,
                             is_answer ? facts_read(str_head(input, record.content))
                                       : (struct backend_facts){0},
                             state->max_conns);
        state->is_asking = false;
        return false;
    }
    return !conn->is_input_closed && !conn->is_broken;
}

static bool question_input(struct upstream_connection *connection)
{
    return read_values(fastcgi_connection_of(connection));
}

void fastcgi_question_put(struct upstream_connection *connection, unsigned max_conns)
{
    struct fastcgi_connection *state = fastcgi_connection_of(connection);
    struct conn *conn = connection->conn;

    if (!fastcgi_facts_claim(connection->cell)) {
        return;
    }
    state->is_asking = true;
    state->max_conns = max_conns;
    state->asked_ms = clock_now.now_ms;
    connection->is_taken = true;
    connection->is_quiet = false;
    connection->idle_input = question_input;
    conn_write(conn, get_values_record);
    conn_write(conn, get_values_record); /* libfcgi answers a record when it sees the next */
    conn_flush(conn);                    /* after a failure the timer fires */
    timer_set(&conn->timer, clock_now.now_ms + ANSWER_MS);
}

void fastcgi_question_ends(struct fastcgi_connection *state)
{
    const struct conn *conn = state->connection->conn;

    if (!state->is_asking) {
        return;
    }
    state->is_asking = false;
    if (conn->is_peer_closed || conn->is_input_closed || conn->is_broken ||
        clock_now.now_ms - state->asked_ms >= ANSWER_MS) {
        fastcgi_facts_settle(state->connection->cell, (struct backend_facts){0}, state->max_conns);
    } else {
        fastcgi_facts_release(state->connection->cell);
    }
}
