/* Parses and rewrites the CONNECT packet of MQTT. */
#include "stream/words/mqtt.h"

enum {
    HEAD_CONNECT = 0x10, /* type 1, without flags */
    VARINT_MOST = 4,     /* bytes */
    FLAG_RESERVED = 0x01,
    LEVEL_BRIDGE = 0x80, /* set by brokers that connect as clients */
    KEEP_ALIVE_SIZE = 2,
    NAME_MOST = 6, /* bytes of a protocol's name */
};

/* ---- slices of the wire */

/* The part of the message that is not parsed yet. */
struct reader {
    struct str rest;         /* what has arrived of it */
    size_t left;             /* its size, with bytes that have not arrived yet */
    enum mqtt_result result; /* DONE while all bytes needed were there */
};

static bool stop(struct reader *reader, enum mqtt_result why)
{
    if (reader->result == MQTT_DONE) {
        reader->result = why;
    }
    return false;
}

static bool stream_mqtt_take(struct reader *reader, size_t size, struct str *out)
{
    if (size > reader->left) {
        return stop(reader, MQTT_NONE);
    }
    if (size > reader->rest.len) {
        return stop(reader, MQTT_MORE);
    }
    *out = str_head(reader->rest, size);
    reader->rest = str_skip(reader->rest, size);
    reader->left -= size;
    return true;
}

static bool take_byte(struct reader *reader, unsigned *out)
{
    struct str byte;

    if (!stream_mqtt_take(reader, 1, &byte)) {
        return false;
    }
    *out = (unsigned char) byte.data[0];
    return true;
}

static bool take_varint(struct reader *reader, size_t *out)
{
    unsigned byte;

    *out = 0;
    for (unsigned i = 0; i < VARINT_MOST; i++) {
        if (!take_byte(reader, &byte)) {
            return false;
        }
        *out |= (size_t) (byte & 0x7f) << (7 * i);
        if ((byte & 0x80) == 0) {
            return true;
        }
    }
    return stop(reader, MQTT_NONE);
}

/* Reads the length of a string. */
static bool take_size(struct reader *reader, unsigned *out)
{
    unsigned high, low;

    if (!take_byte(reader, &high) || !take_byte(reader, &low)) {
        return false;
    }
    *out = high << 8 | low;
    return true;
}

static bool stream_mqtt_take_text(struct reader *reader, struct str *out)
{
    unsigned size;

    return take_size(reader, &size) && stream_mqtt_take(reader, size, out);
}

/* ---- the message */

static bool skip_properties(struct reader *reader)
{
    struct str properties;
    size_t size;

    return take_varint(reader, &size) && stream_mqtt_take(reader, size, &properties);
}

static bool read_protocol(struct reader *reader, struct mqtt_connect *out)
{
    const char *start = reader->rest.data;
    struct str name;
    unsigned size, level;

    if (!take_size(reader, &size)) {
        return false;
    }
    if (size > NAME_MOST) {
        return stop(reader, MQTT_NONE);
    }
    if (!stream_mqtt_take(reader, size, &name) || !take_byte(reader, &level)) {
        return false;
    }
    out->level = level & ~(unsigned) LEVEL_BRIDGE;
    out->protocol = str_from(start, reader->rest.data);
    bool is_known = out->level == 3
                        ? str_equal(name, STR("MQIsdp"))
                        : (out->level == 4 || out->level == 5) && str_equal(name, STR("MQTT"));
    return is_known || stop(reader, MQTT_NONE);
}

static bool read_settings(struct reader *reader, struct mqtt_connect *out)
{
    struct str keep_alive;

    if (!take_byte(reader, &out->flags)) {
        return false;
    }
    const char *start = reader->rest.data;
    if ((out->flags & FLAG_RESERVED) != 0) {
        return stop(reader, MQTT_NONE);
    }
    if (!stream_mqtt_take(reader, KEEP_ALIVE_SIZE, &keep_alive) ||
        (out->level == 5 && !skip_properties(reader))) {
        return false;
    }
    out->settings = str_from(start, reader->rest.data);
    return true;
}

static bool read_will(struct reader *reader, struct mqtt_connect *out)
{
    const char *start = reader->rest.data;
    struct str topic, message;

    if ((out->level == 5 && !skip_properties(reader)) || !stream_mqtt_take_text(reader, &topic) ||
        !stream_mqtt_take_text(reader, &message)) {
        return false;
    }
    out->will = str_from(start, reader->rest.data);
    return true;
}

static bool read_payload(struct reader *reader, struct mqtt_connect *out)
{
    if (!stream_mqtt_take_text(reader, &out->fields[MQTT_CLIENTID]) ||
        ((out->flags & MQTT_HAS_WILL) != 0 && !read_will(reader, out)) ||
        ((out->flags & MQTT_HAS_USERNAME) != 0 &&
         !stream_mqtt_take_text(reader, &out->fields[MQTT_USERNAME]))) {
        return false;
    }
    out->has_names = true;
    if ((out->flags & MQTT_HAS_PASSWORD) != 0 &&
        !stream_mqtt_take_text(reader, &out->fields[MQTT_PASSWORD])) {
        return false;
    }
    return reader->left == 0 || stop(reader, MQTT_NONE);
}

enum mqtt_result mqtt_connect_read(struct str input, struct mqtt_connect *out)
{
    struct reader reader = {input, 1 + VARINT_MOST, MQTT_DONE};
    unsigned head;
    size_t size;

    *out = (struct mqtt_connect){0};
    if (!take_byte(&reader, &head)) {
        return reader.result;
    }
    if (head != HEAD_CONNECT) {
        return MQTT_NONE;
    }
    if (!take_varint(&reader, &size)) {
        return reader.result;
    }
    out->size = input.len - reader.rest.len + size;
    reader.left = size;
    if (reader.rest.len > size) {
        reader.rest.len = size; /* more messages follow */
    }
    if (read_protocol(&reader, out) && read_settings(&reader, out)) {
        read_payload(&reader, out);
    }
    return reader.result;
}

/* ---- changing and writing */

void mqtt_connect_set(struct mqtt_connect *connect, enum mqtt_field field, struct str value)
{
    static const unsigned flags[] =
        {[MQTT_USERNAME] = MQTT_HAS_USERNAME, [MQTT_PASSWORD] = MQTT_HAS_PASSWORD};

    connect->fields[field] = value;
    if (field == MQTT_CLIENTID) {
        return;
    }
    if (value.len != 0) {
        connect->flags |= flags[field];
        if (connect->level < 5) {
            connect->flags |= MQTT_HAS_USERNAME; /* before 5.0 a password needs a user name */
        }
        return;
    }
    connect->flags &= ~flags[field];
    if (field == MQTT_USERNAME) {
        connect->flags &= ~(unsigned) MQTT_HAS_PASSWORD;
        connect->fields[MQTT_PASSWORD] = STR_NONE;
    }
}

static bool has_field(const struct mqtt_connect *connect, enum mqtt_field field)
{
    return field == MQTT_CLIENTID ||
           (connect->flags & (field == MQTT_USERNAME ? MQTT_HAS_USERNAME : MQTT_HAS_PASSWORD)) != 0;
}

/* Bytes after the fixed header. */
static size_t body_size(const struct mqtt_connect *connect)
{
    size_t size = connect->protocol.len + 1 + connect->settings.len + connect->will.len;

    for (unsigned field = 0; field < MQTT_FIELD_COUNT; field++) {
        if (has_field(connect, field)) {
            size += 2 + connect->fields[field].len;
        }
    }
    return size;
}

size_t mqtt_connect_size(const struct mqtt_connect *connect)
{
    size_t size = body_size(connect);

    return 2u + (size > 0x7f) + (size > 0x3fff) + (size > 0x1fffff) + size;
}

static char *write_field(char *at, const struct mqtt_connect *connect, enum mqtt_field field)
{
    struct str text = connect->fields[field];

    if (!has_field(connect, field)) {
        return at;
    }
    *at++ = (char) (text.len >> 8);
    *at++ = (char) text.len;
    return str_put(at, text);
}

void mqtt_connect_write(const struct mqtt_connect *connect, char *at)
{
    size_t size = body_size(connect);

    *at++ = HEAD_CONNECT;
    for (; size > 0x7f; size >>= 7) {
        *at++ = (char) (0x80 | (size & 0x7f));
    }
    *at++ = (char) size;
    at = str_put(at, connect->protocol);
    *at++ = (char) connect->flags;
    at = str_put(at, connect->settings);
    at = write_field(at, connect, MQTT_CLIENTID);
    at = str_put(at, connect->will);
    at = write_field(at, connect, MQTT_USERNAME);
    write_field(at, connect, MQTT_PASSWORD);
}
