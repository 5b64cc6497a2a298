/* The fields of a head that comes on a stream: which they are, and whether they may be (RFC
 * 9113, 8.2 and 8.3). */
#include "http/request/stream_head.h"

void stream_head_refuse(struct stream_head *head, unsigned status, const char *reason,
                        const struct coded_field *field)
{
    if (head->status != 0) {
        return;
    }
    head->status = status;
    head->reason = reason;
    if (field != NULL) {
        head->name = field_value_shown(&head->request->arena, field->name);
        head->value = field_value_shown(&head->request->arena, field->value);
    }
}

void stream_head_refuse_text(struct stream_head *head, const char *reason, struct str text)
{
    if (head->status == 0) {
        stream_head_refuse(head, 400, reason, NULL);
        head->name = field_value_shown(&head->request->arena, text);
    }
}

enum name_kind { NAME_GOOD, NAME_ODD, NAME_MALFORMED };

/* Lower case letters, digits and hyphens are usual; other visible characters are odd (RFC
 * 9113, 8.2.1). */
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

static enum pseudo pseudo_of(struct str name)
{
    switch (name.len) {
    case 5:
        return str_is(name, ":path") ? PSEUDO_PATH : PSEUDO_NONE;
    case 7:
        return str_is(name, ":method")   ? PSEUDO_METHOD
               : str_is(name, ":scheme") ? PSEUDO_SCHEME
                                         : PSEUDO_NONE;
    case 9:
        return str_is(name, ":protocol") ? PSEUDO_PROTOCOL : PSEUDO_NONE;
    case 10:
        return str_is(name, ":authority") ? PSEUDO_AUTHORITY : PSEUDO_NONE;
    default:
        return PSEUDO_NONE;
    }
}

static void take_pseudo(struct stream_head *head, const struct coded_field *field, stream_name name)
{
    enum pseudo which =
        name == STREAM_NAME_UNKNOWN ? pseudo_of(field->name) : (enum pseudo)(name & 0x7f);

    if (head->has_regular || head->is_trailer) {
        stream_head_refuse(head, 400, "client sent out of order pseudo-headers", NULL);
    } else if (which == PSEUDO_NONE) {
        stream_head_refuse(head, 400, "client sent unknown pseudo-header", field);
    } else if (head->has[which]) {
        stream_head_refuse(head, 400, "client sent duplicate pseudo-header", field);
    } else {
        head->has[which] = true;
        head->pseudo[which] = field->value;
    }
}

/* Fields that speak of a connection (8.2.2). */
static bool is_of_connection(enum field_id id, const struct coded_field *field)
{
    if (id == FIELD_OTHER) {
        return str_is(field->name, "proxy-connection");
    }
    return (FIELD_BIT(id) & FIELDS_OF_CONNECTION) != 0 ||
           (id == FIELD_TE && !str_equal_nocase(field->value, STR("trailers")));
}

static void take_regular(struct stream_head *head, const struct coded_field *field,
                         stream_name name)
{
    struct request *request = head->request;
    enum field_id id = FIELD_OTHER;

    head->has_regular = true;
    if (name != STREAM_NAME_UNKNOWN) {
        id = (enum field_id) name;
    } else {
        switch (check_name(field->name, head->limits->underscores)) {
        case NAME_GOOD:
            id = field_identify(field->name);
            break;
        case NAME_MALFORMED:
            stream_head_refuse_text(head, "client sent invalid header name", field->name);
            return;
        case NAME_ODD:
            if (head->limits->ignore_invalid) {
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
        stream_head_refuse(head, 400, "client sent connection-specific header", field);
        return;
    }
    head->cookies += id == FIELD_COOKIE;
    if (id == FIELD_OTHER && str_is(field->name, "priority")) {
        head->priority = value;
    }
    fields_add_identified(head->fields, &request->arena, id, field->name, value);
}

void stream_head_take(struct stream_head *head, const struct coded_field *field, stream_name name)
{
    size_t size = field->name.len + field->value.len;
    bool is_pseudo = field->name.len != 0 && field->name.data[0] == ':';

    head->size += size;
    head->count++;
    head->regulars += !is_pseudo;
    if (field->longest_coded > head->limits->line_max) { /* name and value each, as with nginx */
        stream_head_refuse(head, 494, "client sent too long header line", NULL);
    } else if (head->size > head->limits->head_max) {
        stream_head_refuse(head, 494, "client sent too large request", NULL);
    } else if (head->regulars > head->limits->headers_max) {
        stream_head_refuse(head, 400, "client sent too many header lines", NULL);
    } else if (!field_value_is_sound(field->value)) {
        stream_head_refuse(head, 400, "client sent header with invalid value", field);
    } else if (is_pseudo) {
        take_pseudo(head, field, name);
    } else {
        take_regular(head, field, name);
    }
}
