/* The input of a connection: its preface, and frames as they come off it. */
#include "http/v2/v2.h"

#define PREFACE STR(V2_PREFACE)
#define READ_ROUNDS 8 /* reads of one connection before others get their turn */
/* Unsent bytes above which a client that does not read is not read, either. */
#define UNSENT_STOP (256 * 1024)
/* Responses that wait to be sent, above which the client is not read: small bodies may have large
 * heads. */
#define FINISHED_MAX 128

/* Takes the preface off the input. False: there is not all of it yet, or the connection has failed.
 */
static bool take_preface(struct v2_connection *c)
{
    struct str input = conn_input(c->conn);
    struct str part = str_head(PREFACE, input.len);

    if (!str_starts(input, part)) {
        v2_fail(c, V2_PROTOCOL_ERROR, "sent invalid connection preface");
        return false;
    }
    if (part.len < PREFACE.len) {
        return false;
    }
    conn_consume(c->conn, part.len);
    c->has_preface = true;
    return true;
}

/* A frame whose size is an error of its stream alone: PRIORITY. */
static void refuse_frame(struct v2_connection *c, const struct frame_head *head,
                         enum v2_error error)
{
    struct v2_stream *stream = v2_find(c, head->stream);

    if (!v2_guard(c, GUARD_ERRORS)) {
        return;
    }
    if (stream != NULL) {
        v2_reset(stream, error);
    } else {
        v2_put_reset(c, head->stream, error);
    }
}

/* The longest frame of a kind that is read whole. Header blocks have their limit, with what HEADERS
 * may have besides: padding and an old priority. */
static uint32_t frame_limit(const struct v2_connection *c, uint8_t type)
{
    return type == FRAME_HEADERS || type == FRAME_CONTINUATION
               ? connection_server(c->connection)->head_limits.head_max + 1 + 255 + 5
               : FRAME_SIZE_DEFAULT;
}

/* Of a wrong size, or of a wrong stream. */
static void fail_for_frame(struct v2_connection *c, const struct frame_head *head,
                           enum v2_error error)
{
    if (error == V2_PROTOCOL_ERROR) {
        v2_fail(c, error, "sent %s frame with incorrect identifier", frame_name(head->type));
    } else if (head->type == FRAME_SETTINGS && (head->flags & FLAG_ACK) != 0) {
        v2_fail(c, error, "sent SETTINGS frame with the ACK flag and nonzero length");
    } else {
        v2_fail(c, error, "sent %s frame with incorrect length %u", frame_name(head->type),
                head->length);
    }
}

/* Is it one that is worked on as it comes? */
static bool is_streamed(const struct frame_head *head)
{
    return head->type != FRAME_HEADERS &&
           (head->type == FRAME_DATA || head->type == FRAME_GOAWAY ||
            (head->type > FRAME_CONTINUATION && head->type != FRAME_PRIORITY_UPDATE));
}

/* padding: its bytes; -1: the frame has none that says so. */
static void fail_for_padding(struct v2_connection *c, const struct frame_head *head, int padding)
{
    if (padding < 0) {
        v2_fail(c, V2_FRAME_SIZE_ERROR, "sent padded DATA frame with incorrect length: 0");
    } else {
        v2_fail(c, V2_PROTOCOL_ERROR,
                "sent padded DATA frame with incorrect length: %u, padding: %d", head->length,
                padding);
    }
}

/* False: there is not enough of it yet. */
static bool begin_part(struct v2_connection *c, const struct frame_head *head, struct str input)
{
    bool is_padded = head->type == FRAME_DATA && (head->flags & FLAG_PADDED) != 0;
    uint32_t before = FRAME_HEAD_SIZE;

    c->part.stream = 0;
    c->part.left = head->length;
    c->part.padding = 0;
    if (is_padded) {
        if (head->length != 0 && input.len == FRAME_HEAD_SIZE) {
            return false;
        }
        if (head->length == 0 || (unsigned char) input.data[before] >= head->length) {
            fail_for_padding(c, head, head->length == 0 ? -1 : (unsigned char) input.data[before]);
            return true;
        }
        c->part.padding = (unsigned char) input.data[before++];
        c->part.left -= 1 + c->part.padding;
    }
    conn_consume(c->conn, before);
    c->deadline.frames++;
    c->part.is_open = c->part.left + c->part.padding != 0;
    v2_receive(c, head, STR_NONE);
    return true;
}

/* What there is of it. */
static void take_part(struct v2_connection *c)
{
    struct str input = conn_input(c->conn);
    struct str bytes = str_head(input, c->part.left);
    struct str padding = str_head(str_skip(input, bytes.len), c->part.padding);

    conn_consume(c->conn, bytes.len + padding.len);
    c->deadline.data_taken += bytes.len;
    c->part.left -= (uint32_t) bytes.len;
    c->part.padding -= (uint32_t) padding.len;
    c->part.is_open = c->part.left + c->part.padding != 0;
    if (c->part.stream != 0) {
        v2_data_part(c, bytes, (uint32_t) padding.len, c->part.ends_stream && !c->part.is_open);
    }
}

/* Works on a frame of which the head is there. False: more of it has to come, or the connection has
 * failed. */
static bool take_frame(struct v2_connection *c)
{
    struct conn *conn = c->conn;
    struct str input = conn_input(conn);
    struct frame_head head = frame_read(input.data);
    bool is_stream_error;
    enum v2_error error = frame_check(&head, V2_FRAME_MAX, &is_stream_error);

    if (c->header_block.stream != 0 &&
        (head.type != FRAME_CONTINUATION || head.stream != c->header_block.stream)) {
        v2_fail(c, V2_PROTOCOL_ERROR,
                head.type == FRAME_CONTINUATION
                    ? "sent CONTINUATION frame with incorrect identifier"
                    : "sent inappropriate frame while CONTINUATION was expected");
        return false;
    }
    if (head.type == FRAME_PUSH_PROMISE) {
        v2_fail(c, V2_PROTOCOL_ERROR, "sent PUSH_PROMISE frame");
        return false;
    }
    if (error == V2_NO_ERROR && is_streamed(&head)) {
        return begin_part(c, &head, input) && c->phase < V2_FAILED;
    }
    if (head.length > FRAME_SIZE_DEFAULT && head.length > frame_limit(c, head.type)) {
        if (error == V2_NO_ERROR &&
            (head.type == FRAME_HEADERS || head.type == FRAME_CONTINUATION)) {
            v2_guard_failed(c, "bytes in a header block");
            return false;
        }
        error = V2_FRAME_SIZE_ERROR;
        is_stream_error = false;
    }
    if (error != V2_NO_ERROR && !is_stream_error) {
        fail_for_frame(c, &head, error);
        return false;
    }
    if (input.len < FRAME_HEAD_SIZE + head.length) {
        c->deadline.frame_size = FRAME_HEAD_SIZE + head.length;
        return false;
    }
    conn_consume(conn, FRAME_HEAD_SIZE + head.length);
    c->deadline.frames += head.type != FRAME_CONTINUATION;
    if (error != V2_NO_ERROR) {
        refuse_frame(c, &head, error);
    } else {
        v2_receive(c, &head, (struct str){input.data + FRAME_HEAD_SIZE, head.length});
    }
    return c->phase < V2_FAILED;
}

/* May more requests be taken? If not, the input is held until answers have left: see v2_settle. */
static bool has_slot(struct v2_connection *c)
{
    if (c->finished_count >= FINISHED_MAX) {
        conn_flush(c->conn);
        v2_recycle(c);
    }
    c->is_held = c->finished_count >= FINISHED_MAX || conn_unsent(c->conn) >= UNSENT_STOP;
    return !c->is_held;
}

/* Works on what has come. */
static void process(struct v2_connection *c)
{
    struct conn *conn = c->conn;

    if (!c->has_preface && !take_preface(c)) {
        return;
    }
    c->deadline.frame_size = 0;
    while (c->phase < V2_FAILED && conn->in_end != conn->in_start && has_slot(c)) {
        if (c->part.is_open) {
            take_part(c);
        } else if (conn->in_end - conn->in_start < FRAME_HEAD_SIZE || !take_frame(c)) {
            return;
        }
    }
}

/* One read. A buffer that is too small for what is on its way is given for a larger one. */
static bool read_more(struct v2_connection *c)
{
    struct conn *conn = c->conn;
    size_t first = V2_INPUT_FIRST;
    size_t most = FRAME_HEAD_SIZE + FRAME_SIZE_DEFAULT;

    if (c->settings->recv_buffer_size > most) {
        most = c->settings->recv_buffer_size < 65536 ? c->settings->recv_buffer_size : 65536;
    }
    if (c->deadline.frame_size > most) {
        most = c->deadline.frame_size;
    }
    if (c->part.left > V2_INPUT_FIRST) {
        first = most;
        if (conn->in_size < first) {
            conn_input_release(conn);
        }
    }
    return conn_fill(conn, first, most);
}

void v2_pump(struct v2_connection *c)
{
    struct conn *conn = c->conn;

    c->is_pumping = true;
    c->is_held = false;
    conn->is_input_paused = 0;
    process(c);
    for (unsigned rounds = 0; rounds < READ_ROUNDS && c->phase < V2_FAILED; rounds++) {
        if (!has_slot(c) || !read_more(c)) {
            break;
        }
        process(c);
        v2_run_woken(c);
    }
    v2_run_woken(c);
    conn->is_input_paused = c->is_held;
    c->is_pumping = false;
}
