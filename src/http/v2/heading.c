/* The fields of a header block: which they are, and whether they may be (RFC 9113, 8.2 and 8.3). */
#include "http/v2/heading.h"
#include "server/generation.h"

/* Numbers of the names in HPACK's static table, where the server knows them. */
static const uint8_t known_of[62] = {
    [15] = FIELD_OTHER,
    [16] = FIELD_ACCEPT_ENCODING,
    [18] = FIELD_ACCEPT_RANGES,
    [23] = FIELD_AUTHORIZATION,
    [24] = FIELD_CACHE_CONTROL,
    [26] = FIELD_CONTENT_ENCODING,
    [28] = FIELD_CONTENT_LENGTH,
    [30] = FIELD_CONTENT_RANGE,
    [31] = FIELD_CONTENT_TYPE,
    [32] = FIELD_COOKIE,
    [33] = FIELD_DATE,
    [34] = FIELD_ETAG,
    [35] = FIELD_EXPECT,
    [36] = FIELD_EXPIRES,
    [38] = FIELD_HOST,
    [39] = FIELD_IF_MATCH,
    [40] = FIELD_IF_MODIFIED_SINCE,
    [41] = FIELD_IF_NONE_MATCH,
    [42] = FIELD_IF_RANGE,
    [43] = FIELD_IF_UNMODIFIED_SINCE,
    [44] = FIELD_LAST_MODIFIED,
    [45] = FIELD_LINK,
    [46] = FIELD_LOCATION,
    [50] = FIELD_RANGE,
    [51] = FIELD_REFERER,
    [52] = FIELD_REFRESH,
    [54] = FIELD_SERVER,
    [55] = FIELD_SET_COOKIE,
    [57] = FIELD_TRANSFER_ENCODING,
    [58] = FIELD_USER_AGENT,
    [59] = FIELD_VARY,
    [60] = FIELD_VIA,
    [61] = FIELD_WWW_AUTHENTICATE,
};

/* Notes the first thing that is wrong; the rest of the block is read for the table's sake. */
void heading_refuse(struct heading *heading, unsigned status, const char *reason,
                    const struct hpack_field *field)
{
    if (heading->status != 0) {
        return;
    }
    heading->status = status;
    heading->error = status == 400 ? V2_PROTOCOL_ERROR : V2_NO_ERROR;
    heading->reason = reason;
    if (field != NULL) {
        heading->name = field->name;
        heading->value = field->value;
    }
}

/* ---- fields ---- */

enum name_kind { NAME_GOOD, NAME_ODD, NAME_MALFORMED };

/* Lower case letters, digits and hyphens are usual; other visible characters are odd (RFC 9113, 8.2.1). */
static enum name_kind check_name(struct str name, bool underscores)
{
    enum name_kind kind = NAME_GOOD;

    if (name.len == 0) {
        return NAME_MALFORMED;
    }
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char) name.data[i];
        if ((c >= 'a' && c <= 'z') || c == '-' || ascii_is_digit(c) || (c == '_' && underscores)) {
            continue;
        }
        if (c <= ' ' || c >= 127 || (c >= 'A' && c <= 'Z') || c == ':') {
            return NAME_MALFORMED;
        }
        kind = NAME_ODD;
    }
    return kind;
}

/* Which of the pseudo-fields is it? Those that HPACK has in its static table are told by their number. */
static enum pseudo pseudo_of(const struct hpack_field *field)
{
    static const uint8_t numbers[] = {PSEUDO_NONE, PSEUDO_AUTHORITY, PSEUDO_METHOD, PSEUDO_METHOD,
                                      PSEUDO_PATH, PSEUDO_PATH,      PSEUDO_SCHEME, PSEUDO_SCHEME};
    static const struct str names[PSEUDO_COUNT] = {
        [PSEUDO_AUTHORITY] = STR_INIT(":authority"), [PSEUDO_METHOD] = STR_INIT(":method"),
        [PSEUDO_PATH] = STR_INIT(":path"),           [PSEUDO_SCHEME] = STR_INIT(":scheme"),
        [PSEUDO_PROTOCOL] = STR_INIT(":protocol"),
    };

    if (field->static_index != 0) {
        return field->static_index < sizeof(numbers) ? (enum pseudo) numbers[field->static_index]
                                                     : PSEUDO_NONE;
    }
    for (unsigned i = PSEUDO_NONE + 1; i < PSEUDO_COUNT; i++) {
        if (str_equal(field->name, names[i])) {
            return (enum pseudo) i;
        }
    }
    return PSEUDO_NONE;
}

static void take_pseudo(struct heading *heading, const struct hpack_field *field)
{
    enum pseudo which = pseudo_of(field);

    if (heading->has_regular || heading->is_trailer) {
        heading_refuse(heading, 400, "client sent out of order pseudo-headers", NULL);
    } else if (which == PSEUDO_NONE) {
        heading_refuse(heading, 400, "client sent unknown pseudo-header", field);
    } else if (heading->has[which]) {
        heading_refuse(heading, 400, "client sent duplicate pseudo-header", field);
    } else {
        heading->has[which] = true;
        heading->pseudo[which] = field->value;
    }
}

/* Fields that speak of a connection (8.2.2). */
static bool is_of_connection(enum field_id id, const struct hpack_field *field)
{
    if (id == FIELD_OTHER) {
        return str_is(field->name, "proxy-connection");
    }
    return (FIELD_BIT(id) & FIELDS_OF_CONNECTION) != 0 ||
           (id == FIELD_TE && !str_equal_nocase(field->value, STR("trailers")));
}

static void take_regular(struct heading *heading, const struct hpack_field *field)
{
    struct request *request = heading->request;
    enum field_id id = FIELD_OTHER;

    heading->has_regular = true;
    if (field->static_index != 0) {
        id = (enum field_id) known_of[field->static_index];
    } else {
        switch (check_name(field->name, heading->limits->underscores)) {
        case NAME_GOOD:
            id = field_identify(field->name);
            break;
        case NAME_MALFORMED:
            heading_refuse(heading, 400, "client sent invalid header", field);
            return;
        case NAME_ODD:
            if (heading->limits->ignore_invalid) {
                log_info(&request->log, 0, "client sent invalid header: \"%.*s\"",
                         STR_ARG(field->name));
                return;
            }
            break;
        }
    }
    /* Blanks around a value, which may not be there (8.2.1), go as they do with HTTP/1. */
    struct str value = str_trim(field->value);
    if (is_of_connection(id, field)) {
        heading_refuse(heading, 400, "client sent connection-specific header", field);
        return;
    }
    heading->cookies += id == FIELD_COOKIE;
    if (id == FIELD_OTHER && str_is(field->name, "priority")) {
        heading->priority = value;
    }
    fields_add_identified(heading->fields, &request->arena, id, field->name, value);
}

static void take_field(struct heading *heading, const struct hpack_field *field)
{
    size_t size = field->name.len + field->value.len;
    bool is_pseudo = field->name.len != 0 && field->name.data[0] == ':';

    heading->size += size;
    heading->count++;
    heading->regulars += !is_pseudo;
    if (field->longest_coded > heading->limits->line_max) { /* name and value each, as with nginx */
        heading_refuse(heading, 494, "client sent too long header line", NULL);
    } else if (heading->size > heading->limits->head_max) {
        heading_refuse(heading, 494, "client sent too large request", NULL);
    } else if (heading->regulars > heading->limits->headers_max) {
        heading_refuse(heading, 400, "client sent too many header lines", NULL);
    } else if (!hpack_value_is_sound(field->value)) {
        heading_refuse(heading, 400, "client sent header with invalid value", field);
    } else if (is_pseudo) {
        take_pseudo(heading, field);
    } else {
        take_regular(heading, field);
    }
}

/* How much a block may become when it is unpacked: beyond that it is a bomb, and the connection ends. */
#define EXPANSION_MAX 4 /* times the limit of a head */

/* All of the block. False: the connection has failed. */
bool heading_decode(struct heading *heading, struct str block)
{
    struct v2_connection *c = heading->c;
    struct hpack_field field;

    for (;;) {
        switch (hpack_decode(&c->decoder, &block, &heading->request->arena,
                             heading->limits->head_max * EXPANSION_MAX, &field)) {
        case HPACK_FIELD:
            take_field(heading, &field);
            if (heading->size + heading->count * 32u > heading->limits->head_max * EXPANSION_MAX) {
                v2_guard_failed(c, "bytes in compressed headers");
                return false;
            }
            break;
        case HPACK_END:
            return true;
        case HPACK_BAD:
            v2_fail(c, V2_COMPRESSION_ERROR, "sent a malformed header block");
            return false;
        }
    }
}
