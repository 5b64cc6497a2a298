/* DNS messages: names, questions, and the answers to them. */
#include "net/resolver/dns.h"

#include <assert.h>

enum {
    HEADER_SIZE = 12,
    CLASS_IN = 1,
    FLAG_RESPONSE = 0x8000,
    FLAG_TRUNCATED = 0x0200,
    FLAG_RECURSION_DESIRED = 0x0100,
    MASK_OPCODE = 0x7800,
    MASK_RCODE = 0x000f,
    RCODE_NXDOMAIN = 3,
};

/* The bytes of a message that are still to be read. */
struct cursor {
    /* The start of the message: compression pointers are offsets from here. */
    const unsigned char *start;
    const unsigned char *at;  /* next byte */
    const unsigned char *end; /* one past the last */
};

/* A resource record of a message (RFC 1035, 3.2.1). */
struct raw_record {
    struct dns_name owner;
    uint16_t type;
    uint16_t class;
    uint32_t ttl_s;
    struct cursor data; /* at the record's data; start is that of the message */
};

/* ---- names ---- */

/* Bytes allowed in the text form of a name; others could forge log lines. */
static bool is_name_byte(unsigned char c)
{
    return c > ' ' && c != 0x7f;
}

bool dns_name_parse(struct str text, struct dns_name *out)
{
    size_t used = 0;

    if (str_ends(text, STR("."))) {
        text.len--;
    }
    if (text.len == 0 || text.len > DNS_NAME_MAX - 2) {
        return false;
    }
    while (text.data != NULL) {
        struct str label = str_cut(&text, '.');

        if (label.len == 0 || label.len > DNS_LABEL_MAX || used + label.len + 2 > DNS_NAME_MAX) {
            return false;
        }
        out->wire[used++] = (unsigned char) label.len;
        for (size_t i = 0; i < label.len; i++) {
            if (!is_name_byte((unsigned char) label.data[i])) {
                return false;
            }
            out->wire[used++] = ascii_lower((unsigned char) label.data[i]);
        }
    }
    out->wire[used++] = 0;
    out->len = (uint8_t) used;
    return true;
}

bool dns_name_format(const struct dns_name *name, struct arena *arena, struct str *out)
{
    char text[DNS_NAME_MAX];
    size_t used = 0;

    for (size_t at = 0; at < name->len && name->wire[at] != 0;) {
        size_t end = at + 1 + name->wire[at];

        if (used != 0) {
            text[used++] = '.';
        }
        for (at++; at < end; at++) {
            if (!is_name_byte(name->wire[at]) || name->wire[at] == '.' || name->wire[at] == '\\') {
                return false;
            }
            text[used++] = (char) name->wire[at];
        }
    }
    *out = arena_dup(arena, (struct str){text, used});
    return used != 0;
}

bool dns_name_equal(const struct dns_name *a, const struct dns_name *b)
{
    return a->len == b->len && memcmp(a->wire, b->wire, a->len) == 0;
}

/*
 * Reads a name and advances after it. A pointer may only point before the start of the labels that
 * contain it (RFC 1035, 4.1.4: "a prior occurrence"), so each jump leads closer to the start of the
 * message and the loop ends.
 */
static bool read_name(struct cursor *cursor, struct dns_name *out)
{
    const unsigned char *at = cursor->at;
    const unsigned char *limit = cursor->at; /* a pointer must point before this */
    bool has_jumped = false;
    size_t used = 0;

    for (;;) {
        if (at >= cursor->end) {
            return false;
        }
        unsigned length = *at++;

        if (length >= 0xc0) {
            if (at >= cursor->end) {
                return false;
            }
            size_t offset = (length & 0x3fu) << 8 | *at++;

            if (!has_jumped) {
                cursor->at = at;
                has_jumped = true;
            }
            if (offset >= (size_t) (limit - cursor->start)) {
                return false;
            }
            at = limit = cursor->start + offset;
            continue;
        }
        if (length > DNS_LABEL_MAX || length > (size_t) (cursor->end - at) ||
            used + length + 1 + (length != 0) > DNS_NAME_MAX) {
            return false;
        }
        out->wire[used++] = (unsigned char) length;
        if (length == 0) {
            break;
        }
        for (unsigned i = 0; i < length; i++) {
            out->wire[used++] = ascii_lower(*at++);
        }
    }
    if (!has_jumped) {
        cursor->at = at;
    }
    out->len = (uint8_t) used;
    return true;
}

/* ---- numbers ---- */

static bool read_u16(struct cursor *cursor, uint16_t *out)
{
    if (cursor->end - cursor->at < 2) {
        return false;
    }
    *out = (uint16_t) (cursor->at[0] << 8 | cursor->at[1]);
    cursor->at += 2;
    return true;
}

static bool read_u32(struct cursor *cursor, uint32_t *out)
{
    uint16_t high, low;

    if (!read_u16(cursor, &high) || !read_u16(cursor, &low)) {
        return false;
    }
    *out = (uint32_t) high << 16 | low;
    return true;
}

static unsigned char *write_u16(unsigned char *at, unsigned value)
{
    at[0] = (unsigned char) (value >> 8);
    at[1] = (unsigned char) value;
    return at + 2;
}

/* ---- questions ---- */

size_t dns_query_write(const struct dns_name *name, uint16_t type, uint16_t id,
                       unsigned char out[DNS_QUERY_MAX])
{
    unsigned char *at = out;

    assert(name->len != 0);
    at = write_u16(at, id);
    at = write_u16(at, FLAG_RECURSION_DESIRED);
    at = write_u16(at, 1); /* questions */
    at = write_u16(at, 0);
    at = write_u16(at, 0);
    at = write_u16(at, 0);
    memcpy(at, name->wire, name->len);
    at = write_u16(at + name->len, type);
    at = write_u16(at, CLASS_IN);
    return (size_t) (at - out);
}

/* ---- answers ---- */

const char *dns_rcode_text(unsigned rcode)
{
    static const char *const texts[] = {
        "No error",       "Format error",  "Server failure",
        "Host not found", "Unimplemented", "Operation refused",
    };

    return rcode < sizeof(texts) / sizeof(texts[0]) ? texts[rcode] : "Unknown error";
}

/* The counts of a message's header, RFC 1035, 4.1.1. */
struct header {
    uint16_t id;
    uint16_t flags;
    uint16_t questions;
    uint16_t answers;
    uint16_t authorities;
};

static bool read_header(struct cursor *cursor, struct header *header)
{
    uint16_t additional;

    return read_u16(cursor, &header->id) && read_u16(cursor, &header->flags) &&
           read_u16(cursor, &header->questions) && read_u16(cursor, &header->answers) &&
           read_u16(cursor, &header->authorities) && read_u16(cursor, &additional);
}

/* Is this the question that was sent? */
static bool read_question(struct cursor *cursor, const struct dns_name *name, uint16_t type)
{
    struct dns_name asked;
    uint16_t asked_type, asked_class;

    return read_name(cursor, &asked) && read_u16(cursor, &asked_type) &&
           read_u16(cursor, &asked_class) && dns_name_equal(&asked, name) && asked_type == type &&
           asked_class == CLASS_IN;
}

static bool read_record(struct cursor *cursor, struct raw_record *record)
{
    uint16_t length;

    if (!read_name(cursor, &record->owner) || !read_u16(cursor, &record->type) ||
        !read_u16(cursor, &record->class) || !read_u32(cursor, &record->ttl_s) ||
        !read_u16(cursor, &length) || length > cursor->end - cursor->at) {
        return false;
    }
    record->data = (struct cursor){cursor->start, cursor->at, cursor->at + length};
    cursor->at += length;
    /* RFC 2181, 8: a TTL with its highest bit set counts as 0. */
    if (record->ttl_s > INT32_MAX) {
        record->ttl_s = 0;
    }
    return true;
}

/* Is the record of this name and type? */
static bool is_about(const struct raw_record *record, const struct dns_name *name, uint16_t type)
{
    return record->type == type && record->class == CLASS_IN &&
           dns_name_equal(&record->owner, name);
}

static void shorten_ttl(struct dns_answer *answer, uint32_t ttl_s)
{
    if (!answer->has_ttl || ttl_s < answer->ttl_s) {
        answer->ttl_s = ttl_s;
        answer->has_ttl = true;
    }
}

/*
 * Follows the aliases in the records of the message; answer->name becomes the last target. A server
 * may send the records in any order. False: malformed, or more than DNS_ALIASES_MAX aliases, for
 * example a loop.
 */
static bool follow_aliases(struct cursor records, unsigned count, struct dns_answer *answer)
{
    struct raw_record record;
    bool is_alias = true;

    while (is_alias) {
        struct cursor cursor = records;

        is_alias = false;
        for (unsigned i = 0; i < count && !is_alias; i++) {
            if (!read_record(&cursor, &record)) {
                return false;
            }
            is_alias = is_about(&record, &answer->name, DNS_CNAME);
        }
        if (is_alias) {
            if (++answer->aliases > DNS_ALIASES_MAX || !read_name(&record.data, &answer->name) ||
                record.data.at != record.data.end) {
                return false;
            }
            shorten_ttl(answer, record.ttl_s);
        }
    }
    return true;
}

/* Parses the data of a record. False: malformed. *is_wanted: the record is to be kept. */
static bool read_data(const struct raw_record *raw, struct arena *arena, struct dns_record *out,
                      bool *is_wanted)
{
    struct cursor data = raw->data;
    size_t size = (size_t) (data.end - data.at);
    struct dns_name target;

    *out = (struct dns_record){.type = raw->type};
    *is_wanted = true;
    switch (raw->type) {
    case DNS_A:
    case DNS_AAAA:
        if (size != (raw->type == DNS_A ? 4 : 16)) {
            return false;
        }
        memcpy(out->address, data.at, size);
        return true;
    case DNS_PTR:
        if (!read_name(&data, &target) || data.at != data.end) {
            return false;
        }
        *is_wanted = dns_name_format(&target, arena, &out->target);
        return true;
    default: /* SRV: RFC 2782 */
        if (!read_u16(&data, &out->priority) || !read_u16(&data, &out->weight) ||
            !read_u16(&data, &out->port) || !read_name(&data, &target) || data.at != data.end) {
            return false;
        }
        *is_wanted = dns_name_format(&target, arena, &out->target);
        return true;
    }
}

/* Collects the records of the name at the end of the aliases. False: malformed. */
static bool take_records(struct cursor *cursor, unsigned count, uint16_t type, struct arena *arena,
                         struct dns_answer *answer)
{
    for (unsigned i = 0; i < count; i++) {
        struct raw_record raw;
        struct dns_record record;
        bool is_wanted;

        if (!read_record(cursor, &raw)) {
            return false;
        }
        if (!is_about(&raw, &answer->name, type)) {
            continue;
        }
        if (!read_data(&raw, arena, &record, &is_wanted)) {
            return false;
        }
        shorten_ttl(answer, raw.ttl_s);
        if (is_wanted && answer->records.count < DNS_RECORDS_MAX) {
            *vec_add(&answer->records, arena, struct dns_record) = record;
        }
    }
    return true;
}

/*
 * Finds the SOA of the zone among the authorities. It confirms that the name, or the type of the
 * name, does not exist, and gives the TTL of that (RFC 2308, 3 and 5). Malformed records here are
 * ignored.
 */
static bool find_soa(struct cursor *cursor, unsigned count, uint32_t *ttl_s)
{
    for (unsigned i = 0; i < count; i++) {
        struct raw_record record;
        struct dns_name unused;
        uint32_t numbers[5]; /* serial, refresh, retry, expire, minimum */

        if (!read_record(cursor, &record)) {
            return false;
        }
        if (record.type != DNS_SOA || record.class != CLASS_IN) {
            continue;
        }
        if (!read_name(&record.data, &unused) || !read_name(&record.data, &unused)) {
            return false;
        }
        for (unsigned n = 0; n < 5; n++) {
            if (!read_u32(&record.data, &numbers[n])) {
                return false;
            }
        }
        *ttl_s = record.ttl_s < numbers[4] ? record.ttl_s : numbers[4];
        return true;
    }
    return false;
}

/* The verdict on a message that answers the question without an error. */
static enum dns_verdict read_sections(struct cursor *cursor, const struct header *header,
                                      uint16_t type, struct arena *arena, struct dns_answer *out)
{
    unsigned count = header->answers;
    bool is_whole = count <= DNS_LOOKED_AT_MAX;
    uint32_t soa_ttl_s;

    if (!is_whole) {
        count = DNS_LOOKED_AT_MAX;
    }
    if (!follow_aliases(*cursor, count, out)) {
        return out->aliases > DNS_ALIASES_MAX ? DNS_NO_NAME : DNS_MALFORMED;
    }
    if (!take_records(cursor, count, type, arena, out)) {
        return DNS_MALFORMED;
    }
    if (out->rcode == 0 && out->records.count != 0) {
        return DNS_FOUND;
    }
    out->records = (struct vec){0};
    unsigned authorities = header->authorities;
    if (authorities > DNS_LOOKED_AT_MAX) {
        authorities = DNS_LOOKED_AT_MAX;
    }
    bool has_soa = is_whole && find_soa(cursor, authorities, &soa_ttl_s);

    if (out->rcode == 0 && out->aliases != 0 && !has_soa) {
        return DNS_ALIAS;
    }
    if (type == DNS_PTR && out->rcode == 0 && count != 0 && !has_soa) {
        return DNS_MALFORMED; /* records, but none for the question: this proves nothing about the
                                 name */
    }
    out->has_ttl = has_soa;
    out->ttl_s = has_soa ? soa_ttl_s : 0;
    return out->rcode == RCODE_NXDOMAIN ? DNS_NO_NAME : DNS_NO_DATA;
}

enum dns_verdict dns_answer_read(struct str message, const struct dns_question *question,
                                 struct arena *arena, struct dns_answer *out)
{
    const unsigned char *start = (const unsigned char *) message.data;
    struct cursor cursor = {start, start, start + message.len};
    struct header header;

    memset(out, 0, sizeof(*out));
    out->name = *question->name;
    if (message.len < HEADER_SIZE || message.len > DNS_MESSAGE_MAX ||
        !read_header(&cursor, &header) || header.id != question->id ||
        (header.flags & FLAG_RESPONSE) == 0) {
        return DNS_FOREIGN;
    }
    out->rcode = header.flags & MASK_RCODE;
    /* A server that could not parse the question need not repeat it. */
    if (header.questions == 0 && out->rcode != 0 && out->rcode != RCODE_NXDOMAIN) {
        return DNS_REFUSAL;
    }
    if (header.questions != 1 || !read_question(&cursor, question->name, question->type)) {
        return DNS_FOREIGN;
    }
    if ((header.flags & MASK_OPCODE) != 0) {
        return DNS_MALFORMED;
    }
    if (header.flags & FLAG_TRUNCATED) {
        return DNS_TRUNCATED;
    }
    if (out->rcode != 0 && out->rcode != RCODE_NXDOMAIN) {
        return DNS_REFUSAL;
    }
    return read_sections(&cursor, &header, question->type, arena, out);
}
