/* Protocol Buffers: the functions that are not inline. */
#include "base/protobuf.h"

#include <string.h>

#include "base/text.h"

void protobuf_put_signed(struct buf *out, unsigned field, int64_t value)
{
    uint64_t bits = (uint64_t) value;

    protobuf_put_unsigned(out, field, value < 0 ? ~(bits << 1) : bits << 1);
}

/* Writes the low byte first. */
static void put_fixed(struct buf *out, uint64_t value, unsigned size)
{
    char *at = buf_reserve(out, size);

    for (unsigned i = 0; i < size; i++) {
        at[i] = (char) (value >> 8 * i);
    }
    out->len += size;
}

void protobuf_put_fixed64(struct buf *out, unsigned field, uint64_t value)
{
    protobuf_put_key(out, field, PROTOBUF_FIXED64);
    put_fixed(out, value, sizeof(value));
}

void protobuf_put_double(struct buf *out, unsigned field, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    protobuf_put_fixed64(out, field, bits);
}

void protobuf_put_bytes(struct buf *out, unsigned field, struct str bytes)
{
    protobuf_put_key(out, field, PROTOBUF_BYTES);
    protobuf_put_varint(out, bytes.len);
    buf_append(out, bytes);
}

void protobuf_end(struct buf *out, size_t start)
{
    char length[PROTOBUF_VARINT_MAX];
    size_t size = protobuf_varint(length, out->len - start);

    if (size > 1) {
        buf_reserve(out, size - 1);
        memmove(out->data + start + size - 1, out->data + start, out->len - start);
        out->len += size - 1;
    }
    memcpy(out->data + start - 1, length, size);
}

/* ---- text ---- */

#define REPLACEMENT STR("\xef\xbf\xbd") /* U+FFFD */

/* Number of ASCII bytes at the start. */
static size_t ascii_length(struct str text)
{
    const uint64_t high_bits = 0x8080808080808080u;
    size_t at = 0;
    uint64_t word;

    for (; text.len - at >= sizeof(word); at += sizeof(word)) {
        memcpy(&word, text.data + at, sizeof(word));
        if ((word & high_bits) != 0) {
            break;
        }
    }
    while (at < text.len && (unsigned char) text.data[at] < 0x80) {
        at++;
    }
    return at;
}

/* Writes whole characters of text, as many as fit into `most` bytes. */
static void put_characters(struct buf *out, struct str text, size_t most)
{
    while (text.len != 0) {
        struct str before = text;
        uint32_t point = utf8_next(&text);
        struct str character =
            point == UINT32_MAX ? REPLACEMENT : str_head(before, before.len - text.len);

        if (character.len > most) {
            break;
        }
        buf_append(out, character);
        most -= character.len;
    }
}

void protobuf_put_text(struct buf *out, unsigned field, struct str text, size_t most)
{
    struct str head = str_head(text, text.len < most ? text.len : most);
    size_t clean = ascii_length(head);

    if (clean == head.len) {
        protobuf_put_bytes(out, field, head);
        return;
    }
    size_t start = protobuf_begin(out, field);
    buf_append(out, str_head(text, clean));
    put_characters(out, str_skip(text, clean), most - clean);
    protobuf_end(out, start);
}

/* ---- reading ---- */

/* Takes a number with seven bits a byte off *in. False: malformed. */
static bool take_varint(struct str *in, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; in->len != 0 && shift < 64; shift += 7) {
        unsigned char byte = (unsigned char) in->data[0];

        *in = str_skip(*in, 1);
        *out |= (uint64_t) (byte & 0x7f) << shift;
        if (byte < 0x80) {
            return true;
        }
    }
    return false;
}

static bool take_fixed(struct str *in, size_t size, uint64_t *out)
{
    if (in->len < size) {
        return false;
    }
    *out = 0;
    for (size_t i = 0; i < size; i++) {
        *out |= (uint64_t) (unsigned char) in->data[i] << 8 * i;
    }
    *in = str_skip(*in, size);
    return true;
}

static bool take_value(struct str *in, struct protobuf_field *field)
{
    switch (field->type) {
    case PROTOBUF_VARINT:
        return take_varint(in, &field->value);
    case PROTOBUF_FIXED64:
        return take_fixed(in, 8, &field->value);
    case PROTOBUF_FIXED32:
        return take_fixed(in, 4, &field->value);
    case PROTOBUF_BYTES:
        if (!take_varint(in, &field->value) || field->value > in->len) {
            return false;
        }
        field->bytes = str_head(*in, (size_t) field->value);
        *in = str_skip(*in, (size_t) field->value);
        return true;
    }
    return false;
}

bool protobuf_next(struct str *message, struct protobuf_field *field, bool *is_bad)
{
    uint64_t key;

    *is_bad = false;
    if (message->len == 0) {
        return false;
    }
    *field = (struct protobuf_field){.bytes = STR_NONE};
    if (!take_varint(message, &key) || key >> 3 == 0 || key >> 3 > 0x1fffffff) {
        *is_bad = true;
        return false;
    }
    field->number = (unsigned) (key >> 3);
    field->type = (enum protobuf_wire_type)(key & 7);
    *is_bad = !take_value(message, field);
    return !*is_bad;
}
