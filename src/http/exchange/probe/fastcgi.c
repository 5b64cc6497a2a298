/* FastCGI (1.0) as far as a health check needs it: one request without a body, the output of the
 * response. */
#include "http/exchange/probe/probe.h"
#include "http/exchange/probe/records.h"

enum {
    REQUEST_ID = 1,
    VALUE_MAX = 65536, /* bytes of a parameter */
    OUTPUT_MAX = PROBE_HEAD_MAX + PROBE_BODY_MAX,
};

/* ---- the request ---- */

static struct str encode_params(struct arena *arena, const struct vec *params)
{
    size_t size = 1;

    vec_each(const struct probe_param, param, params) {
        size += 2 * PAIR_LENGTH_SIZE + param->name.len + param->value.len;
    }
    char *text = arena_text(arena, size);
    char *at = text;
    vec_each(const struct probe_param, param, params) {
        at = pair_write(at, param->name, param->value);
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
    struct str pairs = encode_params(arena, params);
    char *text =
        arena_text(arena, RECORD_BEGIN_SIZE + records_params_room(pairs.len) + RECORD_HEADER_SIZE);
    char *at = record_write_begin(text, REQUEST_ID, keeps_conn);

    at = records_write_params(at, REQUEST_ID, pairs);
    at = record_write(at, RECORD_STDIN, REQUEST_ID, 0);
    *out = str_from(text, at);
    return true;
}

/* ---- the response ---- */

static enum probe_step bad_record(struct probe_records *records, const char *reason)
{
    records->reason = reason;
    return PROBE_BAD;
}

static enum probe_step begin_record(struct probe_records *records)
{
    struct record record = record_read(records->head);

    records->type = record.type;
    records->left = record.content;
    records->padding = record.padding;
    if (record.version != RECORD_VERSION || record.id != REQUEST_ID) {
        return bad_record(records, "FastCGI record");
    }
    if (record.type != RECORD_STDOUT && record.type != RECORD_STDERR &&
        record.type != RECORD_END_REQUEST) {
        return bad_record(records, "type of a FastCGI record");
    }
    if (record.type == RECORD_END_REQUEST && record.content != RECORD_END_SIZE) {
        return bad_record(records, "FastCGI record of the request's end");
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
    if (records->type == RECORD_STDOUT) {
        keep_output(records, data);
    } else if (records->type == RECORD_END_REQUEST) {
        memcpy(records->end + records->end_size, data.data, data.len);
        records->end_size = (uint8_t) (records->end_size + data.len);
    }
}

/* A record was taken whole. */
static enum probe_step end_record(struct probe_records *records)
{
    records->head_size = 0;
    if (records->type != RECORD_END_REQUEST) {
        return PROBE_MORE;
    }
    return records->end[4] == RECORD_REQUEST_COMPLETE
               ? PROBE_DONE
               : bad_record(records, "FastCGI status: it was refused");
}

enum probe_step probe_records_take(struct probe_records *records, struct str *input)
{
    enum probe_step step = PROBE_MORE;

    while (step == PROBE_MORE && input->len != 0) {
        if (records->head_size < sizeof(records->head)) {
            records->head[records->head_size++] = input->data[0];
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
