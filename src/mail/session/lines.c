/* Lines of clients, and responses to them. */
#include <errno.h>

#include "base/fatal.h"
#include "base/clock.h"
#include "mail/session/session.h"
#include "server/generation.h"

/* Bytes of responses that may be unsent while the client sends commands. */
#define UNHEARD_MOST 16384u

struct str mail_input(struct mail_session *session)
{
    struct conn *conn = session->conn;

    if (session->taken != 0) {
        conn_consume(conn, session->taken);
        session->taken = 0;
        session->deadline_ms = clock_now.now_ms + session->server->timeout_ms;
    }
    return conn_input(conn);
}

enum wait_result mail_wait_input(struct mail_session *session, uint64_t deadline_ms)
{
    struct conn *conn = session->conn;
    uint32_t size = (uint32_t) session->server->protocol->buffer_size(session);

    while (mail_input(session).len == 0 && !conn_fill(conn, size, size)) {
        if (conn->is_broken || conn->is_input_closed) {
            return WAIT_CANCELLED;
        }
        enum wait_result result = conn_wait_input(conn, deadline_ms);
        if (result != WAIT_READY) {
            return result;
        }
    }
    return WAIT_READY;
}

bool mail_wait_with_client(struct mail_session *session, uint64_t deadline_ms)
{
    switch (conn_wait_peer_closed(session->conn, deadline_ms)) {
    case WAIT_TIMED_OUT:
        return true;
    case WAIT_READY:
        log_info(&session->log, session->conn->error, "client prematurely closed connection");
        return false;
    default:
        return false;
    }
}

bool mail_is_broken(const struct mail_session *session)
{
    return session->conn->is_broken;
}

bool mail_is_heard(struct mail_session *session)
{
    struct conn *conn = session->conn;

    if (conn_unsent(conn) < UNHEARD_MOST) {
        return loop_share();
    }
    enum wait_result result =
        conn_wait_output(conn, UNHEARD_MOST, clock_now.now_ms + session->server->timeout_ms);
    if (result == WAIT_TIMED_OUT) {
        counters_mine->limited++;
        log_info(&session->log, ETIMEDOUT, "client timed out without reading the responses");
    }
    return result == WAIT_READY;
}

enum mail_line mail_line_too_long(struct mail_session *session)
{
    counters_mine->limited++;
    log_info(&session->log, 0, "client sent too long command");
    return MAIL_LINE_TOO_LONG;
}

enum mail_line mail_read_more(struct mail_session *session, size_t had)
{
    CHECK_MAGIC(session, MAIL_SESSION_MAGIC);
    struct conn *conn = session->conn;
    uint32_t size = (uint32_t) session->server->protocol->buffer_size(session);

    while (mail_input(session).len <= had) {
        if (had >= size) {
            return mail_line_too_long(session);
        }
        if (conn_fill(conn, size, size)) {
            continue;
        }
        if (conn->is_broken || conn->is_input_closed) {
            return MAIL_LINE_NONE;
        }
        switch (conn_wait_input(conn, session->deadline_ms)) {
        case WAIT_READY:
            break;
        case WAIT_TIMED_OUT:
            log_info(&session->log, ETIMEDOUT, "client timed out");
            return MAIL_LINE_NONE;
        case WAIT_CANCELLED:
            return MAIL_LINE_NONE;
        }
    }
    return MAIL_LINE;
}

enum mail_line mail_read_line(struct mail_session *session, struct str *out)
{
    CHECK_MAGIC(session, MAIL_SESSION_MAGIC);
    size_t seen = 0;

    for (;;) {
        struct str input = mail_input(session);
        if (!mail_is_heard(session)) {
            return MAIL_LINE_NONE;
        }
        const char *end = seen < input.len ? str_find_char(str_skip(input, seen), '\n') : NULL;

        if (end != NULL) {
            *out = str_from(input.data, end);
            session->taken = out->len + 1;
            out->len -= str_ends(*out, STR("\r"));
            return MAIL_LINE;
        }
        seen = input.len;
        enum mail_line more = mail_read_more(session, seen);
        if (more != MAIL_LINE) {
            return more;
        }
    }
}

bool mail_has_command(struct mail_session *session, enum mail_line read, struct str complaint)
{
    CHECK_MAGIC(session, MAIL_SESSION_MAGIC);
    if (read == MAIL_LINE_TOO_LONG) {
        mail_say(session, complaint);
    }
    return read == MAIL_LINE;
}

void mail_say(struct mail_session *session, struct str text)
{
    conn_write(session->conn, text);
    conn_flush_later(session->conn);
}

void mail_sayf(struct mail_session *session, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    struct buf text = {0};
    buf_vprintf(&text, format, args);
    va_end(args);
    mail_say(session, buf_str(&text));
    buf_free(&text);
}

enum mail_step mail_count_error(struct mail_session *session)
{
    if (++session->errors < session->server->max_errors) {
        return MAIL_GOES_ON;
    }
    counters_mine->limited++;
    log_info(&session->log, 0, "client sent too many invalid commands");
    return MAIL_OVER;
}

void mail_attempt_begin(struct mail_session *session, unsigned method)
{
    arena_free(&session->attempt);
    session->login = session->password = session->tag = session->error_code = STR_NONE;
    session->upstream = STR_NONE;
    session->method = method;
}
