/* dyups_interface: GET /list, /detail and /upstream/NAME; POST and DELETE /upstream/NAME. */
#include "base/buf.h"
#include "http/modules/backends/dyups/dyups.h"
#include "http/modules/backends/dyups/store.h"
#include "http/request/body.h"
#include "http/request/response.h"
#include "server/process/cells.h"
#include "upstream/peer.h"

static enum handler_result answer_text(struct request *request, unsigned status, struct str text)
{
    return response_memory(request, status, STR("text/plain"), text);
}

/* ---- pages ---- */

static void put_peers(struct buf *out, const struct peer_set *set, bool is_detailed)
{
    for (unsigned i = 0; i < set->count; i++) {
        const struct peer *peer = &set->peers[i];
        const struct upstream_server *server = peer->server;

        buf_printf(out, "server %.*s", STR_ARG(peer->name));
        if (is_detailed) {
            buf_printf(out,
                       " weight=%u max_conns=%u max_fails=%u fail_timeout=%llu backup=%d down=%d",
                       peer->weight, server->max_conns, server->max_fails,
                       (unsigned long long) server->fail_timeout_ms / 1000, server->is_backup,
                       peer_is_down(peer));
        }
        buf_append_char(out, '\n');
    }
}

static void put_group(struct buf *out, const struct upstream_group *group, bool is_detailed)
{
    if (group->peers != NULL) {
        put_peers(out, &group->peers->primary, is_detailed);
        put_peers(out, &group->peers->backup, is_detailed);
    }
}

/* A page about all groups. */
struct page {
    struct buf text;
    bool is_detailed;
};

static void put_entry(struct upstream_group *group, void *arg)
{
    struct page *page = arg;

    buf_printf(&page->text, "%.*s\n", STR_ARG(group->name));
    if (page->is_detailed) {
        put_group(&page->text, group, true);
        buf_append_char(&page->text, '\n');
    }
}

static struct upstream_set *http_set(void)
{
    return upstream_set_of(&generation_now->conf, &upstream_http);
}

static enum handler_result answer_page(struct request *request, bool is_detailed)
{
    struct page page = {.is_detailed = is_detailed};
    struct upstream_group *changed;

    vec_each(struct upstream_group *, group, &http_set()->groups) {
        if (!(*group)->is_implicit && !dyups_find((*group)->name, &changed)) {
            put_entry(*group, &page);
        }
    }
    dyups_each(put_entry, &page);
    if (page.text.len == 0) {
        buf_free(&page.text);
        return answer_text(request, 204, STR(""));
    }
    return response_gathered(request, 200, STR("text/plain"), &page.text);
}

/* The current group of that name; NULL: there is none. */
static struct upstream_group *group_of(struct str name)
{
    struct upstream_group *group = NULL;

    return dyups_find(name, &group) ? group : map_get_nocase(&http_set()->blocks, name);
}

static enum handler_result answer_group(struct request *request, struct str name)
{
    const struct upstream_group *group = group_of(name);
    struct buf text = {0};

    if (group == NULL) {
        return answer_text(request, 404, STR(""));
    }
    put_group(&text, group, false);
    return response_gathered(request, 200, STR("text/plain"), &text);
}

/* ---- changes ---- */

/* Sets the result of a change: a status, and a word that existing scripts look for. */
static unsigned dyups_interface_refuse(const struct log *log, struct str name, struct str why,
                                       struct str *said)
{
    log_error(log, 0, "dyups: upstream \"%.*s\" is not taken: %.*s", STR_ARG(name), STR_ARG(why));
    *said = STR("add server failed");
    return 500;
}

static unsigned dyups_interface_put(const struct dyups_entry *entry, const struct log *log,
                                    struct str *said)
{
    if (!store_put(dyups_now->zone, entry)) {
        counters_mine->limited++;
        return dyups_interface_refuse(log, entry->name, STR("dyups_shm_zone_size is too small"),
                                      said);
    }
    dyups_sync();
    dyups_table_note(entry->name);
    *said = STR("success");
    return 200;
}

static unsigned update(struct str name, struct str text, const struct log *log, struct str *said)
{
    const struct dyups_entry entry = {.name = name, .text = text};
    struct buf why = {0};

    if (name.len == 0 || name.len > DYUPS_NAME_MAX) {
        return dyups_interface_refuse(log, name, STR("the name is empty or too long"), said);
    }
    if (!dyups_check(name, text, &why)) {
        dyups_interface_refuse(log, name, buf_str(&why), said);
        buf_free(&why);
        return 500;
    }
    return dyups_interface_put(&entry, log, said);
}

static unsigned delete (struct str name, const struct log *log, struct str *said)
{
    const struct dyups_entry entry = {.name = name, .is_gone = true};

    if (group_of(name) == NULL) {
        *said = STR("not found uptream");
        return 404;
    }
    return dyups_interface_put(&entry, log, said);
}

unsigned dyups_change(struct str name, const struct str *text, const struct log *log,
                      struct str *said)
{
    dyups_sync();
    return text == NULL ? delete (name, log, said) : update(name, *text, log, said);
}

static enum handler_result answer_change(struct request *request, struct str name,
                                         const struct str *text)
{
    struct str said;
    unsigned status = dyups_change(name, text, &request->log, &said);

    return answer_text(request, status, said);
}

static enum handler_result answer_update(struct request *request, struct str name)
{
    enum handler_result result = request_read_body(request);
    struct str text;

    if (result != HANDLER_NEXT) {
        return result;
    }
    if (dyups_now == NULL) {
        return request_fail(request, 503); /* the worker has ended meanwhile */
    }
    if (request->incoming.body->size >
        dyups_now->zone_size) { /* too large, so it need not be read from the file */
        struct str said;

        counters_mine->limited++;
        dyups_interface_refuse(&request->log, name,
                               STR("the body is larger than dyups_shm_zone_size"), &said);
        return answer_text(request, 500, said);
    }
    return request_body_text(request, &text) ? answer_change(request, name, &text)
                                             : request_fail(request, 500);
}

/* ---- the handler ---- */

enum handler_result dyups_answer(struct request *request)
{
    const struct str upstream = STR("/upstream/");
    struct str uri = request->uri;
    struct str name = str_starts(uri, upstream) ? str_skip(uri, upstream.len) : STR("");
    bool is_named = name.len != 0 && name.len <= DYUPS_NAME_MAX;

    if (dyups_now == NULL) {
        return request_fail(request, 503); /* the worker ends */
    }
    switch (request->method) {
    case METHOD_GET:
        dyups_sync();
        if (str_is(uri, "/list") || str_is(uri, "/detail")) {
            return answer_page(request, str_is(uri, "/detail"));
        }
        return is_named ? answer_group(request, name) : answer_text(request, 404, STR(""));
    case METHOD_POST:
        return is_named ? answer_update(request, name)
                        : answer_text(request, 404, STR("not support this interface"));
    case METHOD_DELETE:
        return is_named ? answer_change(request, name, NULL) : answer_text(request, 404, STR(""));
    default:
        return answer_text(request, 405, STR(""));
    }
}
