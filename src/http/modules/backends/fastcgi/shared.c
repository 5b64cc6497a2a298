/* Shared links: records of many requests on one connection, told apart as they arrive. */
#include <stdlib.h>

#include "base/fatal.h"
#include "http/modules/backends/fastcgi/link.h"
#include "server/generation.h"

#define READ_MIN (16 * 1024)
#define READ_MAX (64 * 1024)
#define READS_MAX 16             /* in a row, before others of the worker get their turn */
#define UNREAD_MAX (1024 * 1024) /* of one request, which is read as it comes: then it ends */
#define PENDING_MIN 512          /* bytes of a fresh buffer for a stream */
#define TABLE_MIN 16
#define ABANDONED_MAX 64 /* a backend that does not end what was aborted loses the connection */

struct fastcgi_stream fastcgi_abandoned;

/* ---- bytes that wait ---- */

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

/* ---- one who does not read must not fill our memory ---- */

/* Who is alone on the connection holds it back; nobody joins meanwhile. */
static void limit_input(struct fastcgi_link *link, struct fastcgi_stream *stream)
{
    if (stream->is_full || stream->is_bad || unread(stream) <= UNREAD_MAX) {
        return;
    }
    if (link->link->users == 1) {
        stream->is_full = true;
        link->full++;
        link->link->conn->is_input_paused = 1;
        return;
    }
    stream->is_bad = stream->x->is_peer_fine = true;
    counters_mine->limited++;
    exchange_log(
        stream->x, LOG_ERROR, 0,
        "upstream response is not taken as fast as it comes, and the connection is shared");
}

static void resume_input(struct fastcgi_link *link, struct fastcgi_stream *stream)
{
    struct conn *conn = link->link->conn;

    stream->is_full = false;
    if (--link->full == 0 && !conn_resume_input(conn)) {
        link->is_bad = true;
    }
}

bool fastcgi_shared_fill(struct fastcgi_stream *stream)
{
    struct fastcgi_pending *reading = &stream->reading;
    struct fastcgi_pending *arriving = &stream->arriving;

    if (stream->is_full && unread(stream) < UNREAD_MAX) {
        resume_input(stream->link, stream);
    }
    if (arriving->end == 0) {
        return false;
    }
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

/* ---- who is on it ---- */

static bool grow_table(struct fastcgi_link *link)
{
    uint32_t capacity = link->capacity == 0 ? TABLE_MIN : link->capacity * 2;

    if (capacity > UINT16_MAX) {
        return false;
    }
    struct fastcgi_stream **table =
        realloc(link->streams, capacity * sizeof(struct fastcgi_stream *));
    if (table == NULL) {
        fatal_no_memory(capacity * sizeof(struct fastcgi_stream *));
    }
    memset(table + link->capacity, 0,
           (capacity - link->capacity) * sizeof(struct fastcgi_stream *));
    link->streams = table;
    link->capacity = capacity;
    return true;
}

bool fastcgi_shared_enter(struct fastcgi_link *link, struct fastcgi_stream *stream)
{
    uint32_t at = link->lowest;

    stream->id = 0;
    if (link->is_bad) {
        return false;
    }
    while (at < link->capacity && link->streams[at] != NULL) {
        at++;
    }
    if (at == link->capacity && !grow_table(link)) {
        return false;
    }
    link->streams[at] = stream;
    link->lowest = at + 1;
    stream->id = (uint16_t) (at + 1);
    return true;
}

static void free_id(struct fastcgi_link *link, uint16_t id)
{
    link->streams[id - 1] = NULL;
    if (id - 1u < link->lowest) {
        link->lowest = id - 1u;
    }
}

static void add_news(struct fastcgi_link *link, struct fastcgi_stream *stream)
{
    if (stream != &fastcgi_abandoned && list_is_empty(&stream->in_news)) {
        list_push_back(&link->news, &stream->in_news);
    }
}

void fastcgi_shared_leave(struct fastcgi_link *link, struct fastcgi_stream *stream)
{
    struct upstream_link *upstream = link->link;
    struct conn *conn = upstream->conn;
    bool is_sound = !link->is_bad && !conn->is_broken && !conn->is_input_closed;

    list_remove(&stream->in_news);
    pending_free(&stream->reading);
    pending_free(&stream->arriving);
    if (stream->is_full) {
        resume_input(link, stream);
    }
    if (stream->id != 0 && is_sound && upstream->users > 1) {
        /* The id is taken until the backend says END_REQUEST: one request less. */
        link->streams[stream->id - 1] = &fastcgi_abandoned;
        link->abandoned++;
        upstream->users_max--;
        fastcgi_abort_request(conn, stream->id);
        is_sound = link->abandoned < ABANDONED_MAX;
    } else if (stream->id != 0) {
        free_id(link, stream->id);
        is_sound = false; /* nobody else needs it */
    }
    upstream->is_quiet =
        is_sound && upstream->users == 1 && link->abandoned == 0 && stream->has_ended;
    stream->id = 0;
    if (is_sound && stream->protocol_status != RECORD_CANT_MPX_CONN) {
        link_keep(upstream);
    } else {
        link_close(upstream);
    }
}

/* ---- telling records apart ---- */

/* Everybody is told that the connection can no longer be believed. */
static void break_link(struct fastcgi_link *link,
                       void (*refuse)(struct fastcgi_stream *stream, unsigned what), unsigned what)
{
    link->is_bad = true;
    for (uint32_t i = 0; i < link->capacity; i++) {
        struct fastcgi_stream *stream = link->streams[i];

        if (stream != NULL && stream != &fastcgi_abandoned) {
            refuse(stream, what);
            /* Who has heard nothing yet may ask again elsewhere: for that request the link just ended. */
            stream->is_bad = stream->has_heard || link->link->users == 1;
            add_news(link, stream);
        }
    }
}

static struct fastcgi_stream *find_stream(const struct fastcgi_link *link, uint16_t id)
{
    return id == 0 || id > link->capacity ? NULL : link->streams[id - 1];
}

/* A header has come; the link is broken when it may not. */
static void begin_record(struct fastcgi_link *link)
{
    const struct record *record = &link->record;
    const struct fastcgi_stream *stream = find_stream(link, record->id);

    if (record->version != RECORD_VERSION) {
        break_link(link, fastcgi_refuse_version, record->version);
        return;
    }
    switch (record->type) {
    case RECORD_STDOUT:
    case RECORD_STDERR:
    case RECORD_END_REQUEST:
        if (stream == NULL) {
            break_link(link, fastcgi_refuse_id, record->id);
        } else if (fastcgi_comes_late(stream, record)) {
            break_link(link, fastcgi_refuse_record, record->type);
        }
        return;
    case RECORD_GET_VALUES_RESULT: /* a late answer */
    case RECORD_UNKNOWN_TYPE:
        if (record->id == 0) {
            return;
        }
        break;
    }
    break_link(link, fastcgi_refuse_type, record->type);
}

static void end_stream(struct fastcgi_link *link, struct fastcgi_stream *stream, struct str content)
{
    uint16_t id = link->record.id;

    link->record.id = 0; /* what the record may hold beyond this is nobody's */
    free_id(link, id);
    if (stream == &fastcgi_abandoned) {
        link->abandoned--;
        link->link->users_max++;
        return;
    }
    stream->id = 0;
    fastcgi_end_stream(stream, content);
}

/* Some content of the current record; all of it when it is short. May be empty. */
static void use_content(struct fastcgi_link *link, struct str content)
{
    const struct record *record = &link->record;
    struct fastcgi_stream *stream = find_stream(link, record->id);

    if (stream == NULL) {
        return; /* of the connection; or what follows the content of an END_REQUEST */
    }
    if (record->type == RECORD_END_REQUEST) {
        end_stream(link, stream, content);
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
        limit_input(link, stream);
    }
    add_news(link, stream);
}

/* Uses all whole records that have arrived, and parts of long ones. */
static void demultiplex(struct fastcgi_link *link)
{
    struct conn *conn = link->link->conn;
    struct record *record = &link->record;

    while (!link->is_bad) {
        struct str raw = conn_input(conn);

        if (!link->is_in_record) {
            if (raw.len < RECORD_HEADER_SIZE) {
                return;
            }
            *record = record_read(raw.data);
            begin_record(link);
            link->is_in_record = true;
            conn_consume(conn, RECORD_HEADER_SIZE);
            if (record->content == 0 && !link->is_bad) {
                use_content(link, STR_NONE);
            }
        } else if (record->content != 0) {
            if (raw.len < fastcgi_wanted(record)) {
                return;
            }
            struct str content = str_head(raw, record->content);
            use_content(link, content);
            record->content -= (uint16_t) content.len;
            conn_consume(conn, content.len);
        } else {
            size_t n = record->padding < raw.len ? record->padding : raw.len;
            conn_consume(conn, n);
            record->padding -= (uint8_t) n;
            if (record->padding != 0) {
                return;
            }
            link->is_in_record = false;
        }
    }
}

/* ---- what the connection tells ---- */

/* A stream wakes its fiber, which may end, and take the link with it. */
static void wake_streams(struct fastcgi_link *link)
{
    struct list *item;

    link->is_in_demux = true;
    while (!link->is_let_go && (item = list_pop_front(&link->news)) != NULL) {
        wait_signal(container_of(item, struct fastcgi_stream, in_news)->wake);
    }
    link->is_in_demux = false;
    if (link->is_let_go) {
        free(link);
    }
}

static void add_all(struct fastcgi_link *link)
{
    for (uint32_t i = 0; i < link->capacity; i++) {
        if (link->streams[i] != NULL) {
            add_news(link, link->streams[i]);
        }
    }
}

static void shared_input(struct conn *conn)
{
    struct upstream_link *upstream = conn->user;
    struct fastcgi_link *link = fastcgi_link_of(upstream);

    for (unsigned reads = 0; conn_fill(conn, READ_MIN, READ_MAX);) {
        demultiplex(link);
        if (link->is_bad || conn->is_input_paused) {
            break;
        }
        if (++reads == READS_MAX) {
            loop_defer_next(&link->more);
            break;
        }
    }
    conn_input_release(conn);
    if (conn->is_input_closed || conn->is_broken) {
        add_all(link);
    }
    wake_streams(link);
}

void fastcgi_shared_more(struct deferred *deferred)
{
    struct fastcgi_link *link = container_of(deferred, struct fastcgi_link, more);
    struct conn *conn = link->link->conn;

    if (conn->owner == &fastcgi_shared_owner) { /* else it rests, or is asked otherwise */
        shared_input(conn);
    }
}

static void shared_drained(struct conn *conn)
{
    struct upstream_link *upstream = conn->user;
    struct fastcgi_link *link = fastcgi_link_of(upstream);

    add_all(link);
    wake_streams(link);
}

const struct conn_owner fastcgi_shared_owner = {.input = shared_input, .drained = shared_drained};
