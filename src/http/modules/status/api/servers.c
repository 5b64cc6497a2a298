/* Servers of upstream groups: shows and changes them: "/http/upstreams/NAME/servers[/ID]". */
#include "upstream/servers.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/parse.h"
#include "http/modules/status/api/api.h"
#include "http/modules/status/api/change.h"
#include "http/request/response.h"
#include "server/generation.h"
#include "shared/upstream/servers_sync.h"
#include "upstream/peer.h"

enum {
    BODY_MOST = 64 << 10, /* bytes of a server as JSON */
    ATTEMPTS_MOST = 1000, /* attempts of a change that conflicts with other changes */
    DRAIN_SINCE = 2,      /* the first version of the API with `drain` */
};

static enum handler_result refuse(struct request *request, const struct refusal *refusal)
{
    return api_refuse(request, refusal->status, refusal->code, refusal->text);
}

/* ---- output ---- */

static void put_time(struct json *json, const char *name, uint64_t ms)
{
    char text[32];
    bool is_whole = ms % 1000 == 0;
    int length = snprintf(text, sizeof(text), "%llu%s",
                          (unsigned long long) (is_whole ? ms / 1000 : ms), is_whole ? "s" : "ms");

    json_put_string(json, name, (struct str){text, (size_t) length});
}

static void put_entry(struct json *json, const struct server_entry *entry,
                      const struct server_form *form)
{
    json_put_number(json, "id", entry->id);
    json_put_string(json, "server", entry->address);
    if (entry->service.len != 0) {
        json_put_string(json, "service", entry->service);
    }
    json_put_number(json, "weight", entry->weight);
    json_put_number(json, "max_conns", entry->max_conns);
    json_put_number(json, "max_fails", entry->max_fails);
    put_time(json, "fail_timeout", entry->fail_timeout_ms);
    put_time(json, "slow_start", entry->slow_start_ms);
    if (!form->is_stream) {
        json_put_string(json, "route", entry->route);
    }
    json_put_flag(json, "backup", entry->is_backup);
    json_put_flag(json, "down", entry->is_down);
    if (entry->is_draining && form->has_drain) {
        json_put_flag(json, "drain", true);
    }
    if (server_address_is_name(entry->address)) {
        json_put_string(json, "host", entry->address);
    }
}

static struct server_form form_of(const struct request *request, const struct upstream_group *group)
{
    return (struct server_form){.is_stream = group->set->subsystem == &upstream_stream,
                                .has_drain = api_version(request) >= DRAIN_SINCE};
}

static void show_entry(struct json *json, const struct server_form *form,
                       const struct server_entry *entry)
{
    json_open(json, STR_NONE, '{');
    put_entry(json, entry, form);
    json_close(json, '}');
}

/* The addresses of a name: servers derived from another one. */
static void show_children(struct json *json, const struct server_form *form,
                          const struct peer_set *set)
{
    for (unsigned i = 0; i < set->count; i++) {
        const struct peer *peer = &set->peers[i];
        struct arena *arena = json->arena;

        if (!peer->server->resolves) {
            continue;
        }
        struct server_entry entry = {
            .id = (uint32_t) api_peer_id(peer),
            .address = peer->name,
            .route = peer->server->route,
            .weight = peer->weight,
            .max_conns = peer->server->max_conns,
            .max_fails = peer->server->max_fails,
            .fail_timeout_ms = peer->server->fail_timeout_ms,
            .slow_start_ms = peer->server->slow_start_ms,
            .is_backup = peer->server->is_backup,
            .is_down = peer_is_down(peer),
            .is_draining = peer->server->is_draining,
        };
        json_open(json, STR_NONE, '{');
        put_entry(json, &entry, form);
        json_put_string(json, "parent", arena_printf(arena, "%u", peer->server->index));
        json_put_string(json, "host", peer->server->written);
        json_close(json, '}');
    }
}

static enum handler_result answer_list(struct request *request, struct upstream_group *group)
{
    const struct server_form form = form_of(request, group);
    struct servers_list list;
    struct buf out = {0};
    struct json json = {.out = &out, .arena = &request->arena};

    servers_sync(group);
    servers_read(group, &request->arena, &list);
    json_open(&json, STR_NONE, '[');
    vec_each(const struct server_entry, entry, &list.entries) {
        show_entry(&json, &form, entry);
    }
    if (group->peers != NULL) {
        show_children(&json, &form, &group->peers->primary);
        show_children(&json, &form, &group->peers->backup);
    }
    json_close(&json, ']');
    return api_answer_text(request, 200, &out);
}

static enum handler_result answer_entry(struct request *request, const struct upstream_group *group,
                                        unsigned status, const struct server_entry *entry)
{
    const struct server_form form = form_of(request, group);
    struct buf out = {0};
    struct json json = {.out = &out, .arena = &request->arena};

    show_entry(&json, &form, entry);
    return api_answer_text(request, status, &out);
}

/* Can it be a server of the group? NULL, or an error. */
static const struct refusal *check_entry(struct request *request,
                                         const struct upstream_group *group,
                                         const struct server_entry *entry, bool has_new_address)
{
    static const struct refusal bad_address = {400, "UpstreamBadAddress",
                                               "invalid address in \"server\""};
    static const struct refusal no_resolver = {400, "UpstreamConfNoResolver",
                                               "no resolver defined to resolve names at run time"};
    static const struct refusal no_backup = {400, "UpstreamNoBackup",
                                             "the balancing method does not support \"backup\""};
    static const struct refusal no_slow_start =
        {400, "UpstreamBadSlowStart", "the balancing method does not support \"slow_start\""};
    static const struct refusal bad_service = {400, "UpstreamBadService",
                                               "\"service\" needs a name without port"};
    bool is_name = server_address_is_name(entry->address);

    if (servers_check(group, entry, &request->arena) != NULL) {
        return &bad_address;
    }
    if (has_new_address && is_name && group->resolver == NULL) {
        return &no_resolver;
    }
    if (entry->service.len != 0 && (!is_name || str_find_char(entry->address, ':') != NULL)) {
        return &bad_service;
    }
    if (group->balancer->refuses_backup && entry->is_backup) {
        return &no_backup;
    }
    return group->balancer->refuses_backup && entry->slow_start_ms != 0 ? &no_slow_start : NULL;
}

/* ---- changes ---- */

static struct server_entry *find_entry(const struct servers_list *list, uint64_t id)
{
    vec_each(struct server_entry, entry, &list->entries) {
        if (entry->id == id) {
            return entry;
        }
    }
    return NULL;
}

static bool has_twin(const struct servers_list *list, const struct server_entry *wanted)
{
    vec_each(const struct server_entry, entry, &list->entries) {
        if (entry->id != wanted->id && str_equal_nocase(entry->address, wanted->address) &&
            str_equal(entry->service, wanted->service)) {
            return true;
        }
    }
    return false;
}

/* A change of one group; its method determines the kind. */
struct work {
    struct upstream_group *group;
    uint64_t id; /* for PATCH and DELETE */
    struct server_change change;
    struct server_entry result;
};

static const struct refusal not_found = {404, "UpstreamServerNotFound",
                                         "upstream server not found"};
static const struct refusal busy = {503, "UpstreamBusy", "others change the upstream all the time"};

static const struct refusal quitting = {503, "ServerQuits",
                                        "this worker ends: send the request again"};

/* POST: adds a server. */
static const struct refusal *add_server(struct request *request, struct work *work,
                                        struct servers_list *list)
{
    static const struct refusal exists = {409, "EntryExists", "the upstream has this server"};
    static const struct refusal no_server = {400, "UpstreamConfFormatError",
                                             "\"server\" is missing"};
    struct server_entry entry = {.id = list->next_id,
                                 .weight = 1,
                                 .max_fails = 1,
                                 .fail_timeout_ms = 10000};

    if (!work->change.has_server) {
        return &no_server;
    }
    server_change_apply(&work->change, &entry);
    entry.wants_resolve = server_address_is_name(entry.address);
    const struct refusal *refusal = check_entry(request, work->group, &entry, true);
    if (refusal != NULL) {
        return refusal;
    }
    if (has_twin(list, &entry)) {
        return &exists;
    }
    *vec_add(&list->entries, &request->arena, struct server_entry) = entry;
    list->next_id++;
    work->result = entry;
    return NULL;
}

/* PATCH. */
static const struct refusal *change_server(struct request *request, struct work *work,
                                           struct servers_list *list)
{
    struct server_entry *entry = find_entry(list, work->id);

    if (entry == NULL) {
        return &not_found;
    }
    bool has_new_address =
        work->change.has_server && !str_equal(work->change.entry.address, entry->address);
    server_change_apply(&work->change, entry);
    entry->wants_resolve =
        has_new_address ? server_address_is_name(entry->address) : entry->wants_resolve;
    work->result = *entry;
    return check_entry(request, work->group, entry, has_new_address);
}

/* DELETE. */
static const struct refusal *remove_server(struct request *request, struct work *work,
                                           struct servers_list *list)
{
    struct server_entry *entry = find_entry(list, work->id);

    if (entry == NULL) {
        return &not_found;
    }
    struct server_entry *end = vec_at(&list->entries, struct server_entry, 0);
    end += list->entries.count;
    memmove(entry, entry + 1, (size_t) ((char *) end - (char *) (entry + 1)));
    list->entries.count--;
    return NULL;
}

/* A change by the API ends the effect of scripts that have set the server down or up. */
static void forget_order(const struct work *work, const struct peer_set *set)
{
    for (unsigned i = 0; work->change.has_down && i < set->count; i++) {
        if (set->peers[i].server->index == work->result.id) {
            atomic_store(&set->peers[i].cell->order, PEER_AS_CONFIGURED);
        }
    }
}

static const struct refusal *make_change(struct request *request, struct work *work)
{
    static const struct refusal full = {400, "UpstreamOutOfMemory",
                                        "no memory for another server in the zone"};

    for (unsigned i = 0; i < ATTEMPTS_MOST; i++) {
        const struct refusal *refusal;
        struct servers_list list;

        servers_read(work->group, &request->arena, &list);
        refusal = request->method == METHOD_POST    ? add_server(request, work, &list)
                  : request->method == METHOD_PATCH ? change_server(request, work, &list)
                                                    : remove_server(request, work, &list);
        if (refusal != NULL) {
            return refusal;
        }
        switch (servers_write(work->group, &list)) {
        case SERVERS_DONE:
            forget_order(work, &work->group->peers->primary);
            forget_order(work, &work->group->peers->backup);
            return NULL;
        case SERVERS_FULL:
            counters_mine->limited++;
            log_error(&request->log, 0, "api: no room for another server of upstream \"%.*s\"",
                      STR_ARG(work->group->name));
            return &full;
        case SERVERS_HANDED_OVER:
            return &quitting;
        case SERVERS_MOVED:
            break;
        }
    }
    return &busy;
}

/* Makes the change, sends it to the other nodes, and writes the state file before the response. MAY
 * WAIT. */
static enum handler_result change_group(struct request *request, const struct api_path *path,
                                        struct work *work)
{
    struct upstream_group *group = work->group;
    static const struct refusal unwritten = {500, "UpstreamStateError",
                                             "the change is made, but not in the state file"};

    if (worker_is_quitting) {
        return refuse(
            request, &quitting); /* the next generation would not have a change that is made here */
    }
    if (!servers_sync_begin(group)) {
        return request->is_cancelled ? HANDLER_CLOSED : refuse(request, &busy);
    }
    const struct refusal *refusal = make_change(request, work);
    servers_sync_end(group, refusal == NULL);
    if (refusal != NULL) {
        return refuse(request, refusal);
    }
    log_notice(&request->log, 0, "api: servers of upstream \"%.*s\" were changed",
               STR_ARG(group->name));
    if (!servers_save(group, &request->log)) {
        return request->is_cancelled ? HANDLER_CLOSED : refuse(request, &unwritten);
    }
    if (request->method == METHOD_DELETE) {
        return answer_list(request, group);
    }
    if (request->method == METHOD_PATCH) {
        return answer_entry(request, group, 200, &work->result);
    }
    struct str location =
        arena_printf(&request->arena, "%.*s%s%u", STR_ARG(request->uri),
                     str_ends(request->uri, STR("/")) ? "" : "/", work->result.id);
    fields_add(&request->response.fields, &request->arena, STR("Location"), location);
    return answer_entry(request, group, 201, &work->result);
}

/* ---- requests ---- */

static enum handler_result answer_server(struct request *request, const struct api_path *path,
                                         struct work *work)
{
    static const struct refusal bad_id = {400, "UpstreamBadServerId", "invalid server id"};
    static const struct refusal immutable =
        {400, "UpstreamServerImmutable", "an address of a name: change the server with the name"};
    struct servers_list list;

    if (!parse_uint(path->id, &work->id) || work->id > UINT32_MAX) {
        return refuse(request, &bad_id);
    }
    servers_sync(work->group);
    servers_read(work->group, &request->arena, &list);
    const struct server_entry *entry = find_entry(&list, work->id);
    if (entry == NULL) {
        return refuse(request,
                      work->id >= 0x40000000 && !api_is_read(request) ? &immutable : &not_found);
    }
    if (api_is_read(request)) {
        return answer_entry(request, work->group, 200, entry);
    }
    return request->method == METHOD_POST ? api_refuse_method(request)
                                          : change_group(request, path, work);
}

/* Reads the body of POST and PATCH. HANDLER_NEXT: it is in work->change. MAY WAIT. */
static enum handler_result read_body(struct request *request, struct work *work)
{
    struct str body;
    enum handler_result result = api_read_body(request, BODY_MOST, &body);

    if (result == HANDLER_NEXT) {
        const struct server_form form = form_of(request, work->group);
        const struct refusal *refusal =
            server_change_read(body, &form, &request->arena, &work->change);
        return refusal == NULL ? HANDLER_NEXT : refuse(request, refusal);
    }
    return result;
}

enum handler_result api_answer_servers(struct request *request, const struct api_path *path)
{
    static const struct refusal unknown = {404, "UpstreamNotFound", "upstream not found"};
    static const struct refusal is_static = {400, "UpstreamStatic",
                                             "upstream is static: it has no \"zone\""};
    struct work work = {.group = api_find_group(path->root, path->name)};

    if (!str_is(path->more, "servers")) {
        return api_refuse_path(request);
    }
    if (work.group == NULL) {
        return refuse(request, &unknown);
    }
    if (!servers_may_change(work.group)) {
        return refuse(request, &is_static);
    }
    if ((request->method & (METHOD_POST | METHOD_PATCH)) != 0) {
        enum handler_result result = read_body(request, &work);
        if (result != HANDLER_NEXT) {
            return result;
        }
    }
    if (path->id.len != 0) {
        return answer_server(request, path, &work);
    }
    if (api_is_read(request)) {
        return answer_list(request, work.group);
    }
    return request->method == METHOD_POST ? change_group(request, path, &work)
                                          : api_refuse_method(request);
}
