/* What the connection itself says: GOAWAY, and instructions of QPACK. */
#include "http/message/prefixed.h"
#include "http/v3/v3.h"

void v3_go_away(struct v3_connection *c)
{
    char frame[H3_FRAME_ROOM + H3_INTEGER_ROOM];

    if (c->phase >= V3_GOING_AWAY) {
        return;
    }
    c->phase = V3_GOING_AWAY;
    c->goaway_stream = c->next_stream;
    c->connection->is_last = true;
    if (c->control != NULL) {
        char *at = h3_put_frame(frame, H3_GOAWAY, h3_integer_size(c->goaway_stream));
        at = h3_put_integer(at, c->goaway_stream);
        quic_stream_write(c->control, str_from(frame, at));
    }
    v3_settle_later(c);
}

/* Unsent instructions above which the encoder makes no more, and a client that takes no feedback
 * loses its connection. */
#define INSTRUCTIONS_UNSENT_MAX 8192

void v3_send_instructions(struct v3_connection *c)
{
    char increment[PREFIXED_INTEGER_ROOM];

    if (c->phase == V3_CLOSED || !c->is_begun) {
        return;
    }
    char *end = qpack_put_increment(increment, &c->decoder);
    if (end != increment) {
        quic_stream_write(c->decoder_stream, str_from(increment, end));
    }
    if (c->decoder_stream != NULL &&
        quic_stream_unsent(c->decoder_stream) > INSTRUCTIONS_UNSENT_MAX) {
        v3_guard_failed(c, "compressed fields without taking the feedback on them");
    }
    if (c->encoder.instructions_size != 0 &&
        quic_stream_unsent(c->encoder_stream) < INSTRUCTIONS_UNSENT_MAX) {
        quic_stream_write(c->encoder_stream,
                          (struct str){c->encoder.instructions, c->encoder.instructions_size});
        c->encoder.instructions_size = 0;
    }
}
