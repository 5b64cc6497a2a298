/* The table of streams that are worked on, and what is remembered of those that were. */
#include "http/v2/v2.h"
#include "server/generation.h"

static struct v2_stream **v2_table_bucket_of(const struct v2_connection *c, uint32_t id)
{
    return &c->streams[id >> 1 & c->bucket_mask];
}

struct v2_stream *v2_find(const struct v2_connection *c, uint32_t id)
{
    struct v2_stream *stream = *v2_table_bucket_of(c, id);

    while (stream != NULL && stream->id != id) {
        stream = stream->next;
    }
    return stream;
}

void v2_stream_add(struct v2_connection *c, struct v2_stream *stream, uint32_t id)
{
    struct v2_stream **bucket = v2_table_bucket_of(c, id);

    stream->connection = c;
    stream->id = id;
    stream->send_window = c->peer_window;
    stream->recv_window = c->is_acknowledged ? (int64_t) c->settings->preread_size : WINDOW_DEFAULT;
    list_init(&stream->turn_node);
    list_init(&stream->woken_node);
    stream->next = *bucket;
    *bucket = stream;
    c->stream_count++;
    if (!c->is_writing) {
        c->is_writing = true;
        counters_mine->writing++;
    }
}

void v2_stream_remove(struct v2_connection *c, struct v2_stream *stream)
{
    struct v2_stream **at = v2_table_bucket_of(c, stream->id);

    while (*at != stream) {
        at = &(*at)->next;
    }
    *at = stream->next;
    c->stream_count--;
}

void v2_each(struct v2_connection *c, void (*visit)(struct v2_stream *stream, void *arg), void *arg)
{
    for (uint32_t i = 0; i <= c->bucket_mask; i++) {
        struct v2_stream *next;
        for (struct v2_stream *stream = c->streams[i]; stream != NULL; stream = next) {
            next = stream->next;
            visit(stream, arg);
        }
    }
}

/* ---- those that have ended ---- */

/* Where a stream's end is remembered, until another with the same place ends. */
static unsigned v2_table_slot_of(uint32_t id)
{
    return id / 2 % CLOSED_KEPT;
}

void v2_note_closed(struct v2_connection *c, uint32_t id, enum v2_end end)
{
    c->closed[v2_table_slot_of(id)].id = id;
    c->closed[v2_table_slot_of(id)].end = (uint8_t) end;
}

enum v2_end v2_ending(const struct v2_connection *c, uint32_t id)
{
    unsigned position = v2_table_slot_of(id);

    return c->closed[position].id == id ? (enum v2_end) c->closed[position].end : END_UNKNOWN;
}
