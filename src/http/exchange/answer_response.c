/* Accepted answers on their way to clients: which fields go, and what fields for us ask for. */
#include "base/parse.h"
#include "base/text.h"
#include "http/exchange/exchange.h"
#include "http/uri.h"

/* Fields of one connection, or that the wire writes itself. */
#define HOP_IDS                                                                                    \
    (FIELD_BIT(FIELD_CONNECTION) | FIELD_BIT(FIELD_KEEP_ALIVE) |                                   \
     FIELD_BIT(FIELD_TRANSFER_ENCODING) | FIELD_BIT(FIELD_CONTENT_LENGTH))

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
        request->limit_rate = rate;
        request->is_limit_set = true;
    }
}

/* What the backend asks of this server, where it may. */
static void obey(struct exchange *x)
{
    const struct fields *fields = &x->answer.fields;
    unsigned ignored = x->settings->ignore_headers;
    const struct field *field;

    if ((fields->seen & X_ACCEL_IDS) == 0) {
        return;
    }
    field = fields_get(fields, FIELD_X_ACCEL_BUFFERING);
    if (field != NULL && (ignored & IGNORE_X_ACCEL_BUFFERING) == 0) {
        if (str_equal_nocase(field->value, STR("no"))) {
            x->is_buffered = false;
        } else if (str_equal_nocase(field->value, STR("yes"))) {
            x->is_buffered = true;
        }
    }
    field = fields_get(fields, FIELD_X_ACCEL_LIMIT_RATE);
    if (field != NULL && (ignored & IGNORE_X_ACCEL_LIMIT_RATE) == 0) {
        limit_rate(x->request, field->value);
    }
    field = fields_get(fields, FIELD_X_ACCEL_CHARSET);
    if (field != NULL && (ignored & IGNORE_X_ACCEL_CHARSET) == 0 && is_charset(field->value)) {
        x->request->response.charset = field->value;
        x->request->response.wanted_charset = field->value;
    }
}

/* A type that names its charset already keeps it. */
static void settle_charset(struct response *response)
{
    struct str rest = response->content_type;

    if (response->charset.len == 0) {
        return;
    }
    while (str_cut(&rest, ';').data != NULL && rest.data != NULL) {
        if (str_starts_nocase(str_trim(rest), STR("charset="))) {
            response->charset = STR_NONE;
            return;
        }
    }
}

/* ---- fields for the client ---- */

static void adapt(struct exchange *x, struct field *field)
{
    if (x->protocol->adapt_field != NULL) {
        x->protocol->adapt_field(x, field);
    }
}

static struct field *add(struct request *request, const struct field *field)
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
        add(request, field);
        return;
    }
    response->last_modified = when;
    response->last_modified_text = field->value.len == HTTP_DATE_LENGTH ? field->value : STR_NONE;
}

/* One that was changed on the way is ours, to be made absolute as all of ours; the backend's own is not. */
static void take_location(struct exchange *x, const struct field *field)
{
    struct field changed = *field;

    adapt(x, &changed);
    if (changed.value.data == field->value.data && changed.value.len == field->value.len) {
        add(x->request, field);
    } else {
        x->request->response.location = changed.value;
    }
}

/* A field that is not hidden: most have a place of their own in the response. */
static void take_field(struct exchange *x, const struct field *field)
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
        break;
    case FIELD_ACCEPT_RANGES:
        if (!response->allows_ranges) { /* else it is said for what is served here */
            add(request, field);
        }
        break;
    case FIELD_LOCATION:
        take_location(x, field);
        break;
    case FIELD_REFRESH:
    case FIELD_SET_COOKIE:
        adapt(x, add(request, field));
        break;
    default:
        add(request, field);
        break;
    }
}

static void take_fields(struct exchange *x)
{
    const struct exchange_settings *settings = x->settings;
    const struct map *hidden = settings->hidden;
    uint64_t dropped_ids = settings->hidden_ids | HOP_IDS;
    if (x->request->version >= HTTP_2) {
        dropped_ids |= FIELD_BIT(FIELD_UPGRADE); /* RFC 9113, 8.2.2 */
    }
    bool hides_others = hidden != NULL && hidden->count != 0;

    fields_each(field, &x->answer.fields) {
        if (field->is_removed || (dropped_ids & FIELD_BIT(field->id)) != 0) {
            continue;
        }
        if (field->id == FIELD_OTHER && hides_others &&
            map_get_nocase(hidden, field->name) != NULL) {
            continue;
        }
        take_field(x, field);
    }
}

bool answer_to_response(struct exchange *x)
{
    struct request *request = x->request;
    struct response *response = &request->response;
    const struct answer *answer = &x->answer;

    response->status = answer->status;
    response->reason = response->error_status == 0 ? answer->reason : STR_NONE;
    response->content_length = answer->content_length;
    response->last_modified = -1;
    response->last_modified_text = STR_NONE;
    if (x->settings->force_ranges) {
        response->allows_ranges = true;
        response->is_single_range = true; /* it comes piece after piece */
    }
    obey(x);
    take_fields(x);
    settle_charset(response);
    if (x->pick.set_cookie.len != 0) {
        fields_add_known(&response->fields, &request->arena, FIELD_SET_COOKIE, x->pick.set_cookie);
    }
    return true;
}

/* ---- X-Accel-Redirect ---- */

static const struct str disposition = STR_INIT("Content-Disposition");

/* What the place that answers instead does not know. */
static void keep_fields(struct exchange *x)
{
    struct request *request = x->request;

    fields_each(field, &x->answer.fields) {
        if (field->is_removed) {
            continue;
        }
        switch (field->id) {
        case FIELD_CONTENT_TYPE:
            request->response.content_type = field->value;
            break;
        case FIELD_SET_COOKIE:
            adapt(x, add(request, field));
            break;
        case FIELD_CACHE_CONTROL:
        case FIELD_EXPIRES:
        case FIELD_ACCEPT_RANGES:
            add(request, field);
            break;
        case FIELD_OTHER:
            if (str_equal_nocase(field->name, disposition)) {
                add(request, field);
            }
            break;
        default:
            break;
        }
    }
}

bool answer_redirects(struct exchange *x, enum flow *flow)
{
    struct request *request = x->request;
    const struct field *field = fields_get(&x->answer.fields, FIELD_X_ACCEL_REDIRECT);
    struct str uri;
    struct str args;

    if (field == NULL || (x->settings->ignore_headers & IGNORE_X_ACCEL_REDIRECT) != 0) {
        return false;
    }
    keep_fields(x);
    obey(x);
    if (field->value.len != 0 && field->value.data[0] == '@') {
        *flow = request_redirect_named(request, field->value);
        return true;
    }
    struct str text = field->value;
    const char *question = str_find_char(text, '?');
    args = question == NULL ? STR_NONE : str_from(question + 1, text.data + text.len);
    uri = percent_decode(&request->arena, question == NULL ? text : str_from(text.data, question));
    if (uri.len == 0 || uri.data[0] != '/' || !uri_is_safe(uri)) {
        log_error(&request->log, 0, "unsafe URI \"%.*s\" was detected", STR_ARG(text));
        *flow = request_fail(request, 404);
        return true;
    }
    if (request->method != METHOD_HEAD) {
        request_become_get(request);
    }
    *flow = request_redirect(request, uri, args);
    return true;
}
