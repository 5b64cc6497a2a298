/* ngx_http_slice_filter_module: long responses in slices. */
#include "http/exchange/cache/slice.h"

#include "base/parse.h"
#include "http/routing/hooks.h"
#include "http/request/request.h"
#include "server/module.h"

struct slice_settings {
    uint64_t size; /* bytes; 0 = off */
};

static struct settings_key slice_key;

/* The first byte of the client's range, so that the first slice fetched is the one that holds it; 0
 * without Range, for several ranges and for the last N bytes. Whether the client gets the range is
 * decided in slice_accept. */
static uint64_t wanted_start(const struct request *request)
{
    const struct field *field = fields_get(&request->headers, FIELD_RANGE);
    uint64_t first;

    if (field == NULL || fields_get(&request->headers, FIELD_IF_RANGE) != NULL ||
        !str_starts_nocase(field->value, STR("bytes=")) ||
        str_find_char(field->value, ',') != NULL) {
        return 0;
    }
    struct str rest = str_skip(field->value, 6);
    struct str text = str_trim(str_cut(&rest, '-'));
    return rest.data != NULL && parse_uint(text, &first) ? first : 0;
}

void slice_set_start(struct slice *slice, struct arena *arena, uint64_t start)
{
    slice->start = start;
    slice->next = start + slice->size;
    slice->range = arena_printf(arena, "bytes=%llu-%llu", (unsigned long long) start,
                                (unsigned long long) (start + slice->size - 1));
}

bool slice_is_on(const struct conf_scope *scope)
{
    const struct slice_settings *settings = conf_settings(scope, &slice_key);

    return settings != NULL && settings->size != 0;
}

struct slice *slice_new(const struct exchange *x)
{
    struct request *request = x->request;
    const struct slice_settings *settings = location_settings(request->location, &slice_key);

    if (settings == NULL || settings->size == 0 || request != request->main ||
        (request->method & (METHOD_GET | METHOD_HEAD)) == 0) {
        return NULL;
    }
    struct slice *slice = arena_new(&request->arena, struct slice);
    slice->size = settings->size;
    slice->is_first = true;
    slice->end = UINT64_MAX; /* not known before the first response */
    uint64_t start = wanted_start(request);
    if (start > INT64_MAX - settings->size) {
        start = 0;
    }
    slice_set_start(slice, &request->arena, start / settings->size * settings->size);
    return slice;
}

/* "bytes 0-99/1000" (RFC 9110, 14.4) as [start, end) of total. */
static bool read_content_range(struct str value, uint64_t *start, uint64_t *end, uint64_t *total)
{
    if (!str_starts_nocase(value, STR("bytes "))) {
        return false;
    }
    struct str rest = str_trim(str_skip(value, 6));
    struct str first = str_cut(&rest, '-');
    if (rest.data == NULL) {
        return false;
    }
    struct str last = str_cut(&rest, '/');
    if (rest.data == NULL || !parse_uint(first, start) || !parse_uint(last, end) ||
        !parse_uint(rest, total) || *end < *start || *end >= *total || *total > INT64_MAX) {
        return false;
    }
    (*end)++;
    return true;
}

static bool slice_refuse(struct exchange *x, const char *reason, struct str culprit)
{
    log_error(&x->request->log, 0, "%s in slice response: \"%.*s\"", reason, STR_ARG(culprit));
    if (x->cache.output == OUTPUT_RESPONSE) {
        x->request->response.status = x->response.status; /* is logged; the client gets nothing */
    }
    return false;
}

/* The first slice's head becomes that of the whole; its length is in the response alone. */
static void become_whole(struct exchange *x)
{
    struct upstream_response *response = &x->response;

    response->status = 200;
    response->reason = STR_NONE;
    fields_each(field, &response->fields) {
        if (field->id == FIELD_CONTENT_RANGE || field->id == FIELD_CONTENT_LENGTH) {
            field->is_removed = true;
        }
    }
}

bool slice_accept(struct exchange *x)
{
    struct slice *slice = x->cache.state->slice;
    const struct field *range = fields_get(&x->response.fields, FIELD_CONTENT_RANGE);
    const struct field *etag = fields_get(&x->response.fields, FIELD_ETAG);
    uint64_t start;
    uint64_t end;
    uint64_t total;

    if (x->response.status != 206) {
        if (slice->is_first) {
            x->cache.state->slice = NULL;
            return false;
        }
        return slice_refuse(x, "unexpected status code",
                            arena_printf(&x->request->arena, "%u", x->response.status));
    }
    if (range == NULL || !read_content_range(range->value, &start, &end, &total)) {
        return slice_refuse(x, "invalid range", range == NULL ? STR_NONE : range->value);
    }
    uint64_t wanted = slice->start + slice->size < total ? slice->start + slice->size : total;
    if (start != slice->start || end != wanted || (!slice->is_first && total != slice->total)) {
        return slice_refuse(x, "unexpected range", range->value);
    }
    if (x->response.content_length >= 0 && !x->response.has_no_body &&
        (uint64_t) x->response.content_length != end - start) {
        return slice_refuse(x, "unexpected length",
                            arena_printf(&x->request->arena, "%lld",
                                         (long long) x->response.content_length));
    }
    struct str tag = etag == NULL ? STR_NONE : etag->value;
    if (!slice->is_first && slice->etag.len != 0 && !str_equal(tag, slice->etag)) {
        return slice_refuse(x, "etag mismatch", tag);
    }
    slice->total = total;
    slice->length = x->cache.part_length = end - start;
    if (slice->end > total) {
        slice->end = total;
    }
    if (slice->is_first) {
        slice->etag = tag;
        x->cache.whole_length = total;
        become_whole(x);
    }
    return true;
}

void slice_started(struct exchange *x)
{
    struct slice *slice = x->cache.state->slice;
    struct response *response = &x->request->response;

    if (slice == NULL) {
        return;
    }
    slice->end = response->range.end != 0 ? response->range.end : slice->total;
    uint64_t first = response->range.start / slice->size * slice->size;
    if (first != slice->start) { /* it was about the whole only */
        x->cache.output = OUTPUT_HEAD;
        slice->next = first;
    }
    x->cache.is_followed = slice->next < slice->end;
    response->range.body_offset = first;
}

bool slice_is_complete(const struct exchange *x)
{
    if (x->cache.state->slice == NULL || x->response.has_no_body ||
        x->body_received == x->cache.state->slice->length) {
        return true;
    }
    log_error(&x->request->log, 0, "upstream sent %llu bytes of %llu in a slice response",
              (unsigned long long) x->body_received,
              (unsigned long long) x->cache.state->slice->length);
    return false;
}

/* ---- the module ---- */

static bool get_slice_range(struct variable_env *env, const struct variable *variable,
                            struct str *out)
{
    struct request *request = container_of(env, struct request, env);
    struct exchange *x = request->exchange;

    if (x == NULL || x->cache.state == NULL || x->cache.state->slice == NULL) {
        *out = STR_NONE;
        return x != NULL;
    }
    *out = x->cache.state->slice->range;
    return true;
}

static const struct variable slice_variables[] = {
    {.name = STR_INIT("slice_range"),
     .doc = "Current slice as a value of the Range field.",
     .get = get_slice_range,
     .flags = VARIABLE_VOLATILE},
    {.name = {NULL, 0}},
};

static const struct directive slice_rows[] = {
    {"slice", IN_HTTP_ALL, SIZE(struct slice_settings, size), .initial = "0",
     .doc = "Size of the ranges in which long responses are requested from backends; each "
            "range is cached separately. 0 disables slicing."},
    {0},
};

static const struct http_module slice_hooks = {.variables = slice_variables};

const struct module ngx_http_slice_filter_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_slice_filter_module",
    .kind = MODULE_HTTP,
    .table = {.key = &slice_key,
              .rows = slice_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct slice_settings)},
    .hooks = &slice_hooks,
};
