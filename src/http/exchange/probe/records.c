/* Records of FastCGI 1.0: the parts that are not inline. */
#include "http/exchange/probe/records.h"

#include "base/parse.h"

char *record_write_begin(char *at, uint16_t id, bool keeps)
{
    at = record_write(at, RECORD_BEGIN_REQUEST, id, 8);
    memset(at, 0, 8);
    at[1] = 1; /* FCGI_RESPONDER */
    at[2] = keeps ? RECORD_KEEP_CONN : 0;
    return at + 8;
}

char *records_write_params(char *at, uint16_t id, struct str pairs)
{
    while (pairs.len != 0) {
        struct str part = str_head(pairs, RECORD_CONTENT_MAX);

        at = record_write(at, RECORD_PARAMS, id, (uint16_t) part.len);
        at = str_put(at, part);
        pairs = str_skip(pairs, part.len);
    }
    return record_write(at, RECORD_PARAMS, id, 0);
}

void records_set_id(char *text, size_t size, uint16_t id)
{
    size_t at = 0;

    while (size - at >= RECORD_HEADER_SIZE) {
        struct record record = record_read(text + at);

        text[at + 2] = (char) (id >> 8);
        text[at + 3] = (char) id;
        at += RECORD_HEADER_SIZE;
        size_t body = (size_t) record.content + record.padding;
        if (body > size - at) {
            return;
        }
        at += body;
    }
}

char *pair_write(char *at, struct str name, struct str value)
{
    at = pair_write_length(at, name.len);
    at = pair_write_length(at, value.len);
    at = str_put(at, name);
    return str_put(at, value);
}

static bool read_length(struct str *rest, size_t *length)
{
    if (rest->len == 0) {
        return false;
    }
    const unsigned char *byte = (const unsigned char *) rest->data;
    if (byte[0] < 0x80) {
        *length = byte[0];
        *rest = str_skip(*rest, 1);
        return true;
    }
    if (rest->len < 4) {
        return false;
    }
    *length =
        (size_t) (byte[0] & 0x7f) << 24 | (size_t) byte[1] << 16 | (size_t) byte[2] << 8 | byte[3];
    *rest = str_skip(*rest, 4);
    return true;
}

bool pair_read(struct str *rest, struct str *name, struct str *value)
{
    size_t name_length, value_length;

    if (!read_length(rest, &name_length) || !read_length(rest, &value_length) ||
        name_length > rest->len || value_length > rest->len - name_length) {
        return false;
    }
    *name = str_head(*rest, name_length);
    *value = str_head(str_skip(*rest, name_length), value_length);
    *rest = str_skip(*rest, name_length + value_length);
    return true;
}

/* The content is 16 + 15 + 17 bytes. */
#define GET_VALUES_TEXT                                                                            \
    "\1\11\0\0\0\60\0\0"                                                                           \
    "\16\0FCGI_MAX_CONNS"                                                                          \
    "\15\0FCGI_MAX_REQS"                                                                           \
    "\17\0FCGI_MPXS_CONNS"

const struct str get_values_record = STR_INIT(GET_VALUES_TEXT);

struct backend_facts facts_read(struct str content)
{
    struct backend_facts facts = {0};
    struct str name, value;

    while (pair_read(&content, &name, &value)) {
        uint64_t number;

        if (!parse_uint(value, &number) || number > UINT32_MAX) {
            continue;
        }
        if (str_is(name, "FCGI_MAX_CONNS")) {
            facts.connections_max = (uint32_t) number;
        } else if (str_is(name, "FCGI_MAX_REQS")) {
            facts.requests_max = (uint32_t) number;
        } else if (str_is(name, "FCGI_MPXS_CONNS")) {
            facts.multiplexes = number == 1;
        }
    }
    return facts;
}
