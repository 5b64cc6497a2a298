/* Shared connections: separates the records of many requests on one connection as they arrive. */
#include <stdlib.h>

#include "base/fatal.h"
#include "http/modules/backends/fastcgi/connection.h"
#include "server/generation.h"

#define READ_MIN (16 * 1024)
#define READ_MAX (64 * 1024)
#define READS_MAX 16             /* consecutive reads before others get a turn */
#define UNREAD_MAX (1024 * 1024) /* most unread bytes of one request; with more, it fails */
#define PENDING_MIN 512          /* initial bytes of a buffer of a stream */
#define TABLE_MIN 16
/* A connection with this many aborted requests that have not ended is closed. */
#define ABANDONED_MAX 64

struct fastcgi_stream fastcgi_abandoned;

/* ---- buffers of streams ---- */

static void pending_free(struct fastcgi_pending *pending)
{
    conn_buffer_free(pending->data, pending->size);
    *pending = (struct fastcgi_pending){0};
}

static void pending_add(struct fastcgi_pending *pending, struct str bytes)
{
    size_t wanted = pending->end + bytes.len;

    if (pending->data == NULL || wanted > pending->size) {
        uint32_t size = pending->size == 0 ? PENDING_MIN : pending->size;
        while (size < wanted) {
            size *= 2;
        }
        char *bigger = conn_buffer_alloc(size);
        if (pending->end != 0) {
            memcpy(bigger, pending->data, pending->end);
        }
        conn_buffer_free(pending->data, pending->size);
        pending->data = bigger;
        pending->size = size;
    }
    memcpy(pending->data + pending->end, bytes.data, bytes.len);
    pending->end += (uint32_t) bytes.len;
}

static uint32_t unread(const struct fastcgi_stream *stream)
{
    return stream->reading.end - stream->reading.start + stream->arriving.end;
}

/* ---- limits for requests that do not read ---- */

/* If the request is alone on the connection, its input is paused; no other request joins meanwhile.
 * Otherwise the request fails. */
static void limit_input(struct fastcgi_connection *connection, struct fastcgi_stream *stream)
{
    if (stream->is_full || stream->is_bad || unread(stream) <= UNREAD_MAX) {
        return;
    }
    if (connection->connection->users == 1) {
        stream->is_full = true;
        connection->full++;
        connection->connection->conn->is_input_paused = 1;
        return;
    }
    stream->is_bad = stream->x->relay.is_peer_fine = true;
    counters_mine->limited++;
    exchange_log(stream->x, LOG_ERROR, 0,
                 "the client reads more slowly than upstream sends on a shared connection");
}

static void resume_input(struct fastcgi_connection *connection, struct fastcgi_stream *stream)
{
    struct conn *conn = connection->connection->conn;

    stream->is_full = false;
    if (--connection->full == 0 && !conn_resume_input(conn)) {
        connection->is_bad = true;
    }
}

bool fastcgi_shared_fill(struct fastcgi_stream *stream)
{
    struct fastcgi_pending *reading = &stream->reading;
    struct fastcgi_pending *arriving = &stream->arriving;

    if (stream->is_full && unread(stream) < UNREAD_MAX) {
        resume_input(stream->connection, stream);
    }
    if (arriving->end == 0) {
        return false;
    }
    stream->late =
        stream->arriving_late; /* if the header is incomplete, earlier bytes belong to it */
    stream->arriving_late = 0;
    if (reading->start != reading->end) {
        pending_add(reading, (struct str){arriving->data, arriving->end});
        pending_free(arriving);
    } else {
        pending_free(reading);
        *reading = *arriving;
        *arriving = (struct fastcgi_pending){0};
    }
    return true;
}

/* ---- the requests of a connection ---- */

static bool grow_table(struct fastcgi_connection *connection)
{
    uint32_t capacity = connection->capacity == 0 ? TABLE_MIN : connection->capacity * 2;

    if (capacity > UINT16_MAX) {
        return false;
    }
    struct fastcgi_stream **table =
        realloc(connection->streams, capacity * sizeof(struct fastcgi_stream *));
    if (table == NULL) {
        fatal_no_memory(capacity * sizeof(struct fastcgi_stream *));
    }
    memset(table + connection->capacity, 0,
           (capacity - connection->capacity) * sizeof(struct fastcgi_stream *));
    connection->streams = table;
    connection->capacity = capacity;
    return true;
}

bool fastcgi_shared_enter(struct fastcgi_connection *connection, struct fastcgi_stream *stream)
{
    uint32_t at = connection->lowest;

    stream->id = 0;
    if (connection->is_bad) {
        return false;
    }
    while (at < connection->capacity && connection->streams[at] != NULL) {
        at++;
    }
    if (at == connection->capacity && !grow_table(connection)) {
        return false;
    }
    connection->streams[at] = stream;
    connection->lowest = at + 1;
    stream->id = (uint16_t) (at + 1);
    return true;
}

static void free_id(struct fastcgi_connection *connection, uint16_t id)
{
    connection->streams[id - 1] = NULL;
    if (id - 1u < connection->lowest) {
        connection->lowest = id - 1u;
    }
}

static void add_pending(struct fastcgi_connection *connection, struct fastcgi_stream *stream)
{
    if (stream != &fastcgi_abandoned && list_is_empty(&stream->in_pending)) {
        list_push_back(&connection->pending, &stream->in_pending);
    }
}

void fastcgi_shared_leave(struct fastcgi_connection *connection, struct fastcgi_stream *stream)
{
    struct upstream_connection *upstream = connection->connection;
    struct conn *conn = upstream->conn;
    bool is_sound = !connection->is_bad && !conn->is_broken && !conn->is_input_closed;

    list_remove(&stream->in_pending);
    pending_free(&stream->reading);
    pending_free(&stream->arriving);
    if (stream->is_full) {
        resume_input(connection, stream);
    }
    if (stream->id != 0 && is_sound && upstream->users > 1) {
        /* The id stays in use until END_REQUEST arrives, so one request less is possible. */
        connection->streams[stream->id - 1] = &fastcgi_abandoned;
        connection->abandoned++;
        upstream->users_max--;
        fastcgi_abort_request(conn, stream->id);
        is_sound = connection->abandoned < ABANDONED_MAX;
    } else if (stream->id != 0) {
        free_id(connection, stream->id);
        is_sound = false; /* no other request uses it */
    }
    upstream->is_quiet =
        is_sound && upstream->users == 1 && connection->abandoned == 0 && stream->has_ended;
    stream->id = 0;
    if (is_sound && stream->protocol_status != RECORD_CANT_MPX_CONN) {
        upstream_connection_keep(upstream);
    } else {
        upstream_connection_close(upstream);
    }
}

/* ---- demultiplexing ---- */

/* Tells all streams that the connection has failed. */
static void break_connection(struct fastcgi_connection *connection,
                             void (*refuse)(struct fastcgi_stream *stream, unsigned what),
                             unsigned what)
{
    connection->is_bad = true;
    for (uint32_t i = 0; i < connection->capacity; i++) {
        struct fastcgi_stream *stream = connection->streams[i];

        if (stream != NULL && stream != &fastcgi_abandoned) {
            refuse(stream, what);
            /* A request without any response yet may be sent to another peer: it fails as if the
             * connection had just ended. */
            stream->is_bad = stream->has_heard || connection->connection->users == 1;
            add_pending(connection, stream);
        }
    }
}

static struct fastcgi_stream *find_stream(const struct fastcgi_connection *connection, uint16_t id)
{
    return id == 0 || id > connection->capacity ? NULL : connection->streams[id - 1];
}

/* Checks a record whose header has arrived; an unexpected one breaks the connection. */
static void begin_record(struct fastcgi_connection *connection)
{
    const struct record *record = &connection->record;
    const struct fastcgi_stream *stream = find_stream(connection, record->id);

    if (record->version != RECORD_VERSION) {
        break_connection(connection, fastcgi_refuse_version, record->version);
        return;
    }
    switch (record->type) {
    case RECORD_STDOUT:
    case RECORD_STDERR:
    case RECORD_END_REQUEST:
        if (stream == NULL) {
            break_connection(connection, fastcgi_refuse_id, record->id);
        } else if (fastcgi_comes_late(stream, record)) {
            break_connection(connection, fastcgi_refuse_record, record->type);
        }
        return;
    case RECORD_GET_VALUES_RESULT: /* a late answer */
    case RECORD_UNKNOWN_TYPE:
        if (record->id == 0) {
            return;
        }
        break;
    }
    break_connection(connection, fastcgi_refuse_type, record->type);
}

static void end_stream(struct fastcgi_connection *connection, struct fastcgi_stream *stream,
                       struct str content)
{
    uint16_t id = connection->record.id;

    connection->record.id = 0; /* further content of this record belongs to no stream */
    free_id(connection, id);
    if (stream == &fastcgi_abandoned) {
        connection->abandoned--;
        connection->connection->users_max++;
        return;
    }
    stream->id = 0;
    fastcgi_end_stream(stream, content);
}

/* Counts bytes that were received for a request and are not payload. */
static void count_more(struct fastcgi_stream *stream, size_t size)
{
    stream->x->attempt->bytes_received += size;
    if (stream->arriving.end != 0) {
        stream->arriving_late += (uint32_t) size;
    }
}

static void count_header(const struct fastcgi_connection *connection)
{
    struct fastcgi_stream *stream = find_stream(connection, connection->record.id);

    if (stream != NULL && stream != &fastcgi_abandoned && !connection->is_bad) {
        count_more(stream, RECORD_HEADER_SIZE + connection->record.padding);
    }
}

/* Processes a part of the content of the current record; all of it if it is short. May be empty. */
static void use_content(struct fastcgi_connection *connection, struct str content)
{
    const struct record *record = &connection->record;
    struct fastcgi_stream *stream = find_stream(connection, record->id);

    if (stream == NULL) {
        return; /* a record of the connection itself; or content after that of an END_REQUEST */
    }
    if (stream != &fastcgi_abandoned && record->type != RECORD_STDOUT) {
        count_more(stream, content.len);
    }
    if (record->type == RECORD_END_REQUEST) {
        end_stream(connection, stream, content);
    } else if (stream == &fastcgi_abandoned) {
        return;
    } else if (record->type == RECORD_STDERR) {
        fastcgi_note_stderr(stream, content);
    } else if (content.len == 0) {
        stream->is_stdout_closed = true;
        fastcgi_bear_noise(stream, 0);
    } else if (!stream->is_bad) {
        pending_add(&stream->arriving, content);
        stream->has_heard = true;
        stream->x->attempt->bytes_received += content.len;
        limit_input(connection, stream);
    }
    add_pending(connection, stream);
}

/* Processes all complete records that have arrived, and parts of long ones. */
static void demultiplex(struct fastcgi_connection *connection)
{
    struct conn *conn = connection->connection->conn;
    struct record *record = &connection->record;

    while (!connection->is_bad) {
        struct str raw = conn_input(conn);

        if (!connection->is_in_record) {
            if (raw.len < RECORD_HEADER_SIZE) {
                return;
            }
            *record = record_read(raw.data);
            begin_record(connection);
            count_header(connection);
            connection->is_in_record = true;
            conn_consume(conn, RECORD_HEADER_SIZE);
            if (record->content == 0 && !connection->is_bad) {
                use_content(connection, STR_NONE);
            }
        } else if (record->content != 0) {
            if (raw.len < fastcgi_wanted(record)) {
                return;
            }
            struct str content = str_head(raw, record->content);
            use_content(connection, content);
            record->content -= (uint16_t) content.len;
            conn_consume(conn, content.len);
        } else {
            size_t n = record->padding < raw.len ? record->padding : raw.len;
            conn_consume(conn, n);
            record->padding -= (uint8_t) n;
            if (record->padding != 0) {
                return;
            }
            connection->is_in_record = false;
        }
    }
}

/* ---- events of the connection ---- */

/* Waking a fiber may end it, and free the connection. */
static void wake_streams(struct fastcgi_connection *connection)
{
    struct list *item;

    connection->is_in_demux = true;
    while (!connection->is_let_go && (item = list_pop_front(&connection->pending)) != NULL) {
        wait_signal(container_of(item, struct fastcgi_stream, in_pending)->wake);
    }
    connection->is_in_demux = false;
    if (connection->is_let_go) {
        free(connection);
    }
}

static void add_all(struct fastcgi_connection *connection)
{
    for (uint32_t i = 0; i < connection->capacity; i++) {
        if (connection->streams[i] != NULL) {
            add_pending(connection, connection->streams[i]);
        }
    }
}

static void shared_input(struct conn *conn)
{
    struct upstream_connection *upstream = conn->user;
    struct fastcgi_connection *connection = fastcgi_connection_of(upstream);

    for (unsigned reads = 0; conn_fill(conn, READ_MIN, READ_MAX);) {
        demultiplex(connection);
        if (connection->is_bad || conn->is_input_paused) {
            break;
        }
        if (++reads == READS_MAX) {
            loop_defer_next(&connection->more);
            break;
        }
    }
    conn_input_release(conn);
    if (conn->is_input_closed || conn->is_broken) {
        add_all(connection);
    }
    wake_streams(connection);
}

void fastcgi_shared_more(struct deferred *deferred)
{
    struct fastcgi_connection *connection = container_of(deferred, struct fastcgi_connection, more);
    struct conn *conn = connection->connection->conn;

    if (conn->owner ==
        &fastcgi_shared_owner) { /* else it is idle, or its facts are being requested */
        shared_input(conn);
    }
}

static void shared_drained(struct conn *conn)
{
    struct upstream_connection *upstream = conn->user;
    struct fastcgi_connection *connection = fastcgi_connection_of(upstream);

    add_all(connection);
    wake_streams(connection);
}

const struct conn_owner fastcgi_shared_owner = {.input = shared_input, .drained = shared_drained};
