/* Streams by their ids, and their priorities. */
#include "http/v3/v3.h"

struct v3_stream *v3_find(const struct v3_connection *c, uint64_t id)
{
    for (struct list *link = c->streams.next; link != &c->streams; link = link->next) {
        struct v3_stream *stream = container_of(link, struct v3_stream, link);
        if (stream->id == id) {
            return stream;
        }
    }
    return NULL;
}

void v3_prioritise(struct v3_stream *stream, uint8_t urgency, bool is_incremental)
{
    stream->urgency = urgency;
    stream->is_incremental = is_incremental;
    if (stream->quic != NULL) {
        quic_stream_prioritize(stream->quic, urgency, is_incremental);
    }
}
