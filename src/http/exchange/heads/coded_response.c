/* Responses of backends whose fields are coded one by one. */
#include "http/exchange/heads/coded_response.h"

#include "http/exchange/heads/response_head.h"

/* Heads of one response, interim ones and the last: above what an exchange lets pass (INTERIM_MAX).
 */
#define HEADS_MAX 40

/* ---- field sections ---- */

bool coded_section_begin(struct coded_section *section, struct exchange *x,
                         const struct coded_response *response, bool is_end)
{
    struct arena *arena = &x->request->arena;

    *section = (struct coded_section){.x = x};
    if (!response->has_final) {
        section->head = arena_new(arena, struct coded_head);
        section->fields = &section->head->fields;
        return true;
    }
    if (!is_end) {
        exchange_log(x, LOG_ERROR, 0, "upstream sent trailer without end stream flag");
        return false;
    }
    section->fields = arena_new(arena, struct fields);
    return true;
}

/* Lower case token characters (RFC 9113, 8.2.1). */
static bool is_name(struct str name)
{
    static const char others[] = "!#$%&'*+.^_`|~";

    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char) name.data[i];
        if (!((c >= 'a' && c <= 'z') || c == '-' || ascii_is_digit(c)) &&
            (c == '\0' || strchr(others, c) == NULL)) {
            return false;
        }
    }
    return name.len != 0;
}

/* Logs `what` and the field, and gives false. */
static bool refuse_field(const struct coded_section *section, const char *what,
                         const struct coded_field *field)
{
    struct arena *arena = &section->x->request->arena;
    struct str name = field_value_shown(arena, field->name);
    struct str value = field_value_shown(arena, field->value);

    exchange_log(section->x, LOG_ERROR, 0, "upstream sent %s \"%.*s: %.*s\"", what, STR_ARG(name),
                 STR_ARG(value));
    return false;
}

static bool take_pseudo(struct coded_section *section, const struct coded_field *field)
{
    struct str value = field->value;

    if (!str_is(field->name, ":status") || section->head == NULL || section->has_regular) {
        return refuse_field(section, "invalid header", field);
    }
    if (section->status != 0) {
        exchange_log(section->x, LOG_ERROR, 0, "upstream sent duplicate :status header");
        return false;
    }
    bool is_number = value.len == 3 && value.data[0] >= '1' && value.data[0] <= '9' &&
                     ascii_is_digit((unsigned char) value.data[1]) &&
                     ascii_is_digit((unsigned char) value.data[2]);
    if (is_number) {
        section->status = (unsigned) ((value.data[0] - '0') * 100 + (value.data[1] - '0') * 10 +
                                      (value.data[2] - '0'));
    }
    if (!is_number || section->status == 101) {
        exchange_log(section->x, LOG_ERROR, 0, "upstream sent invalid :status \"%.*s\"",
                     STR_ARG(value));
        return false;
    }
    return true;
}

/* Of the connection alone (8.2.2): they mean nothing here, and do not go further. */
static bool is_of_connection(enum field_id id, struct str name)
{
    return (FIELD_BIT(id) & FIELDS_OF_CONNECTION) != 0 ||
           (id == FIELD_OTHER && str_is(name, "proxy-connection"));
}

bool coded_section_take(struct coded_section *section, const struct coded_field *field)
{
    struct exchange *x = section->x;

    section->size += field->name.len + field->value.len;
    if (section->size > x->settings->buffer_size) {
        exchange_log(x, LOG_ERROR, 0, "upstream sent too big header");
        return false;
    }
    if (field->name.len != 0 && field->name.data[0] == ':') {
        return take_pseudo(section, field);
    }
    section->has_regular = true;
    if (!is_name(field->name) || !field_value_is_sound(field->value)) {
        return refuse_field(section, "invalid header:", field);
    }
    enum field_id id = field_identify(field->name);
    bool has_place = section->head != NULL || (FIELD_BIT(id) & FIELDS_NOT_IN_TRAILERS) == 0;
    if (has_place && !is_of_connection(id, field->name)) {
        /* Spaces around a value, which may not be there (8.2.1), are removed as with HTTP/1. */
        fields_add_identified(section->fields, &x->request->arena, id, field->name,
                              str_trim(field->value));
    }
    return true;
}

bool coded_section_end(struct coded_section *section, struct coded_response *response, bool is_end)
{
    struct coded_head *head = section->head;

    if (head == NULL) {
        response->trailers = section->fields;
        return true;
    }
    if (section->status == 0) {
        exchange_log(section->x, LOG_ERROR, 0, "upstream sent no :status header");
        return false;
    }
    if (++response->head_count > HEADS_MAX) {
        exchange_log(section->x, LOG_ERROR, 0, "upstream sent too many interim responses");
        return false;
    }
    head->status = section->status;
    head->is_end = is_end;
    if (response->last_head == NULL) {
        response->heads = head;
    } else {
        response->last_head->next = head;
    }
    response->last_head = head;
    response->has_final = head->status >= 200;
    response->head_received = section->x->attempt->bytes_received;
    return true;
}

/* ---- reading ---- */

enum head_result coded_response_head(struct exchange *x, struct coded_response *coded,
                                     bool is_input_ended, enum http_version version)
{
    struct upstream_response *response = &x->response;
    struct coded_head *head = coded->heads;

    if (head == NULL) {
        if (!is_input_ended) {
            return HEAD_MORE;
        }
        exchange_log(x, LOG_ERROR, 0, "upstream prematurely closed stream");
        return HEAD_BAD;
    }
    coded->heads = head->next;
    if (coded->heads == NULL) {
        coded->last_head = NULL;
    }
    response->status = head->status;
    response->version = version;
    response->fields = head->fields;
    if (!upstream_response_check_fields(x)) {
        return HEAD_BAD;
    }
    response->has_no_body =
        head->status < 200 || head->status == 204 || head->status == 304 || coded->is_head;
    response->may_have_trailers = coded->keeps_trailers && !head->is_end;
    if (head->is_end && response->content_length < 0 && !response->has_no_body) {
        response->content_length = 0; /* so that the client hears of the end with the head, too */
    }
    return HEAD_DONE;
}

enum body_result coded_response_data(struct exchange *x, struct coded_response *response,
                                     size_t size)
{
    response->given += size;
    if (x->response.content_length >= 0 && (int64_t) response->given > x->response.content_length) {
        exchange_log(x, LOG_ERROR, 0,
                     "upstream sent response body larger than indicated content length");
        return BODY_BAD;
    }
    return BODY_DATA;
}

enum body_result coded_response_finish(struct exchange *x, const struct coded_response *response)
{
    if (!x->response.has_no_body && x->response.content_length > (int64_t) response->given) {
        exchange_log(x, LOG_ERROR, 0, "upstream prematurely closed stream");
        return BODY_BAD;
    }
    if (response->trailers != NULL && response->keeps_trailers) {
        x->response.trailers = response->trailers;
    }
    x->is_reusable = true;
    return BODY_END;
}
