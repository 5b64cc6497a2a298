/* Frames of a connection itself: SETTINGS, WINDOW_UPDATE, RST_STREAM, GOAWAY. */
#include "http/v2/v2.h"

void v2_put_settings(struct v2_connection *c)
{
    const struct head_limits *limits = &connection_server(c->connection)->head_limits;
    const struct {
        uint16_t id;
        uint32_t value;
    } ours[] = {
        {SETTING_MAX_CONCURRENT_STREAMS, (uint32_t) c->settings->max_streams},
        {SETTING_INITIAL_WINDOW_SIZE, (uint32_t) c->settings->preread_size},
        {SETTING_MAX_FRAME_SIZE, V2_FRAME_MAX},
        {SETTING_MAX_HEADER_LIST_SIZE, limits->head_max},
        {SETTING_ENABLE_CONNECT_PROTOCOL, 1},
        {SETTING_NO_RFC7540_PRIORITIES, 1},
    };
    uint32_t count = sizeof(ours) / sizeof(ours[0]);
    char *buffer = conn_out_room(c->conn, FRAME_HEAD_SIZE + count * 6);
    char *at = frame_put(buffer, count * 6, FRAME_SETTINGS, 0, 0);

    for (uint32_t i = 0; i < count; i++) {
        at = put_u32(put_u16(at, ours[i].id), ours[i].value);
    }
    conn_out_commit(c->conn, (size_t) (at - buffer));
}

void v2_put_window(struct v2_connection *c, uint32_t stream, uint32_t by)
{
    char *buffer = conn_out_room(c->conn, FRAME_HEAD_SIZE + 4);

    put_u32(frame_put(buffer, 4, FRAME_WINDOW_UPDATE, 0, stream), by);
    conn_out_commit(c->conn, FRAME_HEAD_SIZE + 4);
    v2_settle_later(c);
}

void v2_put_reset(struct v2_connection *c, uint32_t id, enum v2_error error)
{
    char *buffer = conn_out_room(c->conn, FRAME_HEAD_SIZE + 4);

    put_u32(frame_put(buffer, 4, FRAME_RST_STREAM, 0, id), error);
    conn_out_commit(c->conn, FRAME_HEAD_SIZE + 4);
    v2_settle_later(c);
}

void v2_go_away(struct v2_connection *c, enum v2_error error)
{
    if (c->phase >= V2_GOING_AWAY && error == V2_NO_ERROR) {
        return;
    }
    if (c->phase < V2_GOING_AWAY) {
        c->goaway_stream = c->last_stream; /* it may not grow (RFC 9113, 6.8) */
        c->phase = V2_GOING_AWAY;
    }
    char *buffer = conn_out_room(c->conn, FRAME_HEAD_SIZE + 8);
    put_u32(put_u32(frame_put(buffer, 8, FRAME_GOAWAY, 0, 0), c->goaway_stream), error);
    conn_out_commit(c->conn, FRAME_HEAD_SIZE + 8);
    c->connection->is_last = true;
    v2_settle_later(c);
}
