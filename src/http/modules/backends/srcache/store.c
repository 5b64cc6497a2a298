/* srcache_store: sends a complete response to another location, which stores it. */
#include "base/clock.h"
#include "base/parse.h"
#include "base/text.h"
#include "http/message/cache_control.h"
#include "http/message/status.h"
#include "http/modules/backends/srcache/srcache.h"
#include "http/files/file.h"
#include "http/request/body.h"
#include "http/request/body_filter.h"
#include "server/generation.h"

/* A response that is being stored; in the request's arena. */
struct storing {
    struct body_filter filter;
    const struct srcache_settings *settings;
    struct buf bytes;         /* header and body */
    size_t counted;           /* bytes that count towards the request's memory */
    size_t head;              /* length of the header */
    unsigned status;          /* in the header */
    int64_t announced;        /* Content-Length; -1 = unknown */
    bool is_over;             /* it is too large, and will not be stored */
    struct request_body body; /* body of the subrequest */
    struct subrequest sub;
};

static void free_bytes(void *arg)
{
    buf_free(&((struct storing *) arg)->bytes);
}

/* ---- whether to store ---- */

static bool has_status(const struct srcache_settings *settings, unsigned status)
{
    vec_each(const unsigned, wanted, &settings->statuses) {
        if (*wanted == status) {
            return true;
        }
    }
    return status == 206 && settings->stores_ranges;
}

/* Does a directive of Cache-Control forbid storing? Also reads the lifetimes; -1 = none. */
static bool word_forbids(const struct srcache_settings *settings, struct str word, int64_t *max_age,
                         int64_t *shared_age)
{
    int64_t seconds;

    if (cache_control_seconds(word, STR("s-maxage="), &seconds)) {
        *shared_age = seconds;
    } else if (cache_control_seconds(word, STR("max-age="), &seconds)) {
        *max_age = seconds;
    } else if (str_starts_nocase(word, STR("private"))) {
        return !settings->stores_private;
    } else if (str_starts_nocase(word, STR("no-store"))) {
        return !settings->stores_no_store;
    } else if (str_starts_nocase(word, STR("no-cache"))) {
        return !settings->stores_no_cache;
    }
    return false;
}

/* The next directive of Cache-Control; some scripts separate them by semicolons. words->data is
 * NULL after the last. */
static struct str next_word(struct str *words)
{
    size_t len = 0;

    while (len < words->len && words->data[len] != ',' && words->data[len] != ';') {
        len++;
    }
    struct str word = str_trim((struct str){words->data, len});
    *words = len < words->len ? str_skip(*words, len + 1) : STR_NONE;
    return word;
}

uint64_t srcache_lifetime(const struct request *request, bool *is_storable)
{
    const struct srcache_settings *settings = srcache_at(request->location);
    const struct fields *fields = &request->response.fields;
    const struct field *expires = fields_get(fields, FIELD_EXPIRES);
    int64_t max_age = -1;
    int64_t shared_age = -1;
    int64_t lifetime = (int64_t) settings->default_expire;

    *is_storable = true;
    fields_each(field, fields) {
        struct str words = field->value;

        while (field->id == FIELD_CACHE_CONTROL && !field->is_removed && words.data != NULL) {
            struct str word = next_word(&words);
            if (word_forbids(settings, word, &max_age, &shared_age)) {
                *is_storable = false;
            }
        }
    }
    if (shared_age >= 0 || max_age >= 0) {
        lifetime = shared_age >= 0 ? shared_age : max_age;
        *is_storable = *is_storable && lifetime > 0;
    } else if (expires != NULL) {
        lifetime = http_date_parse(expires->value) - clock_now.seconds;
        lifetime = lifetime > 0 ? lifetime : 0;
        *is_storable = *is_storable && lifetime > 0;
    }
    if (settings->max_expire != 0 && (uint64_t) lifetime > settings->max_expire) {
        return settings->max_expire;
    }
    return (uint64_t) lifetime;
}

static bool client_forbids(const struct request *request)
{
    const struct field *field = fields_get(&request->headers, FIELD_CACHE_CONTROL);

    return field != NULL && field_lists(field, STR("no-store"));
}

/* A body with a content coding, which not every client supports, is stored only if that is
 * configured. */
static bool is_encoded(const struct request *request, const struct srcache_settings *settings)
{
    const struct field *field = fields_get(&request->response.fields, FIELD_CONTENT_ENCODING);

    if (settings->stores_codings || field == NULL || field->value.len == 0) {
        return false;
    }
    log_warn(&request->log, 0,
             "srcache_store skipped due to response header \"Content-Encoding: %.*s\" (maybe you "
             "forgot to disable compression on the backend?)",
             STR_ARG(field->value));
    return true;
}

static bool srcache_store_is_wanted(struct request *request,
                                    const struct srcache_settings *settings)
{
    const struct response *response = &request->response;
    const struct srcache_run *run = request_data(request, &srcache_key, 0);
    bool is_storable = true;

    if (request != request->main || request->method == METHOD_HEAD ||
        !srcache_covers(settings, request) || response->is_header_only ||
        response->framing == FRAMING_TUNNEL || !has_status(settings, response->status) ||
        (run != NULL && run->fetched == SRCACHE_HIT)) {
        return false;
    }
    if (settings->heeds_response) {
        srcache_lifetime(request, &is_storable);
    }
    return is_storable && !(settings->heeds_request && client_forbids(request)) &&
           !is_encoded(request, settings) &&
           (response->content_length < 0 ||
            (uint64_t) response->content_length <= srcache_most(settings)) &&
           !templates_any_true(&settings->store_skip, &request->env);
}

/* ---- what to store ---- */

static bool is_listed(const struct vec *names, struct str name)
{
    vec_each(const struct str, one, names) {
        if (str_equal_nocase(*one, name)) {
            return true;
        }
    }
    return false;
}

/* Fields of the connection are never stored; cookies only if srcache_store_pass_header names
 * them. */
static bool is_stored(const struct srcache_settings *settings, const struct field *field)
{
    const uint64_t hidden = FIELD_BIT(FIELD_SET_COOKIE) | FIELD_BIT(FIELD_PROXY_AUTHENTICATE) |
                            FIELD_BIT(FIELD_PROXY_AUTHORIZATION) | FIELD_BIT(FIELD_TE);
    const uint64_t never =
        FIELDS_OF_CONNECTION | FIELD_BIT(FIELD_CONTENT_LENGTH) | FIELD_BIT(FIELD_TRAILER);

    if (field->is_removed || (never & FIELD_BIT(field->id)) != 0) {
        return false;
    }
    bool is_hidden =
        (hidden & FIELD_BIT(field->id)) != 0 || is_listed(&settings->hidden, field->name);
    return !is_hidden || is_listed(&settings->passed, field->name);
}

static void srcache_store_put_field(struct storing *storing, struct str name, struct str value)
{
    const struct field field = {.name = name, .value = value, .id = (uint8_t) field_identify(name)};

    if (value.len != 0 && is_stored(storing->settings, &field)) {
        buf_printf(&storing->bytes, "%.*s: %.*s\r\n", STR_ARG(name), STR_ARG(value));
    }
}

static void srcache_store_put_head(struct storing *storing, struct request *request)
{
    const struct response *response = &request->response;
    struct str phrase = status_phrase(response->status);
    struct buf *out = &storing->bytes;
    char date[HTTP_DATE_LENGTH];

    buf_printf(out, "HTTP/1.1 %u %.*s\r\n", response->status, STR_ARG(phrase));
    if (response->content_type.len != 0 && response->charset.len != 0) {
        buf_printf(out, "Content-Type: %.*s; charset=%.*s\r\n", STR_ARG(response->content_type),
                   STR_ARG(response->charset));
    } else {
        srcache_store_put_field(storing, STR("Content-Type"), response->content_type);
    }
    if (response_tells_modified(response)) {
        srcache_store_put_field(storing, STR("Last-Modified"),
                                str_from(date, http_date_format(date, response->last_modified)));
    }
    srcache_store_put_field(storing, STR("ETag"), response->etag);
    srcache_store_put_field(storing, STR("Location"), response_sent_location(request));
    fields_each(field, &response->fields) {
        if (is_stored(storing->settings, field)) {
            srcache_store_put_field(storing, field->name, field->value);
        }
    }
    buf_append(out, STR("\r\n"));
    storing->head = out->len;
    storing->status = response->status;
    storing->announced = response->content_length;
}

/* If the client requested a range, the range filter, which runs after this one, selects it: the
 * stored header becomes that of the part. Several ranges are not stored. */
static void see_part(struct storing *storing, const struct request *request)
{
    const struct response *response = &request->response;
    const struct field *range = fields_get(&response->fields, FIELD_CONTENT_RANGE);
    struct buf *bytes = &storing->bytes;

    if (response->status != 206 || storing->status == 206) {
        return;
    }
    if (!storing->settings->stores_ranges || range == NULL || range->value.len == 0) {
        storing->is_over = true;
        return;
    }
    struct buf whole = *bytes;
    struct str fields = buf_str(&whole);
    str_cut(&fields, '\n');
    *bytes = (struct buf){0};
    buf_printf(bytes, "HTTP/1.1 206 %.*s\r\nContent-Range: %.*s\r\n%.*s",
               STR_ARG(status_phrase(206)), STR_ARG(range->value), STR_ARG(fields));
    buf_free(&whole);
    storing->head = bytes->len;
    storing->status = 206; /* done once: pieces without bytes may come first */
    storing->announced = response->content_length;
}

/* The subrequest has ended: logs a failure, because it is not visible otherwise. */
static void report_failure(struct subrequest *sub)
{
    const struct request *child = sub->request;
    unsigned status = child->response.status;

    if (status >= 300) {
        log_error(&child->log, 0, "srcache_store subrequest failed: rc=%u status=%u", status,
                  status);
    }
}

/* The response is complete: starts the subrequest, for which the client does not wait. False: it is
 * not stored. MAY WAIT for other subrequests to end. */
static bool srcache_store_store(struct storing *storing, struct request *request)
{
    const struct srcache_settings *settings = storing->settings;
    size_t body = storing->bytes.len - storing->head;
    struct subrequest *sub = &storing->sub;

    if (storing->is_over || templates_any_true(&settings->store_skip, &request->env)) {
        return false;
    }
    if (storing->announced >= 0 && (uint64_t) storing->announced != body) {
        log_error(&request->log, 0,
                  "srcache_store: the body has %zu bytes where %lld were announced", body,
                  (long long) storing->announced);
        return false;
    }
    storing->body = (struct request_body){.bytes = buf_str(&storing->bytes),
                                          .fd = -1,
                                          .size = storing->bytes.len};
    sub->output = SUBREQUEST_NONE;
    sub->own_variables = true;
    sub->outlives_client = true;
    sub->given = &storing->body;
    sub->answered = report_failure;
    return srcache_aim(request, &settings->store, sub) &&
           subrequest_begin(request, sub) == HANDLER_DONE;
}

/* Counts the current buffer towards the memory limit of the request. */
static void srcache_store_count(struct storing *storing, struct request *request)
{
    request_uncount_memory(request, storing->counted);
    storing->counted = storing->bytes.capacity;
    request_count_memory(request, storing->counted);
}

/* Stops storing, and frees the buffer. */
static void srcache_store_give_up(struct storing *storing, struct request *request)
{
    storing->is_over = true;
    counters_mine->limited++;
    buf_free(&storing->bytes);
    srcache_store_count(storing, request);
}

/* Makes space for more bytes, if request_memory_limit allows it: storing must not make the request
 * fail. */
static bool reserve(struct storing *storing, struct request *request, size_t more)
{
    struct buf *bytes = &storing->bytes;
    uint64_t limit = request->location->request_memory_limit;
    size_t wanted =
        bytes->len + more < 2 * bytes->capacity ? 2 * bytes->capacity : bytes->len + more;

    if (bytes->capacity - bytes->len >= more) {
        return true;
    }
    if (limit != 0 && request->main->memory.used + (wanted - bytes->capacity) > limit) {
        return false;
    }
    buf_reserve(bytes, wanted - bytes->len);
    srcache_store_count(storing, request);
    return true;
}

static void srcache_store_gather(struct storing *storing, struct request *request, struct str bytes)
{
    uint64_t most = srcache_most(storing->settings);

    if (storing->is_over) {
        return;
    }
    if (bytes.len > most || storing->bytes.len - storing->head > most - bytes.len) {
        log_info(&request->log, 0,
                 "srcache_store: the response is larger than srcache_store_max_size, %llu bytes",
                 (unsigned long long) most);
        srcache_store_give_up(storing, request);
        return;
    }
    if (!reserve(storing, request, bytes.len)) {
        log_info(&request->log, 0,
                 "srcache_store: the response is not stored: it would take more memory than "
                 "request_memory_limit allows");
        srcache_store_give_up(storing, request);
        return;
    }
    buf_append(&storing->bytes, bytes);
}

static bool storing_send(struct body_filter *filter, struct request *request,
                         const struct body_piece *piece, bool is_last)
{
    struct storing *storing = container_of(filter, struct storing, filter);

    if (storing->bytes.len == storing->head) {
        see_part(storing, request);
    }
    if (piece != NULL) {
        srcache_store_gather(storing, request, piece->bytes);
    }
    if (!body_filter_next(filter, request, piece, is_last)) {
        return false;
    }
    if (is_last && !srcache_store_store(storing, request)) {
        srcache_run_of(request)->stored = SRCACHE_BYPASS;
    }
    return true;
}

void srcache_store(struct request *request)
{
    const struct srcache_settings *settings = srcache_at(request->location);

    if (!srcache_store_is_wanted(request, settings)) {
        return;
    }
    struct storing *storing = arena_new(&request->arena, struct storing);
    storing->filter.send = storing_send;
    storing->settings = settings;
    srcache_run_of(request)->stored =
        SRCACHE_STORE; /* according to the header; it may still change */
    arena_on_free(&request->arena, free_bytes, storing);
    buf_reserve(&storing->bytes, (size_t) (settings->head_size + settings->piece_size));
    srcache_store_put_head(storing, request);
    response_needs_memory(request);
    response_append_filter(request, &storing->filter);
}
