/* srcache_fetch: looks for a stored response in another location, and sends it. */
#include <errno.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/parse.h"
#include "http/files/file.h"
#include "http/modules/backends/srcache/srcache.h"
#include "http/message/stored.h"
#include "http/request/body_filter.h"
#include "http/request/temp_file.h"
#include "http/routing/body_settings.h"
#include "server/generation.h"
/* bytes of a stored header, in addition to srcache_most */

#define HEAD_MOST ((size_t) 64 * 1024)
/* Bytes of a stored response that are kept in memory. */
#define MEMORY_MOST ((size_t) 256 * 1024)

/* The output of the subrequest; in the request's arena. */
struct gathered {
    struct body_filter filter; /* receives the body of the subrequest */
    struct body_filter before; /* the filter of the subrequest, before that */
    struct buf bytes;          /* the first bytes */
    int fd;                    /* an unlinked file with the remaining bytes, or -1 */
    uint64_t size;             /* total bytes */
    uint64_t most;
    bool is_over;      /* too large, or it could not be stored */
    bool is_announced; /* the subrequest's response has a Content-Length */
};

static void free_gathered(void *arg)
{
    struct gathered *gathered = arg;

    buf_free(&gathered->bytes);
    if (gathered->fd != -1) {
        close(gathered->fd);
    }
}

/* Writes bytes beyond the memory limit to the file. False: failed; logged. Blocks on the disk. */
static bool put_in_file(struct gathered *gathered, struct request *request, struct str bytes)
{
    if (gathered->fd == -1) {
        struct str name;

        gathered->fd =
            temp_file_open(request, request->location->bodies->client_body_temp_path, &name);
        if (gathered->fd == -1) {
            return false;
        }
        unlink(name.data);
    }
    if (!fs_write_all(gathered->fd, bytes)) {
        log_crit(&request->log, errno, "srcache_fetch: write() to a temporary file failed");
        return false;
    }
    return true;
}

/* False: failed; logged. */
static bool srcache_fetch_put(struct gathered *gathered, struct request *request, struct str bytes)
{
    size_t before = gathered->bytes.capacity;
    struct str first = str_head(bytes, MEMORY_MOST - gathered->bytes.len);

    buf_append(&gathered->bytes, first);
    request_count_memory(request, gathered->bytes.capacity - before);
    gathered->size += bytes.len;
    bytes = str_skip(bytes, first.len);
    return bytes.len == 0 || put_in_file(gathered, request, bytes);
}

static bool srcache_fetch_gather(struct body_filter *filter, struct request *request,
                                 const struct body_piece *piece, bool is_last)
{
    struct gathered *gathered = container_of(filter, struct gathered, filter);

    if (piece == NULL || gathered->is_over) {
        return !response_drop(piece);
    }
    if (piece->bytes.len > gathered->most - gathered->size) {
        gathered->is_over = true;
        counters_mine->limited++;
        log_warn(&request->log, 0, "srcache_fetch: the cache sent more than %llu bytes",
                 (unsigned long long) gathered->most);
    } else {
        gathered->is_over = !srcache_fetch_put(gathered, request, piece->bytes);
    }
    return !response_drop(piece);
}

/* ---- the stored response ---- */

/* Copies a field of the stored response, except those of the connection and of framing. */
static void srcache_fetch_take_field(struct request *request, const struct field *field)
{
    struct response *response = &request->response;

    if (((FIELDS_OF_CONNECTION | FIELD_BIT(FIELD_CONTENT_LENGTH) | FIELD_BIT(FIELD_TRAILER)) &
         FIELD_BIT(field->id)) != 0) {
        return;
    }
    struct str name = arena_dup(&request->arena, field->name);
    struct str value = arena_dup(&request->arena, field->value);
    switch (field->id) {
    case FIELD_CONTENT_TYPE:
        response->content_type = value;
        break;
    case FIELD_LAST_MODIFIED:
        response->last_modified = http_date_parse(value);
        break;
    case FIELD_ETAG:
        response->etag = value;
        break;
    case FIELD_DATE:
        response->order.left_out |= FIELD_BIT(FIELD_DATE);
        fields_add_identified(&response->fields, &request->arena, field->id, name, value);
        break;
    default:
        fields_add_identified(&response->fields, &request->arena, field->id, name, value);
        break;
    }
}

/* Sends a response that is partly in a file, or of unknown length because the subrequest's was
 * unknown. MAY WAIT. */
static enum handler_result give_parts(struct request *request, const struct gathered *gathered,
                                      const struct stored *stored)
{
    struct response *response = &request->response;
    const struct body_piece first = {.bytes = stored->body, .fd = -1};
    const struct body_piece rest = {.fd = gathered->fd,
                                    .size = gathered->size - gathered->bytes.len};
    bool has_file = gathered->fd != -1;

    response->status = stored->status;
    response->content_length =
        gathered->is_announced ? (int64_t) (stored->body.len + rest.size) : -1;
    response->range.is_single = true;
    enum handler_result result = response_start(request);
    if (result != HANDLER_NEXT) {
        return result;
    }
    bool is_first_sent =
        has_file && first.bytes.len == 0 ? true : response_send(request, &first, !has_file);
    return is_first_sent && (!has_file || response_send_file(request, &rest, true))
               ? HANDLER_DONE
               : HANDLER_CLOSED;
}

/* MAY WAIT. */
static enum handler_result srcache_fetch_give(struct request *request,
                                              const struct gathered *gathered,
                                              const struct stored *stored)
{
    struct response *response = &request->response;

    fields_each(field, &stored->fields) {
        srcache_fetch_take_field(request, field);
    }
    response->range.is_allowed = gathered->is_announced;
    return gathered->fd != -1 || !gathered->is_announced
               ? give_parts(request, gathered, stored)
               : response_memory(request, stored->status, response->content_type, stored->body);
}

/* ---- the phase ---- */

static bool has_word(const struct fields *fields, enum field_id id, struct str word)
{
    const struct field *field = fields_get(fields, id);

    return field != NULL && field_lists(field, word);
}

static bool client_forbids(const struct request *request)
{
    static const struct str pragma = STR_INIT("Pragma");
    const struct field *field = fields_find(&request->headers, pragma);

    return has_word(&request->headers, FIELD_CACHE_CONTROL, STR("no-cache")) ||
           (field != NULL && field_lists(field, STR("no-cache")));
}

/* Was the subrequest successful, and is its output a valid stored response? Otherwise the reason is
 * logged. */
static bool is_sound(struct request *request, const struct subrequest *sub,
                     const struct gathered *gathered, struct stored *stored)
{
    const struct response *answer = &sub->request->response;

    if (answer->status != 200 || gathered->is_over) {
        return false;
    }
    if (answer->content_length >= 0 && (uint64_t) answer->content_length != gathered->size) {
        log_error(&request->log, 0, "srcache_fetch: cache sent truncated response body");
        return false;
    }
    const char *wrong =
        stored_parse(buf_str(&gathered->bytes), gathered->size, &request->arena, stored);
    if (wrong != NULL) {
        log_error(&request->log, 0, "srcache_fetch: cache sent invalid %s", wrong);
    }
    return wrong == NULL;
}

static enum handler_result srcache_fetch_ask(struct request *request,
                                             const struct srcache_settings *settings,
                                             struct srcache_run *run)
{
    struct gathered *gathered = arena_new(&request->arena, struct gathered);
    struct subrequest *sub = arena_new(&request->arena, struct subrequest);
    struct stored stored;

    sub->output = SUBREQUEST_INLINE;
    sub->own_variables = true;
    gathered->most = srcache_most(settings) + HEAD_MOST;
    gathered->filter.send = srcache_fetch_gather;
    gathered->before.next = &gathered->filter;
    sub->filter = &gathered->before;
    if (!srcache_aim(request, &settings->fetch, sub)) {
        return HANDLER_NEXT;
    }
    gathered->fd = -1;
    arena_on_free(&request->main->arena, free_gathered, gathered);
    enum handler_result result = subrequest_run(request, sub);
    if (result == HANDLER_CLOSED) {
        return HANDLER_CLOSED;
    }
    if (result != HANDLER_DONE || !is_sound(request, sub, gathered, &stored)) {
        return HANDLER_NEXT;
    }
    run->fetched = SRCACHE_HIT;
    gathered->is_announced = sub->request->response.content_length >= 0;
    return srcache_fetch_give(request, gathered, &stored);
}

enum handler_result srcache_fetch(struct request *request)
{
    const struct srcache_settings *settings = srcache_at(request->location);

    if (request != request->main || !srcache_covers(settings, request)) {
        return HANDLER_NEXT;
    }
    struct srcache_run *run = srcache_run_of(request);
    run->fetched = SRCACHE_BYPASS;
    if (templates_any_true(&settings->fetch_skip, &request->env) ||
        (settings->heeds_request && client_forbids(request))) {
        return HANDLER_NEXT;
    }
    run->fetched = SRCACHE_MISS;
    return srcache_fetch_ask(request, settings, run);
}
