/* Fields of requests and of responses, set, replaced and removed. */
#include "http/request/field_change.h"

#include "base/parse.h"
#include "http/message/parser.h"

static bool is_meant(const struct field_change *change, struct str name)
{
    return change->is_prefix ? str_starts_nocase(name, change->name)
                             : str_equal_nocase(name, change->name);
}

/* Replaces the first of that name and removes the others; an empty value removes all. True: there
 * was one. */
static bool replace_field(struct fields *fields, const struct field_change *change)
{
    bool is_set = false;

    if (change->id != FIELD_OTHER && (fields->seen & FIELD_BIT(change->id)) == 0) {
        return false;
    }
    fields_each(field, fields) {
        if (field->is_removed || !is_meant(change, field->name)) {
            continue;
        }
        if (is_set || change->value.len == 0) {
            field->is_removed = true;
        } else {
            field->value = change->value;
        }
        is_set = true;
    }
    return is_set;
}

/* ---- responses */

/* A field that stands in the list of fields, and nowhere else. */
static void change_listed(struct request *request, const struct field_change *change)
{
    struct fields *fields = &request->response.fields;
    bool is_there = !change->appends && replace_field(fields, change);

    if (!is_there && change->value.len != 0) {
        fields_add_identified(fields, &request->arena, change->id, change->name, change->value);
    }
}

static void change_length(struct request *request, struct str value)
{
    struct response *response = &request->response;
    int64_t length;

    if (value.len == 0) {
        response->content_length = -1;
        response->range.is_allowed = false;
    } else if (content_length_parse(value, &length)) {
        response->content_length = length;
        response->is_length_set = true;
    }
}

/* "close" closes; anything else is one more field, as with nginx. */
static void change_connection(struct request *request, const struct field_change *change)
{
    const struct field field = {.value = change->value};

    if (field_lists(&field, STR("close"))) {
        request->keepalive = false;
    } else if (change->value.len != 0) {
        change_listed(request, change);
    }
}

/* A path is made absolute, as a redirect's; anything else takes the place of what a backend sent.
 */
static void change_location(struct request *request, const struct field_change *change)
{
    struct response *response = &request->response;
    const struct field_change removal = {.name = change->name, .id = change->id};
    bool is_path = str_starts(change->value, STR("/"));

    if (response->location.len == 0 && !is_path && replace_field(&response->fields, change)) {
        return;
    }
    replace_field(&response->fields, &removal);
    response_set_location(request, change->value);
}

void response_change_field(struct request *request, const struct field_change *change)
{
    struct response *response = &request->response;

    switch (change->id) {
    case FIELD_CONTENT_TYPE:
        response->content_type = change->value;
        response->charset = STR_NONE;
        return;
    case FIELD_CONTENT_LENGTH:
        change_length(request, change->value);
        return;
    case FIELD_TRANSFER_ENCODING:
        return;
    case FIELD_CONNECTION:
        change_connection(request, change);
        return;
    case FIELD_LOCATION:
        change_location(request, change);
        return;
    case FIELD_ETAG:
        if (response->etag.len == 0) {
            response->order.etag_position = response->fields.count;
        }
        response->etag = change->value;
        return;
    case FIELD_SERVER:
    case FIELD_DATE:
        if (change->value.len == 0) {
            response->order.left_out |= FIELD_BIT(change->id);
        }
        break;
    case FIELD_LAST_MODIFIED:
        /* It counts where conditions of the request are judged after this. */
        response->last_modified = http_date_parse(change->value);
        response->last_modified_text = STR_NONE;
        break;
    case FIELD_ACCEPT_RANGES:
        response->range.is_allowed = false;
        break;
    default:
        break;
    }
    change_listed(request, change);
}

/* ---- requests */

/* One that shares its list with others gets its own before something is added to it. */
static void own_fields(struct request *request)
{
    struct fields *fields = &request->headers;

    if (request->parent == NULL && request->subrequests_begun == NULL) {
        return;
    }
    struct field *items = arena_array(&request->arena, fields->count + 1, sizeof(*items));
    if (fields->count != 0) {
        memcpy(items, fields->items, fields->count * sizeof(*items));
    }
    fields->items = items;
    fields->capacity = fields->count + 1;
}

/* The parent, where it sees what the subrequest changes. */
static struct request *sharing_parent(const struct request *request)
{
    return request->has_own_headers ? NULL : request->parent;
}

/* The host of a value that no client could send: what a configuration or a script writes may hold
 * any bytes but those of a path. */
static bool host_from_text(struct arena *arena, struct str value, struct str *host)
{
    const char *bracket = value.data[0] == '[' ? str_find_char(value, ']') : NULL;
    size_t literal = bracket != NULL ? (size_t) (bracket + 1 - value.data) : 0;
    const char *colon = str_find_char(str_skip(value, literal), ':');
    struct str text = colon != NULL ? str_from(value.data, colon) : value;

    if (memchr(value.data, '/', value.len) != NULL || memchr(value.data, '\0', value.len) != NULL) {
        return false;
    }
    for (size_t i = 0; i + 1 < text.len; i++) {
        if (text.data[i] == '.' && text.data[i + 1] == '.') {
            return false;
        }
    }
    text.len -= text.len != 0 && text.data[text.len - 1] == '.';
    char *copy = arena_text(arena, text.len);
    for (size_t i = 0; i < text.len; i++) {
        copy[i] = (char) ascii_lower((unsigned char) text.data[i]);
    }
    *host = (struct str){copy, text.len};
    return text.len != 0;
}

/* The host that a request is for follows the field; one that is none is left out. */
static bool change_host(struct request *request, struct str value)
{
    struct str host = STR_NONE;
    struct str port = STR_NONE;

    if (value.len != 0 && !authority_parse(&request->arena, value, &host, &port) &&
        !host_from_text(&request->arena, value, &host)) {
        return false;
    }
    for (struct request *at = request; at != NULL; at = sharing_parent(at)) {
        at->head.host = host;
        at->head.port = port;
    }
    return true;
}

/* A length that is less than the body's cuts what is passed on; without the field again all of it
 * is. */
static void change_passed_length(struct request *request, const struct field_change *change)
{
    int64_t length = -1;

    if (change->only_existing && fields_get(&request->headers, FIELD_CONTENT_LENGTH) == NULL) {
        return;
    }
    request->incoming.is_length_given =
        change->value.len != 0 && content_length_parse(change->value, &length);
    request->incoming.passed_length = request->incoming.is_length_given ? (uint64_t) length : 0;
}

bool request_change_field(struct request *request, const struct field_change *change)
{
    if (change->id == FIELD_HOST &&
        (!change->only_existing || fields_get(&request->headers, FIELD_HOST) != NULL) &&
        !change_host(request, change->value)) {
        return false;
    }
    for (struct request *at = request; at != NULL; at = sharing_parent(at)) {
        if (change->id == FIELD_CONTENT_LENGTH) {
            change_passed_length(at, change);
        }
        bool is_there = !change->appends && replace_field(&at->headers, change);

        if (!is_there && (change->value.len != 0 || change->appends) && !change->only_existing) {
            own_fields(at);
            fields_add_identified(&at->headers, &at->arena, change->id,
                                  at == request ? change->name
                                                : arena_dup(&at->arena, change->name),
                                  at == request ? change->value
                                                : arena_dup(&at->arena, change->value));
        }
    }
    return true;
}
