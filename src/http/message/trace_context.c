/* Trace context of requests: traceparent and tracestate. */
#include "http/message/trace_context.h"

#include <string.h>

#include "base/text.h"

/* Lower-case digits only: others would not compare equal elsewhere. */
static bool take_hex(struct str *in, unsigned char *out, size_t size)
{
    if (in->len < 2 * size) {
        return false;
    }
    for (size_t i = 0; i < 2 * size; i++) {
        unsigned char c = (unsigned char) in->data[i];

        if ((c < '0' || c > '9') && (c < 'a' || c > 'f')) {
            return false;
        }
        unsigned digit = (unsigned) hex_value[c];
        out[i / 2] = (unsigned char) (i % 2 == 0 ? digit << 4 : out[i / 2] | digit);
    }
    *in = str_skip(*in, 2 * size);
    return true;
}

static bool take_dash(struct str *in)
{
    if (in->len == 0 || in->data[0] != '-') {
        return false;
    }
    *in = str_skip(*in, 1);
    return true;
}

static bool is_all_zero(const unsigned char *id, size_t size)
{
    unsigned char bits = 0;

    for (size_t i = 0; i < size; i++) {
        bits |= id[i];
    }
    return bits == 0;
}

bool traceparent_parse(struct str value, struct traceparent *out)
{
    unsigned char version;

    if (!take_hex(&value, &version, 1) || version == 0xff || !take_dash(&value) ||
        !take_hex(&value, out->trace_id, TRACE_ID_SIZE) || !take_dash(&value) ||
        !take_hex(&value, out->span_id, SPAN_ID_SIZE) || !take_dash(&value) ||
        !take_hex(&value, &out->flags, 1)) {
        return false;
    }
    if (value.len != 0 && (version == 0 || value.data[0] != '-')) {
        return false;
    }
    return !is_all_zero(out->trace_id, TRACE_ID_SIZE) && !is_all_zero(out->span_id, SPAN_ID_SIZE);
}

char *traceparent_put(char *at, const struct traceparent *context)
{
    const char flags = (char) (context->flags & TRACE_FLAG_SAMPLED);

    memcpy(at, "00-", 3);
    at = hex_encode(at + 3, context->trace_id, TRACE_ID_SIZE);
    *at++ = '-';
    at = hex_encode(at, context->span_id, SPAN_ID_SIZE);
    *at++ = '-';
    return hex_encode(at, &flags, 1);
}

/* ---- tracestate ---- */

enum { KEY_MOST = 256, VALUE_MOST = 256 };

static bool is_key_start(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool is_key(struct str key)
{
    if (key.len == 0 || key.len > KEY_MOST || !is_key_start((unsigned char) key.data[0])) {
        return false;
    }
    for (size_t i = 1; i < key.len; i++) {
        unsigned char c = (unsigned char) key.data[i];

        if (!is_key_start(c) && c != '_' && c != '-' && c != '*' && c != '/' && c != '@') {
            return false;
        }
    }
    return true;
}

static bool is_value(struct str value)
{
    if (value.len == 0 || value.len > VALUE_MOST) {
        return false;
    }
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char) value.data[i];

        if (c < ' ' || c > '~' || c == '=') {
            return false;
        }
    }
    return value.data[value.len - 1] != ' ';
}

bool tracestate_is_valid(struct str value)
{
    unsigned members = 0;

    if (value.len > TRACESTATE_MOST) {
        return false;
    }
    while (value.len != 0) {
        struct str member = str_trim(str_cut(&value, ','));

        if (member.len == 0) {
            continue;
        }
        struct str rest = member;
        struct str key = str_cut(&rest, '=');
        if (++members > TRACESTATE_MEMBERS || !is_key(key) || !is_value(rest)) {
            return false;
        }
    }
    return members != 0;
}
