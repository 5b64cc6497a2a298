/* Streams: found, opened, ended; what their owners hear and say. */
#include "net/quic/private.h"

#include <assert.h>
#include <stdlib.h>

#include "base/fatal.h"
#include "base/spares.h"

#define SPARE_STREAMS_MOST 256u /* streams of both directions whose memory a worker keeps */

static struct spares spare_streams;

static bool is_of_peer(const struct quic_connection *c, uint64_t id)
{
    return ((id & 1) != 0) != c->is_server;
}

static unsigned kind_of(uint64_t id)
{
    return (id & 2) != 0;
}

/* Ids are numbers in a row: spread over the table. */
static uint64_t streams_hash_of(uint64_t id)
{
    return id * UINT64_C(0x9e3779b97f4a7c15) >> 20;
}

static uint64_t most_window(const struct quic_connection *c)
{
    uint64_t most = c->settings->most_window;

    return most == 0 ? QUIC_STREAM_WINDOW_MOST : most;
}

void quic_streams_init(struct quic_connection *c)
{
    list_init(&c->all_streams);
    list_init(&c->control_streams);
    list_init(&c->calls);
    quic_schedule_init(&c->schedule);
    quic_credit_init(&c->credit, 0);
    quic_streams_limit(c);
}

void quic_streams_limit(struct quic_connection *c)
{
    quic_peer_streams_init(&c->peer_streams[0], c->own.max_streams_bidi);
    quic_peer_streams_init(&c->peer_streams[1], c->own.max_streams_uni);
    quic_window_init(&c->window, c->own.max_data, most_window(c) / 2 * 3);
}

static void stream_free(struct quic_stream_state *stream)
{
    struct quic_connection *c = stream->head.connection;

    quic_schedule_remove(&c->schedule, &stream->turn);
    list_remove(&stream->control);
    list_remove(&stream->calls);
    list_remove(&stream->link);
    hashed_remove(&c->streams, &stream->entry);
    if (c->called == stream) {
        c->called = NULL;
    }
    if (stream->send != NULL) {
        quic_send_free(stream->send);
    }
    if (stream->receive != NULL) {
        quic_receive_free(stream->receive);
    }
    stream->head.magic = 0;
    if (kind_of(stream->head.id) == 0) {
        spares_give(&spare_streams, stream, SPARE_STREAMS_MOST);
    } else {
        free(stream);
    }
}

void quic_streams_free(struct quic_connection *c)
{
    list_each(link, &c->all_streams) {
        stream_free(container_of(link, struct quic_stream_state, link));
    }
    hashed_free(&c->streams);
}

/* ---- finding and opening ---- */

struct quic_stream_state *quic_stream_find(struct quic_connection *c, uint64_t id)
{
    uint64_t hash = streams_hash_of(id);

    for (struct hashed *at = hashed_first(&c->streams, hash); at != NULL; at = at->next) {
        struct quic_stream_state *stream = container_of(at, struct quic_stream_state, entry);

        if (stream->head.id == id) {
            return stream;
        }
    }
    return NULL;
}

/* What the peer lets us send on a stream, by its parameters. */
static uint64_t send_limit(const struct quic_connection *c, uint64_t id)
{
    if (kind_of(id) == 1) {
        return c->peer.max_stream_data_uni;
    }
    return is_of_peer(c, id) ? c->peer.max_stream_data_local : c->peer.max_stream_data_remote;
}

static struct quic_stream_state *stream_new(struct quic_connection *c, uint64_t id)
{
    bool has_send = kind_of(id) == 0 || !is_of_peer(c, id);
    bool has_receive = kind_of(id) == 0 || is_of_peer(c, id);
    bool is_spare = kind_of(id) == 0;
    size_t size = sizeof(struct quic_stream_state) + (has_send ? sizeof(struct quic_send) : 0) +
                  (has_receive ? sizeof(struct quic_receive) : 0);
    struct quic_stream_state *stream =
        is_spare ? spares_take(&spare_streams, size + quic_send_room_size()) : malloc(size);
    void *half = stream + 1;

    if (stream == NULL) {
        fatal_no_memory(size);
    }
    memset(stream, 0, sizeof(*stream));
    stream->head.magic = QUIC_STREAM_MAGIC;
    stream->head.id = id;
    stream->head.connection = c;
    list_init(&stream->control);
    list_init(&stream->calls);
    list_push_back(&c->all_streams, &stream->link);
    hashed_add(&c->streams, &stream->entry, streams_hash_of(id));
    quic_turn_init(&stream->turn, id);
    if (has_receive) {
        stream->receive = half;
        half = stream->receive + 1;
        quic_receive_init(stream->receive, c->own.max_stream_data_local, most_window(c));
    }
    if (has_send) {
        stream->send = half;
        quic_send_init(stream->send, send_limit(c, id));
        stream->send->has_room = is_spare;
    }
    return stream;
}

static void call_later(struct quic_stream_state *stream)
{
    struct quic_connection *c = stream->head.connection;

    if (!stream->is_released && list_is_empty(&stream->calls)) {
        list_push_back(&c->calls, &stream->calls);
    }
    quic_wake(c);
}

/* Those of lower numbers are opened, too (RFC 9000, 3.2). False: beyond the limit. */
static bool open_up_to(struct quic_connection *c, uint64_t id)
{
    struct quic_peer_streams *streams = &c->peer_streams[kind_of(id)];
    uint64_t first = streams->opened;
    int64_t count = quic_peer_streams_touch(streams, id / 4);

    if (count < 0) {
        return false;
    }
    for (int64_t i = 0; i < count; i++) {
        call_later(stream_new(c, (first + (uint64_t) i) * 4 + (id & 3)));
        c->counts.streams_opened++;
    }
    return true;
}

struct quic_stream_state *quic_stream_for(struct quic_connection *c, uint64_t id, bool is_for_input,
                                          uint64_t frame_type)
{
    struct quic_stream_state *stream = quic_stream_find(c, id);

    if (stream == NULL && is_of_peer(c, id)) {
        if (kind_of(id) == 1 && !is_for_input) {
            quic_refuse(c, QUIC_STREAM_STATE_ERROR, frame_type,
                        "a frame about output of a stream without");
            return NULL;
        }
        if (!open_up_to(c, id)) {
            quic_refuse(c, QUIC_STREAM_LIMIT_ERROR, frame_type, "too many streams");
            return NULL;
        }
        stream = quic_stream_find(c, id);
    } else if (stream == NULL && id / 4 >= c->own_next[kind_of(id)]) {
        quic_refuse(c, QUIC_STREAM_STATE_ERROR, frame_type,
                    "a frame of a stream that was not opened");
        return NULL;
    }
    if (stream != NULL && !(is_for_input ? stream->receive != NULL : stream->send != NULL)) {
        quic_refuse(c, QUIC_STREAM_STATE_ERROR, frame_type, "a frame of the wrong direction");
        return NULL;
    }
    return stream;
}

struct quic_stream *quic_stream_open(struct quic_connection *c, bool is_unidirectional)
{
    if (!quic_is_open(c)) {
        return NULL;
    }
    if (c->own_next[is_unidirectional] >= c->own_limit[is_unidirectional]) {
        c->is_streams_wait[is_unidirectional] = true;
        c->pending |= is_unidirectional ? QUIC_PENDING_STREAMS_BLOCKED_UNI
                                        : QUIC_PENDING_STREAMS_BLOCKED_BIDI;
        return NULL;
    }
    uint64_t id =
        c->own_next[is_unidirectional]++ * 4 + (is_unidirectional ? 2 : 0) + (c->is_server ? 1 : 0);
    struct quic_stream_state *stream = stream_new(c, id);
    stream->was_opened = true;
    return &stream->head;
}

uint64_t quic_streams_left(const struct quic_connection *c)
{
    return c->own_limit[0] > c->own_next[0] ? c->own_limit[0] - c->own_next[0] : 0;
}

/* ---- what frames do ---- */

static void refuse_received(struct quic_connection *c, enum quic_received_result result,
                            uint64_t frame_type)
{
    if (result == QUIC_RECEIVED_FLOW_CONTROL_ERROR) {
        quic_refuse(c, QUIC_FLOW_CONTROL_ERROR, frame_type, "more data than the window allows");
    } else if (result == QUIC_RECEIVED_FINAL_SIZE_ERROR) {
        quic_refuse(c, QUIC_FINAL_SIZE_ERROR, frame_type, "the size of a stream has changed");
    }
}

bool quic_stream_received(struct quic_connection *c, const struct quic_frame *frame)
{
    struct quic_stream_state *stream =
        quic_stream_for(c, frame->stream.id, true, QUIC_FRAME_STREAM);
    const struct quic_arrival arrival = {frame->stream.offset, frame->stream.data,
                                         frame->stream.is_last};
    struct quic_arrival now;

    if (stream == NULL) {
        return true;
    }
    enum quic_received_result result =
        quic_receive_take(stream->receive, &c->window, &arrival, &now);
    if (result == QUIC_RECEIVED_SCATTERED) {
        return false;
    }
    if (result != QUIC_RECEIVED) {
        refuse_received(c, result, QUIC_FRAME_STREAM);
        return true;
    }
    quic_receive_keep(stream->receive, &now);
    stream->is_readable = true;
    if (stream->is_released) {
        quic_stream_settle(stream);
    } else {
        call_later(stream);
    }
    return true;
}

void quic_stream_was_reset(struct quic_connection *c, const struct quic_frame *frame)
{
    struct quic_stream_state *stream =
        quic_stream_for(c, frame->reset.id, true, QUIC_FRAME_RESET_STREAM);

    if (stream == NULL) {
        return;
    }
    enum quic_receive_state before = stream->receive->state;
    refuse_received(c,
                    quic_receive_reset(stream->receive, &c->window, frame->reset.code,
                                       frame->reset.final_size),
                    QUIC_FRAME_RESET_STREAM);
    if (stream->receive->state == QUIC_RECEIVE_RESET && before != QUIC_RECEIVE_RESET) {
        stream->head.is_input_reset = true;
        stream->head.is_input_finished = true;
        stream->head.input_code = frame->reset.code;
        stream->is_readable = true;
        call_later(stream);
    }
    quic_stream_settle(stream);
}

void quic_stream_was_stopped(struct quic_connection *c, const struct quic_frame *frame)
{
    struct quic_stream_state *stream =
        quic_stream_for(c, frame->reset.id, false, QUIC_FRAME_STOP_SENDING);

    if (stream == NULL || stream->head.is_output_stopped || quic_send_is_done(stream->send)) {
        return;
    }
    stream->head.is_output_stopped = true;
    stream->head.output_code = frame->reset.code;
    stream->writable_below = UINT64_MAX;
    quic_send_reset(stream->send, frame->reset.code);
    quic_stream_reschedule(stream);
    quic_stream_control(stream);
    call_later(stream);
}

void quic_streams_credit(struct quic_connection *c)
{
    list_each(link, &c->all_streams) {
        quic_stream_reschedule(container_of(link, struct quic_stream_state, link));
    }
}

void quic_stream_reschedule(struct quic_stream_state *stream)
{
    struct quic_connection *c = stream->head.connection;

    if (stream->send == NULL) {
        return;
    }
    switch (quic_send_need(stream->send, &c->credit)) {
    case QUIC_SEND_AGAIN:
    case QUIC_SEND_NEW:
        quic_schedule_add(&c->schedule, &stream->turn);
        return;
    case QUIC_SEND_BLOCKED_STREAM:
        quic_stream_control(stream);
        break;
    case QUIC_SEND_BLOCKED_CONNECTION:
        c->pending |= QUIC_PENDING_DATA_BLOCKED;
        break;
    case QUIC_SEND_NOTHING:
        break;
    }
    quic_schedule_remove(&c->schedule, &stream->turn);
}

void quic_stream_control(struct quic_stream_state *stream)
{
    if (list_is_empty(&stream->control)) {
        list_push_back(&stream->head.connection->control_streams, &stream->control);
    }
}

void quic_stream_settle(struct quic_stream_state *stream)
{
    struct quic_connection *c = stream->head.connection;
    bool is_sent = stream->send == NULL || quic_send_is_done(stream->send);
    bool is_heard = stream->receive == NULL || quic_receive_is_done(stream->receive);

    if (!stream->is_released || !is_sent || !is_heard) {
        return;
    }
    if (is_of_peer(c, stream->head.id)) {
        unsigned kind = kind_of(stream->head.id);

        quic_peer_streams_close(&c->peer_streams[kind]);
        if (quic_peer_streams_is_due(&c->peer_streams[kind])) {
            c->pending |= kind == 0 ? QUIC_PENDING_MAX_STREAMS_BIDI : QUIC_PENDING_MAX_STREAMS_UNI;
            quic_wake(c);
        }
    }
    stream_free(stream);
}

/* ---- calls of the owner ---- */

/* The stream, if it is still there after a call of its owner. */
static struct quic_stream_state *still_called(const struct quic_connection *c)
{
    return quic_is_open(c) ? c->called : NULL;
}

static void call_one(struct quic_connection *c, struct quic_stream_state *stream)
{
    c->called = stream;
    if (!stream->was_opened) {
        stream->was_opened = true;
        c->owner->stream_opened(&stream->head);
        stream = still_called(c);
    }
    if (stream != NULL && stream->is_readable && !stream->is_released) {
        stream->is_readable = false;
        c->owner->readable(&stream->head);
        stream = still_called(c);
    }
    if (stream != NULL && stream->writable_below != 0 && !stream->is_released &&
        stream->send != NULL && quic_send_unsent(stream->send) < stream->writable_below) {
        stream->writable_below = 0;
        c->owner->writable(&stream->head);
    }
    c->called = NULL;
}

void quic_streams_call(struct quic_connection *c)
{
    struct list *link;

    for (unsigned kind = 0; kind < 2; kind++) {
        if (c->is_streams_wait[kind] && c->own_next[kind] < c->own_limit[kind]) {
            c->is_streams_wait[kind] = false;
            c->has_more_streams = true;
        }
    }
    if (c->has_more_streams) {
        c->has_more_streams = false;
        if (c->owner->streams_available != NULL) {
            c->owner->streams_available(c);
        }
    }
    while (quic_is_open(c) && (link = list_pop_front(&c->calls)) != NULL) {
        call_one(c, container_of(link, struct quic_stream_state, calls));
    }
    if (quic_is_open(c) && c->owner->streams_called != NULL) {
        c->owner->streams_called(c);
    }
}

void quic_stream_sent_some(struct quic_stream_state *stream)
{
    stream->head.moved_ms = clock_now.now_ms;
    if (stream->writable_below != 0 && !stream->is_released && stream->send != NULL &&
        quic_send_unsent(stream->send) < stream->writable_below) {
        call_later(stream);
    }
}

/* ---- the interface: input ---- */

static void update_finished(struct quic_stream_state *stream)
{
    if (quic_receive_is_read(stream->receive)) {
        stream->head.is_input_finished = true;
    }
}

struct str quic_stream_input(struct quic_stream *head)
{
    struct quic_stream_state *stream = quic_state_of(head);

    if (stream->receive == NULL) {
        return STR_NONE;
    }
    update_finished(stream);
    return quic_receive_input(stream->receive);
}

static void windows_moved(struct quic_stream_state *stream)
{
    struct quic_connection *c = stream->head.connection;

    if (quic_receive_is_window_due(stream->receive)) {
        quic_stream_control(stream);
        quic_wake(c);
    }
    if (quic_window_is_due(&c->window)) {
        c->pending |= QUIC_PENDING_MAX_DATA;
        quic_wake(c);
    }
}

void quic_stream_consume(struct quic_stream *head, size_t n)
{
    struct quic_stream_state *stream = quic_state_of(head);

    quic_receive_consume(stream->receive, &head->connection->window, n);
    update_finished(stream);
    windows_moved(stream);
}

void quic_stream_stop(struct quic_stream *head, uint64_t code)
{
    struct quic_stream_state *stream = quic_state_of(head);

    if (stream->receive != NULL) {
        quic_receive_stop(stream->receive, &head->connection->window, code);
        quic_stream_control(stream);
        windows_moved(stream);
        quic_wake(head->connection);
    }
}

/* ---- the interface: output ---- */

/* What was written to a stream that is scheduled changes nothing about its turn. */
static void has_output(struct quic_stream_state *stream)
{
    if (!stream->turn.is_waiting) {
        quic_stream_reschedule(stream);
    }
    quic_wake(stream->head.connection);
}

void quic_stream_write(struct quic_stream *head, struct str bytes)
{
    struct quic_stream_state *stream = quic_state_of(head);

    if (bytes.len != 0 && stream->send != NULL) {
        quic_send_copy(stream->send, bytes);
        has_output(stream);
    }
}

void quic_stream_write_reference(struct quic_stream *head, struct str bytes,
                                 void (*release)(void *), void *arg)
{
    struct quic_stream_state *stream = quic_state_of(head);

    quic_send_refer(stream->send, bytes, release, arg);
    has_output(stream);
}

void quic_stream_write_file(struct quic_stream *head, int fd, struct file_range range,
                            void (*release)(void *), void *arg)
{
    struct quic_stream_state *stream = quic_state_of(head);
    const struct quic_file_part part = {fd, (uint64_t) range.offset, range.size};

    quic_send_file(stream->send, &part, release, arg);
    has_output(stream);
}

void quic_stream_finish(struct quic_stream *head)
{
    struct quic_stream_state *stream = quic_state_of(head);

    if (stream->send != NULL && !head->is_output_ended) {
        head->is_output_ended = true;
        quic_send_finish(stream->send);
        has_output(stream);
    }
}

void quic_stream_reset(struct quic_stream *head, uint64_t code)
{
    struct quic_stream_state *stream = quic_state_of(head);

    if (stream->send != NULL) {
        head->is_output_ended = true;
        quic_send_reset(stream->send, code);
        quic_stream_control(stream);
        quic_stream_reschedule(stream);
        quic_wake(head->connection);
    }
}

uint64_t quic_stream_unsent(const struct quic_stream *head)
{
    const struct quic_send *send = quic_state_of(head)->send;

    return send == NULL ? 0 : quic_send_unsent(send);
}

uint64_t quic_stream_sent(const struct quic_stream *head)
{
    const struct quic_send *send = quic_state_of(head)->send;

    return send == NULL ? 0 : quic_send_final_size(send);
}

uint64_t quic_stream_unacknowledged(const struct quic_stream *head)
{
    const struct quic_send *send = quic_state_of(head)->send;

    return send == NULL ? 0 : quic_send_unacknowledged(send);
}

void quic_stream_want_writable(struct quic_stream *head, uint64_t below)
{
    struct quic_stream_state *stream = quic_state_of(head);

    stream->writable_below = below;
    quic_stream_sent_some(stream);
}

void quic_stream_prioritize(struct quic_stream *head, unsigned urgency, bool is_incremental)
{
    struct quic_stream_state *stream = quic_state_of(head);

    quic_schedule_prioritize(&head->connection->schedule, &stream->turn, urgency, is_incremental);
}

void quic_stream_release(struct quic_stream *head, uint64_t code)
{
    struct quic_stream_state *stream = quic_state_of(head);

    assert(!stream->is_released);
    stream->is_released = true;
    list_remove(&stream->calls);
    if (stream->receive != NULL && !quic_receive_is_read(stream->receive) &&
        !stream->head.is_input_reset) {
        quic_stream_stop(head, code);
    }
    if (stream->send != NULL && !head->is_output_ended) {
        quic_stream_reset(head, code);
    }
    if (stream->head.connection->state <= QUIC_ESTABLISHED) {
        quic_stream_settle(stream);
    }
}
