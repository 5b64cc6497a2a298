/* The shared memory of a generation's peers: a cell for each address, and spare ones for addresses
 * that are found at run time. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "base/shm.h"
#include "upstream/health.h"
#include "upstream/private.h"
#include "upstream/servers.h"

enum {
    LINE = 64,                /* bytes of a cache line */
    SPARES = 64,              /* spare cells of a set that watches names */
    SPARES_EACH = 4,          /* more spare cells for each watched name */
    SPARES_DISCOVERED = 1024, /* more spare cells for each service of a discovery */
    SPARES_ZONE = 1024,       /* at most so many more that a group's zone pays for */
    TARGET_MAX = 255,         /* bytes of a name in the DNS */
    ADDRESS_KEY_MAX = ADDR_TEXT_MAX,
};

/* A cell and what it is about. */
struct cell_entry {
    uint32_t group, server; /* numbers in the set and in the group */
    bool is_taken;          /* an address has it; static ones always */
    bool is_known;          /* of a watched name, which had this address when it was asked last */
    uint16_t priority, weight; /* of an SRV record */
    uint16_t nth;              /* see struct known_address */
    uint16_t target_length;
    char target[TARGET_MAX];
    struct addr addr;
    _Alignas(LINE) struct peer_cell cell;
};

/* The start of the mapping. */
struct cell_head {
    struct shm_lock lock;  /* over who has the spare cells, and what they are about */
    _Atomic uint32_t used; /* entries that were ever taken: the others have no memory yet */
    uint32_t slots;        /* entries of use in each cell */
};

struct cell_memory {
    struct cell_memory *next; /* older ones that are not freed yet */
    struct upstream_set *set;
    void *base;     /* mapped: struct cell_head, then entries */
    size_t size;    /* of the mapping */
    size_t stride;  /* bytes of an entry */
    unsigned fixed; /* entries of addresses that the configuration gave; the first ones */
    unsigned count; /* of all entries */
    struct peer_local *locals; /* in a worker: by number of the cell */
    bool was_full;             /* was logged */
};

/* A cell of this worker alone. */
struct private_cell {
    struct peer_local local;
    _Alignas(LINE) struct peer_cell cell; /* with one entry of use */
};

/* Those of all generations that live in this process, newest first: a reading that fails takes its
 * own away again. */
static struct cell_memory *memories;

static size_t round_up(size_t n)
{
    return (n + LINE - 1) & ~(size_t) (LINE - 1);
}

static size_t cell_size(unsigned slots)
{
    return sizeof(struct peer_cell) + slots * sizeof(struct peer_use);
}

static struct cell_entry *entry_at(const struct cell_memory *memory, unsigned number)
{
    return (void *) ((char *) memory->base + round_up(sizeof(struct cell_head)) +
                     number * memory->stride);
}

static struct cell_head *head_of(const struct cell_memory *memory)
{
    return memory->base;
}

static struct shm_lock *lock_of(const struct cell_memory *memory)
{
    return &head_of(memory)->lock;
}

static unsigned used_of(const struct cell_memory *memory)
{
    return atomic_load_explicit(&head_of(memory)->used, memory_order_acquire);
}

/* The next entry that nobody has ever had; NULL: there is none. Under the lock, or before there are
 * workers. */
static struct cell_entry *use_next(const struct cell_memory *memory)
{
    struct cell_head *head = head_of(memory);
    unsigned number = head->used;

    if (number == memory->count) {
        return NULL;
    }
    struct cell_entry *entry = entry_at(memory, number);
    entry->cell.number = number;
    entry->cell.slots = head->slots;
    atomic_store_explicit(&head->used, number + 1, memory_order_release);
    return entry;
}

static struct upstream_group *group_at(const struct upstream_set *set, unsigned number)
{
    return *vec_at(&set->groups, struct upstream_group *, number);
}

static struct upstream_server *server_at(const struct upstream_group *group, unsigned index)
{
    return *vec_at(&group->servers, struct upstream_server *, index);
}

/* ---- sums ---- */

/* What a member of all workers' lines adds up to. */
#define SUM_OF_USE(member)                                                                         \
    ({                                                                                             \
        uint32_t sum = 0;                                                                          \
        for (uint32_t i = 0; i < cell->slots; i++) {                                               \
            sum += atomic_load_explicit(&cell->use[i].member, memory_order_relaxed);               \
        }                                                                                          \
        sum;                                                                                       \
    })

uint32_t peer_active(const struct peer_cell *cell)
{
    return SUM_OF_USE(active);
}

uint32_t peer_open(const struct peer_cell *cell)
{
    return SUM_OF_USE(open);
}

uint32_t peer_waiting(const struct peer_cell *cell)
{
    return SUM_OF_USE(waiting);
}

uint64_t peer_selected_ms(const struct peer_cell *cell)
{
    uint64_t latest = 0;

    for (uint32_t i = 0; i < cell->slots; i++) {
        uint64_t at = atomic_load_explicit(&cell->use[i].selected_ms, memory_order_relaxed);

        latest = at > latest ? at : latest;
    }
    return latest;
}

void peer_reset_figures(struct peer_cell *cell)
{
    atomic_store(&cell->failures, 0);
    atomic_store(&cell->unavailable, 0);
    atomic_store(&cell->downtime_ms, 0);
    for (unsigned i = 0; i < PEER_CHECKS_MAX; i++) {
        atomic_store(&cell->checks[i].probes, 0);
        atomic_store(&cell->checks[i].failures, 0);
        atomic_store(&cell->checks[i].turns, 0);
    }
    for (uint32_t i = 0; i < cell->slots; i++) {
        atomic_store_explicit(&cell->use[i].selected_ms, 0, memory_order_relaxed);
    }
}

void peer_went_down(struct peer_cell *cell)
{
    uint64_t up = 0;

    atomic_compare_exchange_strong(&cell->down_since_ms, &up,
                                   clock_now.now_ms == 0 ? 1 : clock_now.now_ms);
}

void peer_came_up(struct peer_cell *cell)
{
    uint64_t since = atomic_exchange(&cell->down_since_ms, 0);

    if (since != 0 && clock_now.now_ms > since) {
        atomic_fetch_add(&cell->downtime_ms, clock_now.now_ms - since);
    }
}

static bool is_held(const struct peer_cell *cell)
{
    return SUM_OF_USE(held) + peer_active(cell) + peer_open(cell) != 0;
}

/* ---- laying out ---- */

/* The core settings of a reading are handed to the generation later only. */
unsigned cells_slots(const struct conf *conf)
{
    const struct core_settings *core =
        conf_settings(conf_main_scope((struct conf *) conf), &core_key);

    return core != NULL && core->master_process && core->worker_processes > 1
               ? (unsigned) core->worker_processes
               : 1;
}

static void memory_free(void *arg)
{
    struct cell_memory *memory = arg;
    struct cell_memory **link = &memories;

    while (*link != NULL && *link != memory) {
        link = &(*link)->next;
    }
    if (*link != NULL) {
        *link = memory->next;
    }
    free(memory->locals);
    shm_unmap(memory->base, memory->size);
}

/* Gives the fixed entries their numbers, and counts the spare ones. */
static void count_entries(struct cell_memory *memory)
{
    size_t spares = 0;

    vec_each(struct upstream_group *, group, &memory->set->groups) {
        size_t watched = 0, discovered = 0;

        vec_each(struct upstream_server *, server, &(*group)->servers) {
            (*server)->first_cell = memory->fixed;
            memory->fixed += (unsigned) (*server)->addresses.count;
            watched += (*server)->resolves;
            discovered += (*server)->discovered != NULL;
        }
        if (watched != 0 || (*group)->zone_size != 0) {
            size_t paid = (*group)->zone_size / memory->stride;

            spares += watched * SPARES_EACH + discovered * SPARES_DISCOVERED +
                      (paid < SPARES_ZONE ? paid : SPARES_ZONE);
        }
    }
    memory->count = memory->fixed + (unsigned) (spares == 0 ? 0 : spares + SPARES);
}

static void fill_entry(struct cell_entry *entry, const struct upstream_group *group,
                       const struct upstream_server *server, const struct known_address *address)
{
    entry->group = group->number;
    entry->server = server->index;
    entry->addr = address->addr;
    entry->nth = address->nth;
    entry->priority = address->priority;
    entry->weight = address->weight;
    entry->target_length =
        (uint16_t) (address->target.len < TARGET_MAX ? address->target.len : TARGET_MAX);
    memcpy(entry->target, address->target.data == NULL ? "" : address->target.data,
           entry->target_length);
    entry->is_taken = true;
}

/* How often this address stands before it. */
static uint16_t count_earlier(const struct addr_list *list, size_t index)
{
    uint16_t count = 0;

    for (size_t i = 0; i < index; i++) {
        count += addr_equal(&list->items[i], &list->items[index]);
    }
    return count;
}

static void fill_fixed(struct cell_memory *memory, unsigned slots)
{
    head_of(memory)->slots = slots;
    while (used_of(memory) != memory->fixed) {
        use_next(memory);
    }
    vec_each(struct upstream_group *, group, &memory->set->groups) {
        vec_each(struct upstream_server *, server, &(*group)->servers) {
            for (size_t i = 0; i < (*server)->addresses.count; i++) {
                const struct known_address address = {.addr = (*server)->addresses.items[i],
                                                      .nth =
                                                          count_earlier(&(*server)->addresses, i)};

                fill_entry(entry_at(memory, (*server)->first_cell + (unsigned) i), *group, *server,
                           &address);
            }
        }
    }
}

/* ---- what the former generation knew ---- */

/* What names a peer over generations: group, place of the server (or none), address, which of its
 * kind. */
static struct str entry_key(struct arena *arena, const struct cell_memory *memory,
                            const struct cell_entry *entry, bool has_place)
{
    const struct upstream_group *group = group_at(memory->set, entry->group);
    char text[ADDRESS_KEY_MAX];
    size_t length = addr_format(&entry->addr, true, text);

    return arena_printf(arena, "%c%.*s\n%u\n%.*s\n%u", group->is_implicit ? 'i' : 'b',
                        STR_ARG(group->name), has_place ? entry->server + 1 : 0, (int) length, text,
                        entry->nth);
}

static unsigned check_bits(const struct upstream_group *group)
{
    unsigned bits = 0;

    for (const struct health_settings *check = group->health; check != NULL; check = check->next) {
        bits = bits << 1 | 1;
    }
    return bits;
}

#define COPY(member) atomic_store(&to->member, atomic_load(&from->member))

/* Health, and what a protocol learned. */
static void inherit_cell(struct peer_cell *to, struct peer_cell *from, unsigned checks)
{
    atomic_store(&to->is_unhealthy, atomic_load(&from->is_unhealthy) & checks);
    for (unsigned i = 0; i < PEER_CHECKS_MAX; i++) {
        COPY(checks[i].rise);
        COPY(checks[i].fall);
    }
    COPY(up_at_ms);
    COPY(facts_state);
    COPY(connections_max);
    COPY(requests_max);
    COPY(multiplexes);
    if (atomic_load(&to->facts_state) == 1) {
        atomic_store(&to->facts_state, 0); /* who asked does not answer to us */
    }
}

/* The server that watches the same name; the one at the same place if there are several. */
static struct upstream_server *find_heir(const struct upstream_group *group,
                                         const struct upstream_server *old)
{
    struct upstream_server *found = NULL;

    vec_each(struct upstream_server *, server, &group->servers) {
        if ((*server)->resolves && str_equal_nocase((*server)->host, old->host) &&
            str_equal(old->service, (*server)->service) &&
            (found == NULL || (*server)->index == old->index)) {
            found = *server;
        }
    }
    return found;
}

static bool is_about(const struct cell_entry *entry, const struct known_address *address)
{
    return entry->nth == address->nth && addr_equal(&entry->addr, &address->addr);
}

/* The entry that the configuration gave this address of a server; NULL: none. */
static struct cell_entry *find_fixed(const struct cell_memory *memory,
                                     const struct upstream_server *server,
                                     const struct known_address *address)
{
    for (size_t i = 0; i < server->addresses.count; i++) {
        struct cell_entry *entry = entry_at(memory, server->first_cell + (unsigned) i);

        if (is_about(entry, address)) {
            return entry;
        }
    }
    return NULL;
}

/* An address that a watched name had in the former generation, for the same name in this one. */
static void inherit_address(struct cell_memory *memory, const struct cell_memory *old,
                            struct cell_entry *from)
{
    const struct upstream_group *old_group = group_at(old->set, from->group);
    if (from->server >= old_group->servers.count) {
        return; /* of a server that came at run time */
    }
    const struct upstream_server *old_server = server_at(old_group, from->server);
    const struct map *names =
        old_group->is_implicit ? &memory->set->implicit : &memory->set->blocks;
    const struct upstream_group *group = map_get_nocase(names, old_group->name);
    const struct upstream_server *server = group == NULL ? NULL : find_heir(group, old_server);

    if (server == NULL) {
        return;
    }
    struct known_address address = {.addr = from->addr,
                                    .nth = from->nth,
                                    .priority = from->priority,
                                    .weight = from->weight,
                                    .target = {from->target, from->target_length}};
    if (server->service.len == 0 && server->discovered == NULL) {
        addr_set_port(&address.addr, server->port);
    }
    struct cell_entry *entry = find_fixed(memory, server, &address);
    if (entry == NULL) {
        entry = use_next(memory);
    }
    if (entry == NULL) {
        return;
    }
    fill_entry(entry, group, server, &address);
    entry->is_known = true;
    inherit_cell(&entry->cell, &from->cell, check_bits(group));
}

/* The memory of the generation before, of the same subsystem; NULL: there is none. */
static struct cell_memory *find_former(const struct upstream_set *set)
{
    struct cell_memory *former = memories;

    while (former != NULL && former->set->subsystem != set->subsystem) {
        former = former->next;
    }
    return former;
}

static void inherit(struct cell_memory *memory, struct cell_memory *old)
{
    struct arena arena;
    struct map by_key = {0};

    arena_init(&arena);
    shm_lock_take(lock_of(old));
    for (unsigned i = 0; i < used_of(old); i++) {
        struct cell_entry *from = entry_at(old, i);

        if (from->is_taken) {
            map_put(&by_key, &arena, entry_key(&arena, old, from, true), from);
            map_put(&by_key, &arena, entry_key(&arena, old, from, false), from);
        }
        if (from->is_taken && from->is_known) {
            inherit_address(memory, old, from);
        }
    }
    for (unsigned i = 0; i < memory->fixed; i++) {
        struct cell_entry *entry = entry_at(memory, i);
        struct cell_entry *from = map_get(&by_key, entry_key(&arena, memory, entry, true));

        if (from == NULL) { /* servers that came or went at run time have other places now */
            from = map_get(&by_key, entry_key(&arena, memory, entry, false));
        }

        if (from != NULL) {
            inherit_cell(&entry->cell, &from->cell,
                         check_bits(group_at(memory->set, entry->group)));
        }
    }
    shm_lock_release(lock_of(old));
    arena_free(&arena);
}

bool cells_lay_out(struct conf *conf, struct upstream_set *set)
{
    struct cell_memory *memory = arena_new(conf->arena, struct cell_memory);
    unsigned slots = cells_slots(conf);

    memory->set = set;
    memory->stride = round_up(offsetof(struct cell_entry, cell) + cell_size(slots));
    count_entries(memory);
    memory->size = round_up(sizeof(struct cell_head)) + memory->count * memory->stride;
    memory->base = shm_map(memory->size);
    if (memory->base == NULL) {
        return conf_errno(conf, NULL, errno, "mmap(%zu) failed", memory->size);
    }
    shm_lock_init(lock_of(memory));
    fill_fixed(memory, slots);
    struct cell_memory *former = find_former(set);
    if (!conf->is_later) {
        if (former != NULL) {
            inherit(memory, former);
        }
        memory->next = memories;
        memories = memory;
    }
    arena_on_free(conf->arena, memory_free, memory);
    set->memory = memory;
    return true;
}

/* ---- in a worker ---- */

static void local_init(struct peer_local *local, struct peer_cell *cell)
{
    *local = (struct peer_local){.cell = cell};
    list_init(&local->busy);
    list_init(&local->waiters);
}

void cells_worker_start(struct upstream_set *set)
{
    struct cell_memory *memory = set->memory;

    if (memory == NULL || memory->count == 0) {
        return;
    }
    memory->locals = calloc(memory->count, sizeof(*memory->locals));
    if (memory->locals == NULL) {
        fatal_no_memory(memory->count * sizeof(*memory->locals));
    }
    unsigned used = used_of(memory);
    for (unsigned i = 0; i < used; i++) {
        memset(peer_use_mine(&entry_at(memory, i)->cell), 0, sizeof(struct peer_use));
    }
}

void cells_worker_end(struct upstream_set *set)
{
    if (set->memory != NULL) {
        free(set->memory->locals);
        set->memory->locals = NULL;
    }
}

struct peer_local *cell_local(const struct upstream_group *group, struct peer_cell *cell)
{
    if (cell->number == CELL_PRIVATE) {
        return &container_of(cell, struct private_cell, cell)->local;
    }
    struct peer_local *local = &group->set->memory->locals[cell->number];
    if (local->cell == NULL) {
        local_init(local, cell);
    }
    return local;
}

struct peer_cell *cell_of_server(const struct upstream_group *group,
                                 const struct upstream_server *server, size_t index)
{
    return server->cells != NULL
               ? server->cells[index]
               : &entry_at(group->set->memory, server->first_cell + (unsigned) index)->cell;
}

static struct peer_cell *private_cell_new(void)
{
    size_t size = round_up(offsetof(struct private_cell, cell) + cell_size(1));
    struct private_cell *made = aligned_alloc(LINE, size);

    if (made == NULL) {
        fatal_no_memory(size);
    }
    memset(made, 0, size);
    made->cell.number = CELL_PRIVATE;
    made->cell.slots = 1;
    local_init(&made->local, &made->cell);
    return &made->cell;
}

void cell_hold(struct peer_cell *cell, struct peer_local *local)
{
    local->holds++;
    atomic_store_explicit(&peer_use_mine(cell)->held, local->holds, memory_order_relaxed);
}

void cell_let_go(struct peer_cell *cell, struct peer_local *local)
{
    if (cell->number == CELL_PRIVATE && local->holds == 0 &&
        atomic_load_explicit(&peer_use_mine(cell)->open, memory_order_relaxed) == 0 &&
        list_is_empty(&local->waiters)) {
        free(container_of(cell, struct private_cell, cell));
    }
}

void cell_release(struct peer_cell *cell, struct peer_local *local)
{
    local->holds--;
    atomic_store_explicit(&peer_use_mine(cell)->held, local->holds, memory_order_relaxed);
    cell_let_go(cell, local);
}

/* The entry of the address, or a spare one that it may have. NULL: all are in use. Under the lock.
 */
static struct cell_entry *find_entry(const struct cell_memory *memory,
                                     const struct upstream_group *group,
                                     const struct upstream_server *server,
                                     const struct known_address *address)
{
    unsigned used = used_of(memory);
    struct cell_entry *unused = NULL;
    uint32_t number = 0; /* of the unused one */

    for (unsigned i = 0; i < used; i++) {
        struct cell_entry *entry = entry_at(memory, i);

        if (entry->group == group->number && entry->server == server->index &&
            is_about(entry, address)) {
            return entry;
        }
        if (i >= memory->fixed && unused == NULL && !entry->is_known && !is_held(&entry->cell)) {
            unused = entry;
            number = i;
        }
    }
    struct cell_entry *fresh = use_next(memory);
    if (fresh == NULL && unused != NULL) {
        memset(unused, 0, memory->stride);
        unused->cell.number =
            number; /* not as it was: who was killed here may have left it empty */
        unused->cell.slots = head_of(memory)->slots;
        fresh = unused;
    }
    return fresh;
}

void cell_claim(struct upstream_group *group, const struct upstream_server *server,
                struct known_address *address)
{
    struct cell_memory *memory = group->worker_state->run_time != NULL ? NULL : group->set->memory;
    struct cell_entry *entry = NULL;

    if (memory != NULL) {
        shm_lock_take(lock_of(memory));
        entry = find_entry(memory, group, server, address);
        if (entry != NULL) {
            fill_entry(entry, group, server, address);
            address->cell = &entry->cell;
            cell_hold(&entry->cell, cell_local(group, &entry->cell));
        }
        shm_lock_release(lock_of(memory));
    }
    if (entry == NULL) {
        address->cell = private_cell_new();
        cell_hold(address->cell, cell_local(group, address->cell));
        if (memory != NULL && !memory->was_full) {
            memory->was_full = true;
            log_error(log_main, 0,
                      "no room in shared memory for another address of upstream \"%.*s\": each "
                      "worker counts for itself; a larger zone helps",
                      STR_ARG(group->name));
        }
    }
}

static bool is_listed(const struct peer_set *set, const struct peer_cell *cell)
{
    for (unsigned i = 0; i < set->count; i++) {
        if (set->peers[i].cell == cell) {
            return true;
        }
    }
    return false;
}

unsigned servers_zombies(const struct upstream_group *group)
{
    const struct cell_memory *memory = group->set->memory;
    const struct peer_list *list = group->peers;
    unsigned used = memory == NULL || list == NULL ? 0 : used_of(memory);
    unsigned zombies = 0;

    for (unsigned i = 0; i < used; i++) {
        const struct cell_entry *entry = entry_at(memory, i);

        zombies += entry->is_taken && entry->group == group->number &&
                   peer_active(&entry->cell) != 0 && !is_listed(&list->primary, &entry->cell) &&
                   !is_listed(&list->backup, &entry->cell);
    }
    return zombies;
}

void cells_remember(struct upstream_group *group, const struct upstream_server *server,
                    const struct known_address *addresses, unsigned count)
{
    struct cell_memory *memory = group->set->memory;

    if (memory == NULL || group->worker_state->run_time != NULL) {
        return;
    }
    shm_lock_take(lock_of(memory));
    for (unsigned i = 0; i < used_of(memory); i++) {
        struct cell_entry *entry = entry_at(memory, i);

        if (!entry->is_taken || entry->group != group->number || entry->server != server->index) {
            continue;
        }
        entry->is_known = false;
        for (unsigned j = 0; j < count && !entry->is_known; j++) {
            entry->is_known = addresses[j].cell == &entry->cell;
        }
    }
    shm_lock_release(lock_of(memory));
}

void cells_forget(const struct upstream_group *group, const struct known_address *addresses,
                  unsigned count)
{
    const struct cell_memory *memory = group->set->memory;

    if (memory == NULL || group->worker_state->run_time != NULL) {
        return;
    }
    shm_lock_take(lock_of(memory));
    for (unsigned i = 0; i < count; i++) {
        if (addresses[i].cell->number != CELL_PRIVATE) {
            container_of(addresses[i].cell, struct cell_entry, cell)->is_known = false;
        }
    }
    shm_lock_release(lock_of(memory));
}

void cells_recall(struct upstream_group *group, const struct upstream_server *server,
                  struct arena *arena, struct vec *out)
{
    struct cell_memory *memory = group->set->memory;

    if (memory == NULL || group->worker_state->run_time != NULL) {
        return;
    }
    shm_lock_take(lock_of(memory));
    for (unsigned i = 0; i < used_of(memory); i++) {
        struct cell_entry *entry = entry_at(memory, i);

        if (entry->is_taken && entry->is_known && entry->group == group->number &&
            entry->server == server->index) {
            struct known_address *address = vec_add(out, arena, struct known_address);

            address->addr = entry->addr;
            address->nth = entry->nth;
            address->priority = entry->priority;
            address->weight = entry->weight;
            address->target = arena_dup(arena, (struct str){entry->target, entry->target_length});
        }
    }
    shm_lock_release(lock_of(memory));
}
