/* Accepted responses on their way to clients: which fields go, and what fields for us ask for. */
#include "base/parse.h"
#include "base/text.h"
#include "http/exchange/exchange.h"
#include "http/message/uri.h"
#include "http/request/wire.h"

/* Fields of one connection, or that the wire writes itself: not in a head … */
#define NOT_IN_HEADS                                                                               \
    (FIELD_BIT(FIELD_CONNECTION) | FIELD_BIT(FIELD_KEEP_ALIVE) |                                   \
     FIELD_BIT(FIELD_TRANSFER_ENCODING) | FIELD_BIT(FIELD_CONTENT_LENGTH))

/* Fields that are not passed on in an interim response: it has no body, and no connection changes
 * with it. */
#define NOT_IN_INTERIM                                                                             \
    (FIELDS_OF_CONNECTION | FIELD_BIT(FIELD_CONTENT_LENGTH) | FIELD_BIT(FIELD_TRAILER) |           \
     FIELD_BIT(FIELD_TE))

#define X_ACCEL_IDS                                                                                \
    (FIELD_BIT(FIELD_X_ACCEL_LIMIT_RATE) | FIELD_BIT(FIELD_X_ACCEL_BUFFERING) |                    \
     FIELD_BIT(FIELD_X_ACCEL_CHARSET))

/* Charset names are short words (RFC 2978, 2.3). */
#define CHARSET_MAX 40

/* ---- fields for us ---- */

static bool is_charset(struct str text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char) text.data[i];
        if (c <= ' ' || c >= 127 || c == '"' || c == ';' || c == ',') {
            return false;
        }
    }
    return text.len != 0 && text.len <= CHARSET_MAX;
}

/* X-Accel-Limit-Rate: bytes per second; 0 and "off" are no limit. */
static void limit_rate(struct request *request, struct str value)
{
    uint64_t rate = 0;

    if (str_is(value, "off") || parse_uint(value, &rate)) {
        request->delivery.limit_rate = rate;
        request->delivery.is_limit_set = true;
    }
}

bool exchange_is_buffered(const struct exchange *x)
{
    const struct field *field = fields_get(&x->response.fields, FIELD_X_ACCEL_BUFFERING);

    if (field == NULL || (x->settings->ignore_headers & IGNORE_X_ACCEL_BUFFERING) != 0) {
        return x->relay.is_buffered;
    }
    return str_equal_nocase(field->value, STR("yes")) ||
           (x->relay.is_buffered && !str_equal_nocase(field->value, STR("no")));
}

/* What the backend asks of this server, where it may. */
static void obey_backend(struct exchange *x)
{
    const struct fields *fields = &x->response.fields;
    unsigned ignored = x->settings->ignore_headers;
    const struct field *field;

    x->relay.is_buffered = exchange_is_buffered(x);
    field = fields_get(fields, FIELD_X_ACCEL_LIMIT_RATE);
    if (field != NULL && (ignored & IGNORE_X_ACCEL_LIMIT_RATE) == 0) {
        limit_rate(x->request, field->value);
    }
    field = fields_get(fields, FIELD_X_ACCEL_CHARSET);
    if (field != NULL && (ignored & IGNORE_X_ACCEL_CHARSET) == 0 && is_charset(field->value)) {
        x->request->response.wanted_charset = field->value;
    }
}

/* ---- fields for the client ---- */

static void adapt(struct exchange *x, struct field *field)
{
    if (x->protocol->adapt_field != NULL) {
        x->protocol->adapt_field(x, field);
    }
}

static struct field *field_add(struct request *request, const struct field *field)
{
    return fields_add_identified(&request->response.fields, &request->arena, field->id, field->name,
                                 field->value);
}

/* A date is kept as it was written where it is one; anything else is a field as any other. */
static void take_last_modified(struct request *request, const struct field *field)
{
    struct response *response = &request->response;
    time_t when = http_date_parse(field->value);

    if (when == -1) {
        field_add(request, field);
        return;
    }
    response->last_modified = when;
    response->order.is_modified_late = true;
    response->order.modified_position = response->fields.count;
    response->order.is_etag_first = response->etag.len != 0;
    response->last_modified_text = field->value.len == HTTP_DATE_LENGTH ? field->value : STR_NONE;
}

/* One that was changed on the way to a path is ours, to be made absolute as all of ours; the
 * backend's own is not. */
static void take_location(struct exchange *x, const struct field *field)
{
    struct field changed = *field;

    adapt(x, &changed);
    bool is_same = changed.value.data == field->value.data && changed.value.len == field->value.len;
    if (is_same || !str_starts(changed.value, STR("/"))) {
        field_add(x->request, &changed);
    } else {
        x->request->response.location = changed.value;
    }
}

/* A field that is not hidden: most have a place of their own in the response. */
static void exchange_response_take_field(struct exchange *x, const struct field *field)
{
    struct request *request = x->request;
    struct response *response = &request->response;

    switch (field->id) {
    case FIELD_CONTENT_TYPE:
        response->content_type = field->value;
        break;
    case FIELD_LAST_MODIFIED:
        take_last_modified(request, field);
        break;
    case FIELD_ETAG:
        response->etag = field->value;
        response->order.etag_position = response->fields.count;
        break;
    case FIELD_ACCEPT_RANGES:
        if (!response->range.is_allowed) { /* else it is said for what is served here */
            field_add(request, field);
        }
        break;
    case FIELD_CACHE_CONTROL:
        response->keeps_coding |= field_lists(field, STR("no-transform"));
        field_add(request, field);
        break;
    case FIELD_LOCATION:
        take_location(x, field);
        break;
    case FIELD_REFRESH:
    case FIELD_SET_COOKIE:
        adapt(x, field_add(request, field));
        break;
    default:
        field_add(request, field);
        break;
    }
}

/* Does a backend's field go to the client? Every part of a response asks this, with what has no
 * place in it. */
static inline bool is_passed(const struct exchange *x, const struct field *field, uint64_t not_here)
{
    const struct map *hidden = x->settings->hidden;

    return !field->is_removed &&
           ((x->settings->hidden_ids | not_here) & FIELD_BIT(field->id)) == 0 &&
           (field->id != FIELD_OTHER || hidden == NULL || hidden->count == 0 ||
            map_get_nocase(hidden, field->name) == NULL);
}

static struct fields *passed_fields(struct exchange *x, const struct fields *from,
                                    uint64_t not_here)
{
    struct arena *arena = &x->request->arena;
    struct fields *fields = arena_new(arena, struct fields);

    fields_each(field, from) {
        if (is_passed(x, field, not_here)) {
            adapt(x, fields_add_identified(fields, arena, field->id, field->name, field->value));
        }
    }
    return fields;
}

struct fields *upstream_interim_fields(struct exchange *x)
{
    return passed_fields(x, &x->response.fields, NOT_IN_INTERIM);
}

struct fields *upstream_trailers(struct exchange *x)
{
    return passed_fields(x, x->response.trailers, FIELDS_NOT_IN_TRAILERS);
}

/* The whole was asked for: may parts of it be given instead? nginx takes "none" for an offer, too.
 */
static bool offers_ranges(const struct exchange *x)
{
    const struct field *field = fields_get(&x->response.fields, FIELD_ACCEPT_RANGES);

    if (x->protocol->offers_ranges) {
        return true;
    }
    if (!x->cache.is_cacheable && !x->cache.is_served) {
        return false;
    }
    return field != NULL && !str_equal_nocase(field->value, STR("none"));
}

bool response_from_upstream(struct exchange *x)
{
    struct request *request = x->request;
    struct response *response = &request->response;
    const struct upstream_response *received = &x->response;
    uint64_t not_here = NOT_IN_HEADS;

    response->status = received->status;
    response->reason = response->error_status == 0 ? received->reason : STR_NONE;
    response->content_length =
        x->cache.whole_length != 0 ? (int64_t) x->cache.whole_length : received->content_length;
    response->last_modified = -1;
    response->last_modified_text = STR_NONE;
    response->order.is_modified_late = response->order.is_etag_first = false;
    response->order.modified_position = response->order.etag_position = 0;
    response->is_unconditional = (!x->cache.is_cacheable && !x->cache.is_served) ||
                                 (request->method & (METHOD_GET | METHOD_HEAD)) == 0;
    response->range.is_allowed =
        x->cache.whole_length != 0 || x->settings->force_ranges || offers_ranges(x);
    response->range.is_single =
        x->cache.whole_length != 0 || !x->cache.is_served; /* it comes piece after piece */
    response->order.left_out =
        x->settings->passed_ids & (FIELD_BIT(FIELD_DATE) | FIELD_BIT(FIELD_SERVER));
    if ((received->fields.seen & X_ACCEL_IDS) != 0) {
        obey_backend(x);
    }
    if (request->main->wire->hides_connection_fields) {
        not_here |= FIELD_BIT(FIELD_UPGRADE); /* RFC 9113, 8.2.2 */
    }
    fields_each(field, &received->fields) {
        if (is_passed(x, field, not_here)) {
            exchange_response_take_field(x, field);
        }
    }
    if (x->pick.set_cookie.len != 0) {
        fields_add_known(&response->fields, &request->arena, FIELD_SET_COOKIE, x->pick.set_cookie);
    }
    return true;
}

/* ---- X-Accel-Redirect ---- */

static const struct str disposition = STR_INIT("Content-Disposition");

/* What the location that answers instead does not know. */
static void keep_fields(struct exchange *x)
{
    struct request *request = x->request;

    fields_each(field, &x->response.fields) {
        if (field->is_removed) {
            continue;
        }
        switch (field->id) {
        case FIELD_CONTENT_TYPE:
            request->response.content_type = field->value;
            break;
        case FIELD_SET_COOKIE:
            adapt(x, field_add(request, field));
            break;
        case FIELD_CACHE_CONTROL:
        case FIELD_EXPIRES:
        case FIELD_ACCEPT_RANGES:
            field_add(request, field);
            break;
        case FIELD_OTHER:
            if (str_equal_nocase(field->name, disposition)) {
                field_add(request, field);
            }
            break;
        default:
            break;
        }
    }
}

bool upstream_response_redirects(struct exchange *x, enum handler_result *result)
{
    struct request *request = x->request;
    const struct field *field = fields_get(&x->response.fields, FIELD_X_ACCEL_REDIRECT);
    struct str uri;
    struct str args;

    if (field == NULL || (x->settings->ignore_headers & IGNORE_X_ACCEL_REDIRECT) != 0) {
        return false;
    }
    keep_fields(x);
    obey_backend(x);
    if (field->value.len != 0 && field->value.data[0] == '@') {
        *result = request_redirect_named(request, field->value);
        return true;
    }
    struct str text = field->value;
    const char *question = str_find_char(text, '?');
    args = question == NULL ? STR_NONE : str_from(question + 1, text.data + text.len);
    uri = percent_decode(&request->arena, question == NULL ? text : str_from(text.data, question));
    if (uri.len == 0 || uri.data[0] != '/' || !uri_is_safe(uri)) {
        log_error(&request->log, 0, "unsafe URI \"%.*s\" was detected", STR_ARG(text));
        *result = request_fail(request, 404);
        return true;
    }
    if (request->method != METHOD_HEAD) {
        request_become_get(request);
    }
    *result = request_redirect(request, uri, args);
    return true;
}
