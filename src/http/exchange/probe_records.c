/* FastCGI (1.0) as far as a health check needs it: one request without a body, the output of the
 * answer. */
#include "http/exchange/probe.h"

enum {
    FASTCGI_VERSION = 1,
    BEGIN_REQUEST = 1,
    END_REQUEST = 3,
    PARAMS = 4,
    STDIN = 5,
    STDOUT = 6,
    STDERR = 7,
    RESPONDER = 1,
    KEEP_CONN = 1,
    REQUEST_ID = 1,
    CONTENT_MAX = 65528, /* of one of our records */
    VALUE_MAX = 65536,   /* bytes of a parameter */
    OUTPUT_MAX = PROBE_HEAD_MAX + PROBE_BODY_MAX,
};

/* ---- the request ---- */

static char *put_record_head(char *at, unsigned type, size_t content, unsigned padding)
{
    *at++ = FASTCGI_VERSION;
    *at++ = (char) type;
    *at++ = 0;
    *at++ = REQUEST_ID;
    *at++ = (char) (content >> 8);
    *at++ = (char) content;
    *at++ = (char) padding;
    *at++ = 0;
    return at;
}

/* A length in one byte or four (3.4). */
static char *put_length(char *at, size_t length)
{
    if (length < 128) {
        *at++ = (char) length;
        return at;
    }
    *at++ = (char) (length >> 24 | 0x80);
    *at++ = (char) (length >> 16);
    *at++ = (char) (length >> 8);
    *at++ = (char) length;
    return at;
}

static struct str encode_params(struct arena *arena, const struct vec *params)
{
    size_t size = 1;

    vec_each(const struct probe_param, param, params) {
        size += 8 + param->name.len + param->value.len;
    }
    char *text = arena_text(arena, size);
    char *at = text;
    vec_each(const struct probe_param, param, params) {
        at = put_length(at, param->name.len);
        at = put_length(at, param->value.len);
        memcpy(at, param->name.data, param->name.len);
        at += param->name.len;
        if (param->value.len != 0) {
            memcpy(at, param->value.data, param->value.len);
            at += param->value.len;
        }
    }
    return str_from(text, at);
}

bool probe_fastcgi_request(struct arena *arena, const struct vec *params, bool keeps_conn,
                           struct str *out)
{
    vec_each(const struct probe_param, param, params) {
        if (param->name.len > VALUE_MAX || param->value.len > VALUE_MAX) {
            return false;
        }
    }
    struct str encoded = encode_params(arena, params);
    size_t records = encoded.len / CONTENT_MAX + 1;
    char *text = arena_text(arena, 16 + encoded.len + (records + 2) * 16);
    char *at = put_record_head(text, BEGIN_REQUEST, 8, 0);

    memset(at, 0, 8);
    at[1] = RESPONDER;
    at[2] = keeps_conn ? KEEP_CONN : 0;
    at += 8;
    while (encoded.len != 0) {
        struct str part = str_head(encoded, CONTENT_MAX);
        unsigned padding = (unsigned) (-part.len & 7);
        at = put_record_head(at, PARAMS, part.len, padding);
        memcpy(at, part.data, part.len);
        at += part.len;
        memset(at, 0, padding);
        at += padding;
        encoded = str_skip(encoded, part.len);
    }
    at = put_record_head(at, PARAMS, 0, 0);
    at = put_record_head(at, STDIN, 0, 0);
    *out = str_from(text, at);
    return true;
}

/* ---- the answer ---- */

static enum probe_step bad(struct probe_records *records, const char *reason)
{
    records->reason = reason;
    return PROBE_BAD;
}

static enum probe_step begin_record(struct probe_records *records)
{
    const uint8_t *head = records->head;

    records->type = head[1];
    records->left = (uint16_t) (head[4] << 8 | head[5]);
    records->padding = head[6];
    if (head[0] != FASTCGI_VERSION || head[2] != 0 || head[3] != REQUEST_ID) {
        return bad(records, "FastCGI record");
    }
    if (records->type != STDOUT && records->type != STDERR && records->type != END_REQUEST) {
        return bad(records, "type of a FastCGI record");
    }
    if (records->type == END_REQUEST && records->left != 8) {
        return bad(records, "FastCGI record of the request's end");
    }
    return PROBE_MORE;
}

/* What does not fit is dropped: nobody will look at it. */
static void keep_output(struct probe_records *records, struct str data)
{
    struct str *output = &records->output;

    data = str_head(data, OUTPUT_MAX - output->len);
    if (data.len == 0) {
        return;
    }
    if (output->len + data.len > records->output_room) {
        size_t room = records->output_room == 0 ? 4096 : records->output_room * 2;
        while (room < output->len + data.len) {
            room *= 2;
        }
        char *bigger = arena_alloc(records->arena, room);
        if (output->len != 0) {
            memcpy(bigger, output->data, output->len);
        }
        output->data = bigger;
        records->output_room = room;
    }
    memcpy((char *) output->data + output->len, data.data, data.len);
    output->len += data.len;
}

static void take_content(struct probe_records *records, struct str data)
{
    if (records->type == STDOUT) {
        keep_output(records, data);
    } else if (records->type == END_REQUEST) {
        memcpy(records->end + records->end_size, data.data, data.len);
        records->end_size = (uint8_t) (records->end_size + data.len);
    }
}

/* A record was taken whole. */
static enum probe_step end_record(struct probe_records *records)
{
    records->head_size = 0;
    if (records->type != END_REQUEST) {
        return PROBE_MORE;
    }
    return records->end[4] == 0 ? PROBE_DONE : bad(records, "FastCGI status: it was refused");
}

enum probe_step probe_records_take(struct probe_records *records, struct str *input)
{
    enum probe_step step = PROBE_MORE;

    while (step == PROBE_MORE && input->len != 0) {
        if (records->head_size < sizeof(records->head)) {
            records->head[records->head_size++] = (uint8_t) input->data[0];
            *input = str_skip(*input, 1);
            if (records->head_size == sizeof(records->head)) {
                step = begin_record(records);
            }
        } else if (records->left != 0) {
            struct str data = str_head(*input, records->left);
            take_content(records, data);
            records->left = (uint16_t) (records->left - data.len);
            *input = str_skip(*input, data.len);
        } else {
            struct str data = str_head(*input, records->padding);
            records->padding = (uint8_t) (records->padding - data.len);
            *input = str_skip(*input, data.len);
        }
        if (step == PROBE_MORE && records->head_size == sizeof(records->head) &&
            records->left == 0 && records->padding == 0) {
            step = end_record(records);
        }
    }
    return step;
}
