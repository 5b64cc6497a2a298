/* HTTP/3 frames and settings. */
#include "http/message/h3_frame.h"

#include "net/quic/varint.h"

/* ---- parsing ---- */

/* Length of the integer with this first byte. */
static unsigned integer_length(char first)
{
    return 1u << ((unsigned char) first >> 6);
}

/* Takes bytes until there are `count` of them. */
static bool fill_reader(struct h3_reader *reader, struct str *input, unsigned count)
{
    while (reader->size < count && input->len != 0) {
        reader->bytes[reader->size++] = input->data[0];
        *input = str_skip(*input, 1);
    }
    return reader->size >= count;
}

/* Completes the integer that begins at `from`; *end becomes its end. */
static bool fill_integer(struct h3_reader *reader, struct str *input, unsigned from, unsigned *end)
{
    if (!fill_reader(reader, input, from + 1)) {
        return false;
    }
    *end = from + integer_length(reader->bytes[from]);
    return fill_reader(reader, input, *end);
}

bool h3_read_integer(struct h3_reader *reader, struct str *input, uint64_t *out)
{
    unsigned end;

    if (!fill_integer(reader, input, 0, &end)) {
        return false;
    }
    struct str bytes = {reader->bytes, end};
    reader->size = 0;
    return quic_varint_read(&bytes, out);
}

bool h3_read_frame(struct h3_reader *reader, struct str *input, uint64_t *type, uint64_t *length)
{
    unsigned middle, end;
    struct str whole = *input;

    if (reader->size == 0 && quic_varint_read(&whole, type) && quic_varint_read(&whole, length)) {
        *input = whole;
        return true;
    }
    if (!fill_integer(reader, input, 0, &middle) || !fill_integer(reader, input, middle, &end)) {
        return false;
    }
    struct str bytes = {reader->bytes, end};
    reader->size = 0;
    return quic_varint_read(&bytes, type) && quic_varint_read(&bytes, length);
}

/* Frame types of HTTP/2 that HTTP/3 reserves (RFC 9114, 7.2.8). */
static bool is_of_http2(uint64_t type)
{
    return type == 0x02 || type == 0x06 || type == 0x08 || type == 0x09;
}

bool h3_frame_is_of_request(uint64_t type)
{
    return !is_of_http2(type) && type != H3_CANCEL_PUSH && type != H3_SETTINGS &&
           type != H3_PUSH_PROMISE && type != H3_GOAWAY && type != H3_MAX_PUSH_ID &&
           type != H3_PRIORITY_UPDATE && type != H3_PRIORITY_UPDATE_PUSH;
}

bool h3_frame_is_of_control(uint64_t type)
{
    return !is_of_http2(type) && type != H3_DATA && type != H3_HEADERS && type != H3_PUSH_PROMISE;
}

/* ---- settings ---- */
/* Identifiers kept to detect duplicates: more settings than these are an error. */

#define IDS_KEPT 32

static enum h3_error take_setting(struct h3_settings *settings, uint64_t id, uint64_t value)
{
    switch (id) {
    case H3_QPACK_MAX_TABLE_CAPACITY:
        settings->table_capacity = value;
        break;
    case H3_MAX_FIELD_SECTION_SIZE:
        settings->field_section_max = value;
        break;
    case H3_QPACK_BLOCKED_STREAMS:
        settings->blocked_streams = value;
        break;
    case H3_ENABLE_CONNECT_PROTOCOL:
        settings->enables_connect = value == 1;
        return value > 1 ? H3_SETTINGS_ERROR : H3_NO_ERROR;
    case H3_SETTING_DATAGRAM:
        settings->has_datagrams = value == 1;
        return value > 1 ? H3_SETTINGS_ERROR : H3_NO_ERROR;
    case 0x02: /* reserved, from HTTP/2 (RFC 9114, 7.2.4.1) */
    case 0x03:
    case 0x04:
    case 0x05:
        return H3_SETTINGS_ERROR;
    default:
        break;
    }
    return H3_NO_ERROR;
}

enum h3_error h3_settings_read(struct str payload, struct h3_settings *out)
{
    uint64_t ids[IDS_KEPT];
    unsigned count = 0;

    *out = (struct h3_settings){.field_section_max = UINT64_MAX};
    while (payload.len != 0) {
        uint64_t id, value;

        if (!quic_varint_read(&payload, &id) || !quic_varint_read(&payload, &value)) {
            return H3_FRAME_ERROR;
        }
        for (unsigned i = 0; i < count; i++) {
            if (ids[i] == id) {
                return H3_SETTINGS_ERROR;
            }
        }
        if (count == IDS_KEPT || take_setting(out, id, value) != H3_NO_ERROR) {
            return H3_SETTINGS_ERROR;
        }
        ids[count++] = id;
    }
    return H3_NO_ERROR;
}

/* ---- writing ---- */

unsigned h3_integer_size(uint64_t value)
{
    return quic_varint_size(value);
}

char *h3_put_integer(char *at, uint64_t value)
{
    struct quic_out out = {(unsigned char *) at, (unsigned char *) at + H3_INTEGER_ROOM, false};

    if (value < 64) { /* the most common case */
        *at = (char) value;
        return at + 1;
    }
    quic_put_varint(&out, value);
    return (char *) out.at;
}

char *h3_put_frame(char *at, uint64_t type, uint64_t length)
{
    return h3_put_integer(h3_put_integer(at, type), length);
}

char *h3_put_setting(char *at, uint64_t id, uint64_t value)
{
    return h3_put_integer(h3_put_integer(at, id), value);
}
