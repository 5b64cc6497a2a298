/* The channel of FastCGI: a request on a connection of its own, or on a shared one. */
#include "http/modules/backends/fastcgi/connection.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fatal.h"

#define FIRST_READ_MIN 4096   /* bytes; buffer_size if that is larger */
#define LONG_READ (64 * 1024) /* bytes of one read of a long body */
/* Bytes of an input buffer beyond buffer_size: undecoded bytes, or a long read. */
#define INPUT_MORE (80 * 1024)
#define INPUT_LIMIT (64 * 1024 * 1024) /* limit of the input buffer, for any buffer_size */
#define READS_MAX 16                   /* consecutive reads without payload */
#define SCARCE_IDLE_MS 100  /* idle time of a connection to a backend with few connections */
#define SCARCE_LIFE_MS 1000 /* lifetime of such a connection */
/* Contents of stderr and GET_VALUES_RESULT up to this size are processed as a whole. */
#define WHOLE_CONTENT 4096

/* ---- protocol errors ---- */

void fastcgi_refuse_version(struct fastcgi_stream *stream, unsigned version)
{
    stream->is_bad = true;
    exchange_log(stream->x, LOG_ERROR, 0, "upstream sent unsupported FastCGI protocol version: %u",
                 version);
}

void fastcgi_refuse_type(struct fastcgi_stream *stream, unsigned type)
{
    stream->is_bad = true;
    exchange_log(stream->x, LOG_ERROR, 0, "upstream sent invalid FastCGI record type: %u", type);
}

void fastcgi_refuse_record(struct fastcgi_stream *stream, unsigned type)
{
    stream->is_bad = true;
    exchange_log(stream->x, LOG_ERROR, 0, "upstream sent unexpected FastCGI record: %u", type);
}

void fastcgi_refuse_id(struct fastcgi_stream *stream, unsigned id)
{
    stream->is_bad = true;
    if (id > 0xff) {
        exchange_log(stream->x, LOG_ERROR, 0,
                     "upstream sent unexpected FastCGI request id high byte: %u", id >> 8);
    } else {
        exchange_log(stream->x, LOG_ERROR, 0,
                     "upstream sent unexpected FastCGI request id low byte: %u", id);
    }
}

void fastcgi_end_stream(struct fastcgi_stream *stream, struct str content)
{
    stream->has_ended = true;
    stream->protocol_status =
        content.len >= 5 ? (unsigned char) content.data[4] : RECORD_REQUEST_COMPLETE;
    if (content.len < RECORD_END_SIZE) {
        stream->keeps = false; /* the record is too short */
    }
    if (stream->protocol_status == RECORD_CANT_MPX_CONN) {
        fastcgi_facts_no_multiplexing(stream->connection->connection->cell);
    }
}

size_t fastcgi_wanted(const struct record *record)
{
    switch (record->type) {
    case RECORD_STDOUT:
        return 1;
    case RECORD_END_REQUEST:
    case RECORD_UNKNOWN_TYPE:
        return record->content < RECORD_END_SIZE ? record->content : RECORD_END_SIZE;
    default:
        return record->content < WHOLE_CONTENT ? record->content : WHOLE_CONTENT;
    }
}

/* ---- decoding in place ---- */

/* Checks a record that is not one of the usual ones. False: a protocol error; logged, and the
 * connection is marked bad. */
static bool check_record(struct fastcgi_connection *connection, struct fastcgi_stream *stream)
{
    const struct record *record = &connection->record;

    if (record->version != RECORD_VERSION) {
        fastcgi_refuse_version(stream, record->version);
    } else if (connection->has_asked && record->id == 0 &&
               (record->type == RECORD_GET_VALUES_RESULT || record->type == RECORD_UNKNOWN_TYPE)) {
        return true;
    } else if (record->type != RECORD_STDOUT && record->type != RECORD_STDERR &&
               record->type != RECORD_END_REQUEST) {
        fastcgi_refuse_type(stream, record->type);
    } else if (record->id != stream->id) {
        fastcgi_refuse_id(stream, record->id);
    } else if (fastcgi_comes_late(stream, record)) {
        fastcgi_refuse_record(stream, record->type);
    } else {
        return true;
    }
    connection->is_bad = true;
    return false;
}

/* Starts a record whose header has arrived. */
static bool begin_record(struct fastcgi_connection *connection, struct fastcgi_stream *stream,
                         const char *at)
{
    struct record *record = &connection->record;
    bool is_usual;

    *record = record_read(at);
    is_usual = record->version == RECORD_VERSION && record->id == stream->id &&
               (record->type == RECORD_END_REQUEST ||
                (record->type == RECORD_STDOUT && !stream->is_stdout_closed));
    if (!is_usual && !check_record(connection, stream)) {
        return false;
    }
    if (record->content == 0) {
        if (record->type == RECORD_STDOUT) {
            stream->is_stdout_closed = true;
        } else if (record->type == RECORD_END_REQUEST) {
            fastcgi_end_stream(stream, STR_NONE);
        }
        return fastcgi_bear_noise(stream, 0);
    }
    return true;
}

/* Processes content of records that are not payload: a part of it, or all of it if it is short. */
static void use_content(struct fastcgi_stream *stream, const struct record *record,
                        struct str content)
{
    switch (record->type) {
    case RECORD_STDERR:
        fastcgi_note_stderr(stream, content);
        break;
    case RECORD_END_REQUEST:
        fastcgi_end_stream(stream, content);
        break;
    case RECORD_GET_VALUES_RESULT:
        fastcgi_bear_noise(stream, content.len);
        fastcgi_processes_answered(stream->connection->connection);
        break;
    case RECORD_UNKNOWN_TYPE:
        fastcgi_bear_noise(stream, content.len);
        break;
    }
}

/* The state of decoding in the input buffer; pointers, so that the usual case needs only a few
 * comparisons. */
struct decoding {
    char *start;   /* unread payload begins here */
    char *end;     /* and ends here */
    char *at;      /* first byte that was not decoded */
    char *limit;   /* end of the received bytes */
    size_t joined; /* bytes between unread payload and the payload that was appended to it */
    bool joins;    /* payload may be appended to unread payload */
    bool has_pending;
};

/* Appends payload to unread payload; if there is none, it stays at its location in the buffer.
 * False: it has to wait. */
static inline bool use_payload(struct decoding *now, struct record *record)
{
    size_t here = (size_t) (now->limit - now->at);
    size_t n = record->content < here ? record->content : here;

    if (n == 0) {
        return false;
    }
    if (now->start == now->end) {
        now->start = now->at;
        now->end = now->at + n;
    } else if (!now->joins) {
        return false;
    } else {
        if (now->end != now->at) {
            now->joined = (size_t) (now->at - now->end);
            memmove(now->end, now->at, n);
        }
        now->end += n;
    }
    now->at += n;
    record->content -= (uint16_t) n;
    now->joins = false;
    now->has_pending = true;
    return record->content == 0;
}

/* Processes the content of other records. False: more of it must arrive first, or unread payload
 * must be read before it. */
static bool use_other(struct decoding *now, struct record *record, struct fastcgi_stream *stream)
{
    while (record->content != 0) {
        size_t here = (size_t) (now->limit - now->at);
        size_t n = record->content < here ? record->content : here;

        if (here < fastcgi_wanted(record) ||
            (now->start != now->end && !now->joins && record->type != RECORD_END_REQUEST)) {
            return false;
        }
        n = n < WHOLE_CONTENT ? n : WHOLE_CONTENT;
        use_content(stream, record, (struct str){now->at, n});
        now->at += n;
        record->content -= (uint16_t) n;
        now->has_pending = true;
    }
    return true;
}

/* Decodes records until one has to wait. */
static void use_records(struct fastcgi_connection *connection, struct fastcgi_stream *stream,
                        struct decoding *now)
{
    struct record *record = &connection->record;

    for (;;) {
        if (!connection->is_in_record) {
            if (now->limit - now->at < RECORD_HEADER_SIZE || stream->has_ended ||
                !begin_record(connection, stream, now->at)) {
                return;
            }
            now->at += RECORD_HEADER_SIZE;
            connection->is_in_record = true;
        }
        if (record->content != 0 &&
            !(record->type == RECORD_STDOUT ? use_payload(now, record)
                                            : use_other(now, record, stream))) {
            return;
        }
        if (record->padding != 0) {
            size_t here = (size_t) (now->limit - now->at);
            size_t n = record->padding < here ? record->padding : here;

            now->at += n;
            record->padding -= (uint8_t) n;
            if (record->padding != 0) {
                return;
            }
        }
        connection->is_in_record = false;
    }
}

bool fastcgi_decode_raw(struct fastcgi_stream *stream, bool joins)
{
    struct fastcgi_connection *connection = stream->connection;
    struct conn *conn = connection->connection->conn;
    unsigned before = stream->is_stdout_closed + 2u * stream->has_ended;

    if (connection->is_bad) {
        return false;
    }
    char *start = conn->in + conn->in_start;
    struct decoding now = {
        .start = start,
        .end = start + connection->decoded,
        .at = start + connection->decoded + connection->gap,
        .limit = conn->in + conn->in_end,
        .joins = joins,
    };
    use_records(connection, stream, &now);
    if (now.joined != 0) {
        stream->joined = (uint32_t) now.joined;
    }
    if (now.start == now.end) {
        now.start = now.end = now.at;
    }
    conn->in_start = (uint32_t) (now.start - conn->in);
    connection->decoded = (uint32_t) (now.end - now.start);
    connection->gap = (uint32_t) (now.at - now.end);
    return now.has_pending || stream->is_bad ||
           stream->is_stdout_closed + 2u * stream->has_ended != before;
}

/* ---- a connection that carries one request at a time ---- */

static void wake_only(struct conn *conn)
{
    struct upstream_connection *connection = conn->user;

    wait_signal(&connection->wake);
}

static const struct conn_owner only_owner = {.input = wake_only, .drained = wake_only};

/* Reads from the socket: a header into a small buffer, a long body by large reads. */
static bool read_more(struct exchange *x, struct conn *conn)
{
    uint64_t buffer_size = x->settings->buffer_size;
    size_t first = buffer_size < FIRST_READ_MIN ? FIRST_READ_MIN
                   : buffer_size < LONG_READ    ? (size_t) buffer_size
                                                : LONG_READ;
    uint32_t before = conn_input_len(conn);

    if (before == 0 && x->body_received >= first && conn->in_size < LONG_READ) {
        conn_input_release(conn);
        first = LONG_READ;
    }
    if (!conn_fill(conn, first,
                   (size_t) (buffer_size < INPUT_LIMIT ? buffer_size : INPUT_LIMIT) + INPUT_MORE)) {
        return false;
    }
    x->attempt->bytes_received += conn_input_len(conn) - before;
    return true;
}

static bool fastcgi_fill(struct exchange *x)
{
    struct fastcgi_stream *stream = fastcgi_stream_of(x);

    if (stream->connection->is_shared) {
        return fastcgi_shared_fill(stream);
    }
    for (unsigned reads = 0; reads < READS_MAX; reads++) {
        if (fastcgi_decode(stream, true)) {
            return true;
        }
        if (stream->has_ended || stream->is_bad || !read_more(x, x->connection->conn)) {
            return false;
        }
    }
    return true; /* only records without content: the caller lets other requests run */
}

static struct str channel_input(struct exchange *x)
{
    return fastcgi_input(x);
}

static void channel_consume(struct exchange *x, size_t n)
{
    fastcgi_consume(x, n);
}

static bool fastcgi_has_ended(struct exchange *x)
{
    const struct fastcgi_stream *stream = fastcgi_stream_of(x);
    const struct conn *conn = x->connection->conn;

    return stream->has_ended || stream->is_bad || stream->connection->is_bad ||
           conn->is_input_closed || conn->is_broken;
}

static enum wait_result fastcgi_wait(struct exchange *x, uint64_t deadline_ms)
{
    struct conn *conn = x->connection->conn;

    if (!conn->source.is_registered && !conn_watch(conn)) {
        conn_fail(conn, errno);
        return WAIT_READY;
    }
    return fiber_wait(fastcgi_stream_of(x)->wake, deadline_ms);
}

static uint64_t fastcgi_body_received(struct exchange *x)
{
    return x->attempt->bytes_received - fastcgi_stream_of(x)->head_received;
}

static uint64_t fastcgi_unsent(struct exchange *x)
{
    return output_share_unsent(&fastcgi_stream_of(x)->records, x->connection->conn);
}

static uint64_t fastcgi_sent(const struct exchange *x)
{
    const struct output_share *records = &fastcgi_stream_of(x)->records;

    return records->queued - output_share_unsent(records, x->connection->conn);
}

static bool fastcgi_must_drain(const struct exchange *x)
{
    const struct upstream_connection *connection = x->connection;

    return fastcgi_stream_of(x)->connection->is_shared && !connection->is_taken;
}

/* ---- begin and end of a request ---- */

bool fastcgi_wants_whole_connection(const struct exchange *x)
{
    return x->settings->max_temp_file_size == 0 || exchange_limit_rate(x) != 0;
}

static void connection_state_free(struct upstream_connection *connection)
{
    struct fastcgi_connection *state = fastcgi_connection_of(connection);

    fastcgi_question_ends(state);
    connection->state = NULL;
    loop_undefer(&state->more);
    free(state->streams);
    state->streams = NULL;
    if (state->is_in_demux) {
        state->is_let_go = true;
    } else {
        free(state);
    }
}

static struct fastcgi_connection *connection_state_new(struct upstream_connection *connection)
{
    struct fastcgi_connection *state = calloc(1, sizeof(*state));

    if (state == NULL) {
        fatal_no_memory(sizeof(*state));
    }
    state->connection = connection;
    list_init(&state->pending);
    deferred_init(&state->more, fastcgi_shared_more);
    connection->state = state;
    connection->state_free = connection_state_free;
    connection->conn->owner = &only_owner;
    return state;
}

/* Decides whether to keep the connection, by the directive or by the facts about the backend. */
static void decide_keeping(struct fastcgi_stream *stream,
                           const struct upstream_connection *connection)
{
    switch (fastcgi_settings_of(stream->x)->keep_conn) {
    case KEEP_CONN_OFF:
        stream->keeps = false;
        stream->is_strict = false;
        break;
    case KEEP_CONN_ON:
        stream->keeps = stream->is_strict = true;
        break;
    default:
        stream->is_strict = fastcgi_facts_keep(connection->cell);
        stream->is_first = fastcgi_facts_are_unknown(connection->cell);
        stream->keeps = stream->is_strict || stream->is_first;
        break;
    }
}

/* Allows other requests on this connection from now on. */
static void begin_sharing(struct fastcgi_connection *state)
{
    struct upstream_connection *connection = state->connection;
    unsigned users_max = fastcgi_facts_users_max(connection->cell);

    if (!state->is_shared && connection->users == 1 && users_max > 1) {
        state->is_shared = true;
        connection->users_max = users_max;
        connection->conn->owner = &fastcgi_shared_owner;
    }
}

static void stream_begin(struct fastcgi_stream *stream, struct exchange *x,
                         struct fastcgi_connection *connection)
{
    *stream = (struct fastcgi_stream){
        .x = x,
        .connection = connection,
        .id = 1,
    };
    list_init(&stream->in_pending);
}

static bool fastcgi_begin(struct exchange *x)
{
    struct upstream_connection *connection = x->connection;
    struct fastcgi_connection *state = fastcgi_connection_of(connection);
    struct fastcgi_stream *stream = fastcgi_stream_of(x);

    connection->is_quiet = false;
    connection->is_taken = fastcgi_wants_whole_connection(x);
    if (state == NULL) {
        state = connection_state_new(connection);
    }
    stream_begin(stream, x, state);
    decide_keeping(stream, connection);
    if (fastcgi_settings_of(x)->keep_conn == KEEP_CONN_AUTO) {
        stream->asks = fastcgi_processes_asks(connection);
        begin_sharing(state);
    }
    if (state->is_shared) {
        if (x->body_mode == SENT_BODY_STREAMED && connection->users > 1) {
            /* Only one request can wait for the socket to be writable, so this one's body is read
             * first. */
            stream->id = 0; /* it is not on the connection yet, and may never be */
            if (sent_body_hold(x) != HANDLER_NEXT || connection->conn->is_broken ||
                connection->conn->is_input_closed) {
                return false;
            }
        }
        stream->keeps = stream->is_strict = true; /* other requests use it */
        stream->wake = x->body_mode == SENT_BODY_STREAMED ? &connection->wake : &stream->own_wake;
        return fastcgi_shared_enter(state, stream);
    }
    state->decoded = state->gap = 0;
    stream->wake = &connection->wake;
    return true;
}

/* With a backend that accepts few connections, a kept one occupies a process that nobody else can
 * use: other groups, other workers, health checks, other servers. So it is idle only for a moment,
 * and does not live long. Under load this costs almost nothing, and without load the cost does not
 * matter. */
static void keep_scarce(struct upstream_connection *connection)
{
    struct conn *conn = connection->conn;
    uint32_t life = conn->life;

    if (clock_now.now_ms - connection->opened_ms >= SCARCE_LIFE_MS) {
        upstream_connection_close(connection);
        return;
    }
    upstream_connection_keep(connection);
    if (conn->life == life && connection->pool != NULL &&
        conn->timer.deadline_ms > clock_now.now_ms + SCARCE_IDLE_MS) {
        timer_set(&conn->timer, clock_now.now_ms + SCARCE_IDLE_MS);
    }
}

/* Without ABORT_REQUEST an incomplete body would end with the connection, and appear complete to
 * the application. If the parameters have not ended, no script runs yet; php-fpm would take this
 * record for their end. */
static void abort_cut_request(struct exchange *x)
{
    const struct fastcgi_stream *stream = fastcgi_stream_of(x);
    struct conn *conn = x->connection->conn;

    if (x->connection->users == 1 && stream->id != 0 && stream->records.queued != 0 &&
        !x->sent.is_ended && !stream->owes_params_end && !stream->has_ended && !conn->is_broken) {
        fastcgi_abort_request(conn, stream->id);
        conn_flush(conn);
    }
}

/* After the first request to a backend, its facts are requested. If several requests are the first
 * at the same time, the others close their connections, since a kept one may occupy a process that
 * another client waits for. A connection that must not become idle (pinned) is not used for the
 * question. */
static void end_first(struct upstream_connection *connection, unsigned max_conns)
{
    struct conn *conn = connection->conn;
    uint32_t life = conn->life;

    if (connection->pinned != NULL || !fastcgi_facts_are_unknown(connection->cell)) {
        upstream_connection_close(connection);
        return;
    }
    upstream_connection_keep(connection);
    if (conn->life == life && connection->pool != NULL) {
        fastcgi_question_put(connection, max_conns);
    }
}

/* The backend was asked to keep the connection, and has closed it or sent no END_REQUEST: it keeps
 * none, and FCGI_GET_VALUES is not needed. */
static bool keeps_nothing(const struct fastcgi_stream *stream, const struct conn *conn)
{
    return stream->is_first && (stream->is_stdout_closed || stream->has_ended) &&
           (conn->is_input_closed || conn->is_peer_closed ||
            (!stream->has_ended && !fiber_is_cancelled()));
}

static unsigned max_conns_of(const struct exchange *x)
{
    const struct peer *peer = x->pick.peer;

    return peer == NULL || peer->server == NULL ? 0 : peer->server->max_conns;
}

static void fastcgi_end(struct exchange *x, bool is_reusable)
{
    struct upstream_connection *connection = x->connection;
    struct fastcgi_stream *stream = fastcgi_stream_of(x);
    struct fastcgi_connection *state = stream->connection;
    const struct conn *conn = connection->conn;

    bool is_scarce = fastcgi_settings_of(x)->keep_conn == KEEP_CONN_AUTO &&
                     fastcgi_facts_are_scarce(connection->cell);

    abort_cut_request(x);
    x->connection = NULL;
    stream->connection = NULL;
    connection->is_taken = false;
    if (state->is_shared) {
        fastcgi_shared_leave(state, stream);
        return;
    }
    if (is_reusable && stream->has_ended && stream->keeps && fastcgi_connection_is_clean(state) &&
        !conn->is_broken && !conn->is_input_closed && conn_unsent(conn) == 0) {
        connection->is_quiet = true;
        if (stream->is_first) {
            end_first(connection, max_conns_of(x));
        } else if (is_scarce) {
            keep_scarce(connection);
        } else {
            upstream_connection_keep(connection);
        }
    } else {
        if (keeps_nothing(stream, conn) && fastcgi_facts_claim(connection->cell)) {
            fastcgi_facts_settle(connection->cell, (struct backend_facts){0}, max_conns_of(x));
        }
        upstream_connection_close(connection);
    }
}

const struct channel fastcgi_channel = {
    .begin = fastcgi_begin,
    .input = channel_input,
    .consume = channel_consume,
    .fill = fastcgi_fill,
    .has_ended = fastcgi_has_ended,
    .wait = fastcgi_wait,
    .unsent = fastcgi_unsent,
    .sent = fastcgi_sent,
    .body_received = fastcgi_body_received,
    .must_drain = fastcgi_must_drain,
    .end = fastcgi_end,
};
