/* The servers of groups as they change while the service runs: kept in shared memory, used by each
 * worker. */
#include "upstream/servers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "base/shm.h"
#include "upstream/discovery/discovery.h"
#include "upstream/private.h"

enum {
    DEFAULT_FAIL_TIMEOUT_MS = 10000,
    LINE = 64,         /* bytes: lists begin at multiples of it */
    AS_CONFIGURED = 2, /* server_record.current */
};

/* One server, in shared memory; its strings follow the last one. */
struct stored_server {
    uint64_t fail_timeout_ms, slow_start_ms;
    uint32_t id, weight, max_conns, max_fails;
    uint16_t address_length, service_length, route_length, label_length;
    bool is_backup, is_down, is_draining, wants_resolve;
};

struct stored_list {
    uint32_t count;
    struct stored_server servers[];
};

/* What holds of one group. Its room is its own, so that neither other groups nor what was there
 * before can be in the way. */
struct server_record {
    _Atomic uint64_t version; /* raised before `current` changes: a worker may be killed between */
    _Atomic uint64_t file_version;
    _Atomic uint64_t tried_version;
    uint32_t next_id;
    bool is_handed_over; /* the next generation has read the state file: it changes no more */
    uint32_t current; /* which of the two lists holds, or AS_CONFIGURED; a change is written to the
                         other one */
    size_t lists;     /* where they are, in bytes from the start of the mapping */
    size_t room;      /* bytes of each */
    size_t queue; /* where the struct servers_queue is, in bytes from the start of the mapping */
};

/* The start of the mapping. */
struct server_records {
    struct shm_lock lock;      /* over the records */
    struct shm_lock file_lock; /* over the files of all groups: taken by threads */
    size_t size;               /* of the mapping */
    struct server_record records[];
};

struct server_table {
    unsigned uses;       /* peer lists, and the group: the cells are needed */
    unsigned references; /* watches, and 1 while there are uses: the servers are */
    struct upstream_group *group;
    struct arena arena;
    struct vec servers; /* struct upstream_server * */
};

/* ---- addresses ---- */

void upstream_server_init(struct upstream_server *server, struct str written)
{
    memset(server, 0, sizeof(*server));
    server->written = written;
    server->weight = 1;
    server->max_fails = 1;
    server->fail_timeout_ms = DEFAULT_FAIL_TIMEOUT_MS;
}

/* Is it "name" or "name:port", where the name has to be looked up? */
static bool is_name(struct str text, struct str host)
{
    struct addr addr;

    return text.len != 0 && host.len != 0 && text.data[0] != '[' &&
           !str_starts_nocase(text, STR("unix:")) && str_find_char(text, '/') == NULL &&
           str_find_char(host, ':') == NULL && !addr_parse_ip(host, &addr);
}

bool server_address_is_name(struct str address)
{
    struct str host;
    uint16_t port = 0;

    addr_split_port(address, &host, &port);
    return is_name(address, host);
}

const char *upstream_server_parse(struct arena *arena, uint16_t default_port,
                                  struct upstream_server *server)
{
    struct str text = server->written;
    struct addr_list list;
    uint16_t port = 0;

    if (discovery_is_name(text)) {
        return "a service of a discovery, which only the configuration may name,";
    }
    bool has_sound_port = addr_split_port(text, &server->host, &port);

    if (is_name(text, server->host)) {
        if (!has_sound_port) {
            return "invalid port";
        }
        server->port = port != 0 ? port : default_port;
        server->resolves = true; /* until upstream_finish knows better */
    } else {
        if (!addr_parse(arena, text, default_port, false, &list)) {
            return list.error;
        }
        server->addresses = list;
        server->host = list.host;
        server->port = addr_port(&list.items[0]);
    }
    /* Records of a service tell the port. */
    return server->port == 0 && server->service.len == 0 && !str_starts_nocase(text, STR("unix:"))
               ? "no port"
               : NULL;
}

/* ---- shared memory ---- */

bool servers_may_change(const struct upstream_group *group)
{
    return group->record != NULL;
}

static void records_free(void *arg)
{
    struct server_records *records = arg;

    shm_unmap(records, records->size);
}

static size_t stored_size(const struct vec *entries)
{
    size_t size = sizeof(struct stored_list) + entries->count * sizeof(struct stored_server);

    vec_each(const struct server_entry, entry, entries) {
        size += entry->address.len + entry->service.len + entry->route.len + entry->label.len;
    }
    return size;
}

static struct server_entry entry_of_server(const struct upstream_server *server)
{
    return (struct server_entry){
        .id = server->index,
        .address = server->written,
        .service = server->service,
        .route = server->route,
        .label = server->id,
        .weight = server->weight,
        .max_conns = server->max_conns,
        .max_fails = server->max_fails,
        .fail_timeout_ms = server->fail_timeout_ms,
        .slow_start_ms = server->slow_start_ms,
        .is_backup = server->is_backup,
        .is_down = server->is_down,
        .is_draining = server->is_draining,
        .wants_resolve = server->wants_resolve,
    };
}

static void add_configured(const struct vec *servers, struct arena *arena, struct vec *entries)
{
    vec_each(struct upstream_server *, server, servers) {
        *vec_add(entries, arena, struct server_entry) = entry_of_server(*server);
    }
}

/* Bytes for a list of the group: those of its zone, but never so few that a configured server could
 * not go. */
static size_t room_of(const struct upstream_group *group)
{
    struct vec entries = {0};
    struct arena arena;

    arena_init(&arena);
    add_configured(&group->servers, &arena, &entries);
    size_t room = stored_size(&entries);
    arena_free(&arena);
    room = room < group->zone_size ? group->zone_size : room;
    return (room + LINE - 1) & ~(size_t) (LINE - 1);
}

static size_t queue_size(unsigned slots)
{
    size_t size = sizeof(struct servers_queue) + slots * sizeof(uint32_t);

    return (size + LINE - 1) & ~(size_t) (LINE - 1);
}

static struct servers_queue *queue_at(struct server_records *records,
                                      const struct server_record *record)
{
    return (void *) ((char *) records + record->queue);
}

bool servers_lay_out(struct conf *conf, struct upstream_set *set)
{
    unsigned slots = cells_slots(conf);
    size_t head = sizeof(struct server_records) + set->groups.count * sizeof(struct server_record);
    size_t size = head = (head + LINE - 1) & ~(size_t) (LINE - 1);

    vec_each(struct upstream_group *, group, &set->groups) {
        size += (*group)->zone_size == 0 ? 0 : 2 * room_of(*group) + queue_size(slots);
    }
    if (size == head || conf->is_later) {
        return true;
    }
    struct server_records *records = shm_map(size);
    if (records == NULL) {
        return conf_errno(conf, NULL, errno, "mmap(%zu) failed", size);
    }
    records->size = size;
    shm_lock_init(&records->lock);
    shm_lock_init(&records->file_lock);
    arena_on_free(conf->arena, records_free, records);
    set->records = records;
    servers_may_be_handed_over(conf, set);
    size = head;
    vec_each(struct upstream_group *, group, &set->groups) {
        if ((*group)->zone_size != 0) {
            struct server_record *record = &records->records[(*group)->number];

            record->next_id = (uint32_t) (*group)->servers.count;
            record->current = AS_CONFIGURED;
            record->lists = size;
            record->room = room_of(*group);
            size += 2 * record->room;
            record->queue = size;
            queue_at(records, record)->slots = slots;
            size += queue_size(slots);
            (*group)->record = record;
        }
    }
    return true;
}

static struct server_records *records_of(const struct upstream_group *group)
{
    return group->set->records;
}

uint64_t servers_version(const struct upstream_group *group)
{
    return atomic_load_explicit(&group->record->version, memory_order_acquire);
}

struct shm_lock *servers_file_lock(const struct upstream_group *group)
{
    return &records_of(group)->file_lock;
}

struct servers_queue *servers_queue_of(const struct upstream_group *group)
{
    return group->record == NULL ? NULL : queue_at(records_of(group), group->record);
}

uint32_t servers_queue_waiting(const struct servers_queue *queue)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < queue->slots; i++) {
        sum += atomic_load_explicit(&queue->waiting[i], memory_order_relaxed);
    }
    return sum;
}

void servers_worker_start(const struct upstream_set *set)
{
    vec_each(struct upstream_group *, group, &set->groups) {
        struct servers_queue *queue = servers_queue_of(*group);

        if (queue != NULL) {
            atomic_store(servers_queue_mine(queue), 0);
        }
    }
}

_Atomic uint64_t *servers_file_version(const struct upstream_group *group)
{
    return &group->record->file_version;
}

_Atomic uint64_t *servers_tried_version(const struct upstream_group *group)
{
    return &group->record->tried_version;
}

/* One of the two lists of a group. */
static struct stored_list *list_at(struct server_records *records,
                                   const struct server_record *record, uint32_t number)
{
    return (void *) ((char *) records + record->lists + number * record->room);
}

/* ---- reading ---- */

static struct str take_bytes(struct arena *arena, const char **at, size_t length)
{
    struct str copy = arena_dup(arena, (struct str){*at, length});

    *at += length;
    return copy;
}

static void read_stored(const struct stored_list *list, struct arena *arena, struct vec *entries)
{
    const char *at = (const char *) &list->servers[list->count];

    for (uint32_t i = 0; i < list->count; i++) {
        const struct stored_server *from = &list->servers[i];
        struct server_entry *entry = vec_add(entries, arena, struct server_entry);

        *entry = (struct server_entry){
            .id = from->id,
            .weight = from->weight,
            .max_conns = from->max_conns,
            .max_fails = from->max_fails,
            .fail_timeout_ms = from->fail_timeout_ms,
            .slow_start_ms = from->slow_start_ms,
            .is_backup = from->is_backup,
            .is_down = from->is_down,
            .is_draining = from->is_draining,
            .wants_resolve = from->wants_resolve,
        };
        entry->address = take_bytes(arena, &at, from->address_length);
        entry->service = take_bytes(arena, &at, from->service_length);
        entry->route = take_bytes(arena, &at, from->route_length);
        entry->label = take_bytes(arena, &at, from->label_length);
    }
}

void servers_read(struct upstream_group *group, struct arena *arena, struct servers_list *out)
{
    struct server_records *records = records_of(group);
    struct server_record *record = group->record;

    *out = (struct servers_list){0};
    shm_lock_take(&records->lock); /* a list is whole before it is current */
    out->version = record->version;
    out->next_id = record->next_id;
    bool is_configured = record->current == AS_CONFIGURED;
    if (!is_configured) {
        read_stored(list_at(records, record, record->current), arena, &out->entries);
    }
    shm_lock_release(&records->lock);
    if (is_configured) {
        add_configured(&group->worker_state->configured, arena, &out->entries);
    }
}

/* ---- writing ---- */

static void store(struct stored_list *list, const struct vec *entries)
{
    char *at = (char *) &list->servers[entries->count];

    list->count = 0;
    vec_each(const struct server_entry, entry, entries) {
        list->servers[list->count++] = (struct stored_server){
            .fail_timeout_ms = entry->fail_timeout_ms,
            .slow_start_ms = entry->slow_start_ms,
            .id = entry->id,
            .weight = entry->weight,
            .max_conns = entry->max_conns,
            .max_fails = entry->max_fails,
            .address_length = (uint16_t) entry->address.len,
            .service_length = (uint16_t) entry->service.len,
            .route_length = (uint16_t) entry->route.len,
            .label_length = (uint16_t) entry->label.len,
            .is_backup = entry->is_backup,
            .is_down = entry->is_down,
            .is_draining = entry->is_draining,
            .wants_resolve = entry->wants_resolve,
        };
        at = str_put(at, entry->address);
        at = str_put(at, entry->service);
        at = str_put(at, entry->route);
        at = str_put(at, entry->label);
    }
}

enum servers_result servers_write(struct upstream_group *group, const struct servers_list *list)
{
    struct server_records *records = records_of(group);
    struct server_record *record = group->record;

    if (list->entries.count > SERVERS_MOST || stored_size(&list->entries) > record->room) {
        return SERVERS_FULL;
    }
    shm_lock_take(&records->lock);
    bool has_moved = record->version != list->version;
    bool is_handed_over = record->is_handed_over;
    if (!has_moved && !is_handed_over) {
        uint32_t other = record->current == 0;

        store(list_at(records, record, other), &list->entries);
        record->next_id = list->next_id;
        atomic_store_explicit(&record->version, list->version + 1, memory_order_release);
        record->current = other;
    }
    shm_lock_release(&records->lock);
    if (is_handed_over) {
        return SERVERS_HANDED_OVER;
    }
    if (!has_moved) {
        servers_sync(group);
    }
    return has_moved ? SERVERS_MOVED : SERVERS_DONE;
}

uint64_t servers_set_handed_over(const struct upstream_group *group, bool is_handed_over)
{
    struct server_records *records = records_of(group);

    shm_lock_take(&records->lock);
    group->record->is_handed_over = is_handed_over;
    uint64_t version = group->record->version;
    shm_lock_release(&records->lock);
    return version;
}

/* ---- tables ---- */

/* The server of the configuration that this still is, but for its parameters; NULL: it is none. */
static const struct upstream_server *find_configured(const struct upstream_group *group,
                                                     const struct server_entry *entry)
{
    const struct vec *servers = &group->worker_state->configured;

    if (entry->id >= servers->count) {
        return NULL;
    }
    const struct upstream_server *server = *vec_at(servers, struct upstream_server *, entry->id);
    return str_equal(server->written, entry->address) && str_equal(server->service, entry->service)
               ? server
               : NULL;
}

/* A server of an entry; NULL, and *error: its address is wrong. */
static struct upstream_server *make_server(const struct upstream_group *group,
                                           const struct server_entry *entry, struct arena *arena,
                                           const char **error)
{
    const struct upstream_server *configured = find_configured(group, entry);
    struct upstream_server *server = arena_new(arena, struct upstream_server);

    *error = NULL;
    if (configured != NULL) {
        *server = *configured;
    } else {
        server->written = entry->address;
        server->service = entry->service;
        *error = upstream_server_parse(arena, group->default_port, server);
        server->wants_resolve = server->resolves;
    }
    server->index = entry->id;
    server->route = entry->route;
    server->id = entry->label;
    server->weight = entry->weight;
    server->max_conns = entry->max_conns;
    server->max_fails = entry->max_fails;
    server->fail_timeout_ms = entry->fail_timeout_ms;
    server->slow_start_ms = entry->slow_start_ms;
    server->is_backup = entry->is_backup;
    server->is_down = entry->is_down;
    server->is_draining = entry->is_draining;
    return *error == NULL ? server : NULL;
}

const char *servers_check(const struct upstream_group *group, const struct server_entry *entry,
                          struct arena *arena)
{
    const char *error;

    make_server(group, entry, arena, &error);
    return error;
}

static void claim_cells(struct server_table *table, struct upstream_server *server)
{
    server->cells = arena_array(&table->arena, server->addresses.count, sizeof(struct peer_cell *));
    for (size_t i = 0; i < server->addresses.count; i++) {
        struct known_address address = {.addr = server->addresses.items[i]};

        for (size_t j = 0; j < i; j++) {
            address.nth += addr_equal(&server->addresses.items[j], &address.addr);
        }
        cell_claim(table->group, server, &address);
        server->cells[i] = address.cell;
    }
}

/* The server of this number in a table; NULL: none. *at: where to look, for numbers that rise from
 * call to call. */
static const struct upstream_server *find_former(const struct server_table *table, uint32_t number,
                                                 size_t *at)
{
    for (; table != NULL && *at < table->servers.count; ++*at) {
        const struct upstream_server *server =
            *vec_at(&table->servers, struct upstream_server *, *at);

        if (server->index >= number) {
            return server->index == number ? server : NULL;
        }
    }
    return NULL;
}

/* A server that was there, with the same address, keeps its cells, those of this worker alone too.
 */
static bool keep_cells(struct server_table *table, struct upstream_server *server,
                       const struct upstream_server *former)
{
    if (former == NULL || former->cells == NULL || !str_equal(former->written, server->written)) {
        return false;
    }
    server->cells = arena_array(&table->arena, server->addresses.count, sizeof(struct peer_cell *));
    for (size_t i = 0; i < server->addresses.count; i++) {
        server->cells[i] = former->cells[i];
        cell_hold(server->cells[i], cell_local(table->group, server->cells[i]));
    }
    return true;
}

static struct server_table *table_new(struct upstream_group *group, uint64_t *version)
{
    const struct server_table *former = group->worker_state->table;
    size_t at = 0;
    struct server_table *table = calloc(1, sizeof(*table));
    struct servers_list list;

    if (table == NULL) {
        fatal_no_memory(sizeof(*table));
    }
    table->uses = table->references = 1;
    table->group = group;
    arena_init(&table->arena);
    servers_read(group, &table->arena, &list);
    *version = list.version;
    vec_each(const struct server_entry, entry, &list.entries) {
        const char *error;
        struct upstream_server *server = make_server(group, entry, &table->arena, &error);

        if (server == NULL) {
            continue; /* who wrote it has checked it */
        }
        if (!server->resolves && find_configured(group, entry) == NULL &&
            !keep_cells(table, server, find_former(former, server->index, &at))) {
            claim_cells(table, server);
        }
        *vec_add(&table->servers, &table->arena, struct upstream_server *) = server;
    }
    return table;
}

void server_table_pin(struct server_table *table)
{
    if (table != NULL) {
        table->references++;
    }
}

void server_table_unpin(struct server_table *table)
{
    if (table != NULL && --table->references == 0) {
        arena_free(&table->arena);
        free(table);
    }
}

void server_table_hold(struct server_table *table)
{
    table->uses++;
}

void server_table_release(struct server_table *table)
{
    if (table == NULL || --table->uses != 0) {
        return;
    }
    vec_each(struct upstream_server *, server, &table->servers) {
        for (size_t i = 0; (*server)->cells != NULL && i < (*server)->addresses.count; i++) {
            struct peer_cell *cell = (*server)->cells[i];

            cell_release(cell, cell_local(table->group, cell));
        }
    }
    server_table_unpin(table);
}

/* ---- in a worker ---- */

bool servers_have_changed(const struct upstream_group *group)
{
    return servers_version(group) != group->worker_state->servers_version;
}

size_t servers_size(struct upstream_group *group)
{
    struct servers_list list;
    struct arena arena;

    if (group->record == NULL) {
        return 0;
    }
    arena_init(&arena);
    servers_read(group, &arena, &list);
    size_t size = stored_size(&list.entries);
    arena_free(&arena);
    return size;
}

void servers_sync(struct upstream_group *group)
{
    struct group_state *state = group->worker_state;

    if (group->record == NULL || state == NULL || !servers_have_changed(group)) {
        return;
    }
    struct server_table *former = state->table;
    state->table = table_new(group, &state->servers_version);
    group->servers = state->table->servers;
    watch_renew(group);
    peers_renew(group);
    server_table_release(former);
}
