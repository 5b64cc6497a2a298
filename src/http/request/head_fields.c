/* The fields of a response's head, in order. */
#include "http/request/head_fields.h"

#include "base/clock.h"
#include "base/parse.h"
#include "http/request/request.h"
#include "http/routing/response_settings.h"

#define OWN_FIELDS                                                                                 \
    8 /* Server, Date, Content-Type, Content-Length, Last-Modified, ETag, Location, … */
#define OWN_BYTES 256 /* of their names, and of the dates */

/* A tunnel is accepted with 200, 101 does not exist (RFC 8441, 5; RFC 9220, 3). */
static unsigned status_of(const struct response *response, bool is_websocket)
{
    if (response->framing == FRAMING_TUNNEL && response->status == 101) {
        return 200;
    }
    if (is_websocket && response->framing != FRAMING_TUNNEL && response->status < 300) {
        return 501; /* 2xx would promise a tunnel, and this location has made none */
    }
    return response->status;
}

bool head_begin(struct request *request, bool is_websocket)
{
    struct response *response = &request->response;

    response->progress = RESPONSE_HEAD_SENT;
    response->status = status_of(response, is_websocket); /* the log has what the client is sent */
    if (request->method == METHOD_HEAD || response->status == 304 || response->status == 204) {
        response->is_header_only = true;
    }
    return response->is_header_only ||
           (response->content_length == 0 && response->trailers == NULL &&
            response->framing != FRAMING_TUNNEL);
}

/* Are the values seldom the same twice, or secret? */
static bool stays_out(unsigned id)
{
    return id == FIELD_AUTHORIZATION || id == FIELD_SET_COOKIE || id == FIELD_LOCATION ||
           id == FIELD_CONTENT_RANGE || id == FIELD_CONTENT_LENGTH;
}

static void head_fields_put_field(struct head_encoder *encoder, const struct field *field)
{
    if (!field->is_removed && !field_is_of_connection(field)) {
        encoder->put(encoder, field->name, field->value, stays_out(field->id));
    }
}

static void put_known(struct head_encoder *encoder, enum field_id id, struct str value)
{
    encoder->put(encoder, field_names[id], value, stays_out(id));
}

/* Server and Date, unless something else says them. */
static void put_origin(const struct request *request, struct head_encoder *encoder)
{
    const struct response *response = &request->response;
    struct str server = request->location->responses->server_text;

    if (server.len != 0 && (response->order.left_out & FIELD_BIT(FIELD_SERVER)) == 0 &&
        fields_get(&response->fields, FIELD_SERVER) == NULL) {
        put_known(encoder, FIELD_SERVER, server);
    }
    if ((response->order.left_out & FIELD_BIT(FIELD_DATE)) == 0 &&
        fields_get(&response->fields, FIELD_DATE) == NULL) {
        put_known(encoder, FIELD_DATE, CLOCK_STR(http_date));
    }
}

static void put_content(struct request *request, struct head_encoder *encoder)
{
    const struct response *response = &request->response;
    struct str type = response->content_type;
    char digits[24];

    if (type.len != 0 && response->status != 204) {
        if (response->charset.len != 0) {
            const struct str parts[] = {type, STR("; charset="), response->charset};
            type = arena_join(&request->arena, parts, 3);
        }
        put_known(encoder, FIELD_CONTENT_TYPE, type);
    }
    bool is_empty = response->is_length_set && response->content_length == 0;
    if (response->content_length >= 0 && response->framing != FRAMING_TUNNEL &&
        (response->status != 204 || is_empty)) {
        char *end = format_uint(digits, (uint64_t) response->content_length);
        put_known(encoder, FIELD_CONTENT_LENGTH, str_from(digits, end));
    }
}

static void put_modified(const struct response *response, struct head_encoder *encoder)
{
    char date[32];

    if (!response_tells_modified(response)) {
        return;
    }
    put_known(encoder, FIELD_LAST_MODIFIED,
              response->last_modified_text.len != 0
                  ? response->last_modified_text
                  : str_from(date, http_date_format(date, response->last_modified)));
}

/* The ETag and a late Last-Modified, where they stand before field number `position`. */
static void put_validators(const struct response *response, struct head_encoder *encoder,
                           uint32_t position)
{
    bool has_modified =
        response->order.is_modified_late && response->order.modified_position == position;

    if (has_modified && !response->order.is_etag_first) {
        put_modified(response, encoder);
    }
    if (response->etag.len != 0 && response->order.etag_position == position) {
        put_known(encoder, FIELD_ETAG, response->etag);
    }
    if (has_modified && response->order.is_etag_first) {
        put_modified(response, encoder);
    }
}

void head_fields_put(struct request *request, struct head_encoder *encoder)
{
    const struct response *response = &request->response;
    uint32_t position = 0;

    put_origin(request, encoder);
    put_content(request, encoder);
    if (!response->order.is_modified_late) {
        put_modified(response, encoder);
    }
    if (response->location.len != 0) {
        put_known(encoder, FIELD_LOCATION, response->location);
    }
    fields_each(field, &response->fields) {
        if (field->is_early) {
            head_fields_put_field(encoder, field);
        }
    }
    fields_each(field, &response->fields) {
        put_validators(response, encoder, position++);
        if (!field->is_early) {
            head_fields_put_field(encoder, field);
        }
    }
    put_validators(response, encoder, position);
}

void head_fields_put_list(const struct fields *fields, struct head_encoder *encoder)
{
    fields_each(field, fields) {
        head_fields_put_field(encoder, field);
    }
}

size_t head_fields_list_size(const struct fields *fields, size_t overhead)
{
    size_t size = 0;

    fields_each(field, fields) {
        size += field->name.len + field->value.len + overhead;
    }
    return size;
}

size_t head_fields_size(const struct request *request, size_t overhead)
{
    const struct response *response = &request->response;

    return OWN_FIELDS * overhead + OWN_BYTES + request->location->responses->server_text.len +
           response->content_type.len + response->charset.len + response->etag.len +
           response->location.len + response->last_modified_text.len +
           head_fields_list_size(&response->fields, overhead);
}
