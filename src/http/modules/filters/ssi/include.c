/* `include`: the response of another location in the page, or in a variable; a block if it is
 * empty. */
#include "base/list.h"
#include "base/text.h"
#include "http/modules/filters/ssi/ssi.h"
#include "http/request/body_filter.h"
#include "http/request/subrequest.h"
#include "http/message/uri.h"

/* ---- the target ---- */

static bool tell_unsafe(struct request *request, struct str uri)
{
    log_error(&request->log, 0, "unsafe URI \"%.*s\" was detected", STR_ARG(uri));
    return false;
}

/* Resolves "a.html" on the page "/dir/x" to "/dir/a.html". */
static struct str make_absolute(struct request *request, struct str uri)
{
    const char *slash;

    if (uri.len != 0 && uri.data[0] == '/') {
        return uri;
    }
    slash = str_find_last_char(request->uri, '/');
    return slash == NULL
               ? arena_concat(&request->arena, STR("/"), uri)
               : arena_concat(&request->arena, str_from(request->uri.data, slash + 1), uri);
}

/* Evaluates virtual= or file= to a path and arguments. False after an error. */
static bool read_target(struct request *request, struct str text, struct subrequest *sub)
{
    if (!ssi_evaluate(request, text, &text)) {
        return false;
    }
    text = make_absolute(request, text);
    return subrequest_aim(request, text, sub) || tell_unsafe(request, sub->uri);
}

/* ---- set= ---- */

/* A failed subrequest gives an empty value, as in nginx. */
static bool include_in_variable(struct ssi_page *page, struct subrequest *sub, struct str name)
{
    sub->output = SUBREQUEST_MEMORY;
    enum handler_result result = subrequest_run(page->request, sub);

    if (result == HANDLER_CLOSED) {
        page->is_dead = true;
        return true;
    }
    if (result == HANDLER_FAIL || sub->is_cut) {
        return false;
    }
    bool is_good = sub->request->response.status < 300;
    ssi_set(page->request, name, is_good ? sub->body : STR(""));
    return true;
}

/* ---- in the page ---- */

/* An include that runs concurrently with its page; in the arena of the page's request. */
struct inclusion {
    struct subrequest sub;
    struct ordered_slot
        *slot; /* its position in the page's output; until the subrequest has ended */
    struct body_filter begin; /* the filter of the subrequest; followed by the gate or the slot */
    /* With stub=: drops the server's own error pages, and records whether there was any output. */
    struct body_filter gate;
    const struct ssi_block *block; /* of stub=; or NULL */
    bool has_output;
    bool is_open; /* the stub itself passes through */
};

static bool gate_send(struct body_filter *filter, struct request *request,
                      const struct body_piece *piece, bool is_last)
{
    struct inclusion *inclusion = container_of(filter, struct inclusion, gate);
    bool is_failure = inclusion->sub.request->response.is_built_in && !inclusion->is_open;
    bool is_empty = piece == NULL || (piece->bytes.len == 0 && piece->size == 0);

    if (is_failure || is_empty) {
        if (piece != NULL && piece->release != NULL) {
            piece->release(piece->release_arg);
        }
        return true;
    }
    inclusion->has_output = true;
    return body_filter_next(&inclusion->gate, request, piece, is_last);
}

/* Outputs the block as a page of the subrequest, through the filters that its response would have
 * used. */
static void put_stub(struct request *request, struct str text)
{
    const struct ssi_settings *settings = ssi_settings_at(request->location);
    struct ssi_page *stub = arena_alloc(&request->arena, sizeof(*stub));

    request->response.content_length = -1; /* the announced length was that of another body */
    ssi_page_begin(stub, request, settings);
    if (settings->is_on) {
        ssi_page_put(stub, text);
        ssi_page_end(stub);
    } else {
        ssi_output(stub, text);
    }
    ssi_output_flush(stub, false, false);
    if (stub->ordered != NULL) {
        ordered_send(stub->ordered, NULL, false);
    }
}

static void include_answered(struct subrequest *sub)
{
    struct inclusion *inclusion = container_of(sub, struct inclusion, sub);

    if (inclusion->block != NULL && !inclusion->has_output) {
        inclusion->is_open = true;
        put_stub(sub->request, buf_str(&inclusion->block->text));
    }
    ordered_end(inclusion->slot);
    inclusion->slot = NULL;
}

static uint64_t include_backlog(const struct subrequest *sub)
{
    return ordered_backlog(container_of(sub, struct inclusion, sub)->slot);
}

static struct ordered *ordered_of(struct ssi_page *page)
{
    if (page->ordered == NULL) {
        page->ordered = arena_new(&page->request->arena, struct ordered);
        ordered_init(page->ordered, &page->filter, page->request);
    }
    return page->ordered;
}

static bool include_in_page(struct ssi_page *page, const struct subrequest *sub,
                            const struct ssi_block *block, bool waits)
{
    struct inclusion *inclusion = arena_new(&page->request->arena, struct inclusion);

    inclusion->sub = *sub;
    inclusion->sub.filter = &inclusion->begin;
    inclusion->sub.answered = include_answered;
    inclusion->sub.backlog = include_backlog;
    inclusion->slot = ordered_slot(ordered_of(page));
    inclusion->gate.send = gate_send;
    inclusion->gate.next = &inclusion->slot->filter;
    inclusion->block = block;
    inclusion->begin.next = block == NULL ? inclusion->gate.next : &inclusion->gate;
    enum handler_result result = subrequest_begin(page->request, &inclusion->sub);
    if (result != HANDLER_DONE) {
        ordered_end(inclusion->slot);
    } else if (waits) {
        result = subrequest_wait(&inclusion->sub);
    }
    page->is_dead = page->is_dead || result == HANDLER_CLOSED;
    return result != HANDLER_FAIL;
}

/* The block of stub=; NULL after an error was logged. */
static const struct ssi_block *find_stub(struct ssi_page *page, struct str name)
{
    const struct ssi_block *block = ssi_find_block(page->request, name);

    if (block == NULL) {
        log_error(&page->request->log, 0, "\"stub\"=\"%.*s\" for \"include\" not found",
                  STR_ARG(name));
    }
    return block;
}

/* ---- the command ---- */

static bool check_include(struct ssi_page *page, const struct ssi_include *include)
{
    const struct log *log = &page->request->log;

    if (include->virtual != NULL && include->file != NULL) {
        log_error(log, 0, "inclusion may be either virtual=\"%.*s\" or file=\"%.*s\"",
                  STR_ARG(*include->virtual), STR_ARG(*include->file));
        return false;
    }
    if (include->virtual == NULL && include->file == NULL) {
        log_error(log, 0, "no parameter in \"include\" SSI command");
        return false;
    }
    if (include->set != NULL && include->stub != NULL) {
        log_error(log, 0,
                  "\"set\" and \"stub\" cannot be used together in \"include\" SSI command");
        return false;
    }
    if (include->wait != NULL && !str_is(*include->wait, "yes") && !str_is(*include->wait, "no")) {
        log_error(log, 0, "invalid value \"%.*s\" in the \"wait\" parameter",
                  STR_ARG(*include->wait));
        return false;
    }
    return true;
}

bool ssi_include(struct ssi_page *page, const struct ssi_include *include)
{
    struct subrequest sub = {.output = SUBREQUEST_INLINE,
                             .passes_body = page->request->incoming.body != NULL};
    const struct ssi_block *block = NULL;

    if (!check_include(page, include) ||
        !read_target(page->request, include->virtual != NULL ? *include->virtual : *include->file,
                     &sub)) {
        return false;
    }
    ssi_output_flush(page, false, false);
    if (page->is_dead) {
        return true;
    }
    if (include->set != NULL) {
        return include_in_variable(page, &sub, *include->set);
    }
    if (include->stub != NULL && (block = find_stub(page, *include->stub)) == NULL) {
        return false;
    }
    return include_in_page(page, &sub, block,
                           include->wait != NULL && str_is(*include->wait, "yes"));
}
