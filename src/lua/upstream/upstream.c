/* ngx.upstream. */
#include "lua/upstream/upstream.h"

#include "base/clock.h"
#include "lua/vm/function.h"
#include "server/generation.h"
#include "upstream/peer.h"

#define SCRATCH "portunus upstream scratch"

/* ---- what is looked up once ---- */

struct upstream_set *script_upstream_set(lua_State *L)
{
    const struct script_vm *vm = script_vm_of(L);

    return upstream_set_of(&vm->options->generation->conf,
                           script_vm_is_stream(vm) ? &upstream_stream : &upstream_http);
}

/* As it is now; NULL: there is none. */
static struct upstream_group *group_named(const struct upstream_set *set, struct str name)
{
    struct upstream_group *group;

    if (set->find_changed != NULL && set->find_changed(name, &group)) {
        return group;
    }
    group = map_get_nocase(&set->blocks, name);
    return group != NULL ? group : map_get_nocase(&set->implicit, name);
}

static void demand_count(lua_State *L, int count, const char *message)
{
    if (lua_gettop(L) != count) {
        luaL_error(L, "%s", message);
    }
}

/* ---- copies ----
 *
 * Whatever makes something in Lua may collect garbage, and finalizers may wait: groups and their
 * peers may go meanwhile. So what a script gets is copied first, in one go, to memory that Lua
 * frees. */

struct scratch {
    struct arena arena;
};

static int scratch_free(lua_State *L)
{
    struct scratch *scratch = lua_touserdata(L, 1);

    arena_free(&scratch->arena);
    return 0;
}

static struct arena *scratch_push(lua_State *L)
{
    struct scratch *scratch = lua_newuserdata(L, sizeof(*scratch));

    arena_init(&scratch->arena);
    if (luaL_newmetatable(L, SCRATCH) != 0) {
        lua_pushcfunction(L, scratch_free);
        lua_setfield(L, -2, "__gc");
    }
    lua_setmetatable(L, -2);
    return &scratch->arena;
}

/* A `server` line. */
struct server_facts {
    struct str written;
    struct vec addresses; /* struct str */
    unsigned weight, max_fails;
    uint64_t fail_timeout_ms;
    bool is_backup, is_down;
};

struct peer_facts {
    struct str name;
    unsigned weight, max_fails;
    int64_t current_weight, effective_weight;
    uint64_t fail_timeout_ms;
    uint32_t fails, active;
    uint64_t failed_at_ms, checked_at_ms;
    bool is_down;
};

static void add_addresses(struct server_facts *facts, struct arena *arena,
                          const struct upstream_server *server, const struct peer_set *set)
{
    for (unsigned i = 0; i < set->count; i++) {
        if (set->peers[i].server == server) {
            *vec_add(&facts->addresses, arena, struct str) = arena_dup(arena, set->peers[i].name);
        }
    }
}

/* Before there are workers nothing but the configuration knows them. */
static void add_addresses_read(struct server_facts *facts, struct arena *arena,
                               const struct upstream_server *server)
{
    for (size_t i = 0; i < server->addresses.count; i++) {
        char text[ADDR_TEXT_MAX];
        size_t length = addr_format(&server->addresses.items[i], true, text);

        *vec_add(&facts->addresses, arena, struct str) =
            arena_dup(arena, (struct str){text, length});
    }
}

static struct vec copy_servers(const struct upstream_group *group, struct arena *arena)
{
    struct vec copies = {0};

    vec_each(struct upstream_server *, each, &group->servers) {
        const struct upstream_server *server = *each;
        struct server_facts *facts = vec_add(&copies, arena, struct server_facts);

        *facts = (struct server_facts){.written = arena_dup(arena, server->written),
                                       .weight = server->weight,
                                       .max_fails = server->max_fails,
                                       .fail_timeout_ms = server->fail_timeout_ms,
                                       .is_backup = server->is_backup,
                                       .is_down = server->is_down};
        if (group->peers == NULL) {
            add_addresses_read(facts, arena, server);
        } else {
            add_addresses(facts, arena, server, &group->peers->primary);
            add_addresses(facts, arena, server, &group->peers->backup);
        }
    }
    return copies;
}

static struct vec copy_peers(const struct peer_set *set, struct arena *arena)
{
    struct vec copies = {0};

    for (unsigned i = 0; i < set->count; i++) {
        const struct peer *peer = &set->peers[i];
        const struct peer_cell *cell = peer->cell;

        *vec_add(&copies, arena, struct peer_facts) =
            (struct peer_facts){.name = arena_dup(arena, peer->name),
                                .weight = peer->weight,
                                .max_fails = peer->server->max_fails,
                                .current_weight = peer->current_weight / PEER_WEIGHT_UNIT,
                                .effective_weight = peer->effective_weight,
                                .fail_timeout_ms = peer->server->fail_timeout_ms,
                                .fails = atomic_load(&cell->fails),
                                .active = peer_active(cell),
                                .failed_at_ms = atomic_load(&cell->failed_at_ms),
                                .checked_at_ms = atomic_load(&cell->checked_at_ms),
                                .is_down = peer_is_down(peer)};
    }
    return copies;
}

/* The names of all groups. */
struct naming {
    const struct upstream_set *set;
    struct arena *arena;
    struct vec names; /* struct str */
};

static void script_upstream_add_name(struct naming *naming, struct str name)
{
    *vec_add(&naming->names, naming->arena, struct str) = arena_dup(naming->arena, name);
}

/* One that the configuration does not have. */
static void add_changed(struct upstream_group *group, void *arg)
{
    struct naming *naming = arg;

    if (map_get_nocase(&naming->set->blocks, group->name) == NULL) {
        script_upstream_add_name(naming, group->name);
    }
}

static struct vec copy_names(const struct upstream_set *set, struct arena *arena)
{
    struct naming naming = {.set = set, .arena = arena};

    vec_each(struct upstream_group *, group, &set->groups) {
        struct upstream_group *changed = *group;

        if (set->find_changed == NULL || (*group)->is_implicit ||
            !set->find_changed((*group)->name, &changed) || changed != NULL) {
            script_upstream_add_name(&naming, (*group)->name);
        }
    }
    if (set->each_changed != NULL) {
        set->each_changed(add_changed, &naming);
    }
    return naming.names;
}

/* ---- tables of them ---- */

static void set_number(lua_State *L, const char *name, double value)
{
    lua_pushnumber(L, value);
    lua_setfield(L, -2, name);
}

static void set_text(lua_State *L, const char *name, struct str text)
{
    script_push_str(L, text);
    lua_setfield(L, -2, name);
}

/* What is not so is not there. */
static void set_true(lua_State *L, const char *name, bool is_true)
{
    if (is_true) {
        lua_pushboolean(L, true);
        lua_setfield(L, -2, name);
    }
}

/* A moment of the monotonic clock, as seconds since the epoch; 0 = it never came. */
static void set_moment(lua_State *L, const char *name, uint64_t at_ms)
{
    if (at_ms != 0) {
        int64_t age_ms = (int64_t) (clock_now.now_ms - at_ms);
        int64_t now_ms = (int64_t) clock_now.seconds * 1000 + clock_now.milliseconds;

        set_number(L, name, (double) ((now_ms - age_ms) / 1000));
    }
}

static void push_texts(lua_State *L, const struct vec *texts)
{
    int count = 0;

    lua_createtable(L, (int) texts->count, 0);
    vec_each(const struct str, text, texts) {
        script_push_str(L, *text);
        lua_rawseti(L, -2, ++count);
    }
}

static void push_server(lua_State *L, const struct server_facts *facts)
{
    lua_createtable(L, 0, 8);
    if (facts->addresses.count == 1) {
        script_push_str(L, *vec_at(&facts->addresses, struct str, 0));
    } else {
        push_texts(L, &facts->addresses);
    }
    lua_setfield(L, -2, "addr");
    set_text(L, "name", facts->written);
    set_number(L, "weight", facts->weight);
    set_number(L, "max_fails", facts->max_fails);
    set_number(L, "fail_timeout", (double) facts->fail_timeout_ms / 1000);
    set_true(L, "backup", facts->is_backup);
    set_true(L, "down", facts->is_down);
}

static void push_peer(lua_State *L, const struct peer_facts *facts, int id)
{
    lua_createtable(L, 0, 12);
    set_number(L, "id", id);
    set_text(L, "name", facts->name);
    set_number(L, "weight", facts->weight);
    set_number(L, "current_weight", (double) facts->current_weight);
    set_number(L, "effective_weight", (double) facts->effective_weight);
    set_number(L, "max_fails", facts->max_fails);
    set_number(L, "fail_timeout", (double) facts->fail_timeout_ms / 1000);
    set_number(L, "fails", facts->fails);
    set_number(L, "conns", facts->active);
    set_moment(L, "accessed", facts->failed_at_ms);
    set_moment(L, "checked", facts->checked_at_ms);
    set_true(L, "down", facts->is_down);
}

/* ---- what scripts call ---- */

static int get_upstreams(lua_State *L, struct script_thread *thread)
{
    demand_count(L, 0, "no argument expected");
    struct arena *arena = scratch_push(L);
    struct vec names = copy_names(script_upstream_set(L), arena);

    push_texts(L, &names);
    arena_free(arena);
    return 1;
}

/* The group that the one argument names, or NULL; and memory for what is copied of it. */
static const struct upstream_group *check_group(lua_State *L, struct arena **arena)
{
    demand_count(L, 1, "exactly one argument expected");
    struct str name = script_check_str(L, 1);

    *arena = scratch_push(L);
    return group_named(script_upstream_set(L), name);
}

static int get_servers(lua_State *L, struct script_thread *thread)
{
    struct arena *arena;
    const struct upstream_group *group = check_group(L, &arena);
    int count = 0;

    if (group == NULL) {
        return script_fail(L, "upstream not found");
    }
    struct vec servers = copy_servers(group, arena);
    lua_createtable(L, (int) servers.count, 0);
    vec_each(const struct server_facts, facts, &servers) {
        push_server(L, facts);
        lua_rawseti(L, -2, ++count);
    }
    arena_free(arena);
    return 1;
}

/* Pushes those, or nil and why. */
static int get_peers(lua_State *L, bool is_backup)
{
    struct arena *arena;
    const struct upstream_group *group = check_group(L, &arena);
    int count = 0;

    if (group == NULL) {
        return script_fail(L, "upstream not found");
    }
    if (group->peers == NULL) {
        return script_fail(L, "no peer data"); /* init_by_lua: there is no worker yet */
    }
    struct vec peers =
        copy_peers(is_backup ? &group->peers->backup : &group->peers->primary, arena);
    lua_createtable(L, (int) peers.count, 0);
    vec_each(const struct peer_facts, facts, &peers) {
        push_peer(L, facts, count);
        lua_rawseti(L, -2, ++count);
    }
    arena_free(arena);
    return 1;
}

static int get_primary_peers(lua_State *L, struct script_thread *thread)
{
    return get_peers(L, false);
}

static int get_backup_peers(lua_State *L, struct script_thread *thread)
{
    return get_peers(L, true);
}

static int set_peer_down(lua_State *L, struct script_thread *thread)
{
    demand_count(L, 4, "exactly 4 arguments expected");
    struct str name = script_check_str(L, 1);
    bool is_backup = lua_toboolean(L, 2);
    lua_Integer id = luaL_checkinteger(L, 3);
    bool is_down = lua_toboolean(L, 4);
    struct upstream_group *group = group_named(script_upstream_set(L), name);

    if (group == NULL) {
        return script_fail(L, "upstream not found");
    }
    if (group->peers == NULL) {
        return script_fail(L, "no peer data");
    }
    const struct peer_set *set = is_backup ? &group->peers->backup : &group->peers->primary;
    if (set->count == 0) {
        return script_fail(L, is_backup ? "no backup peers" : "no peers");
    }
    if (id < 0 || (uint64_t) id >= set->count) {
        return script_fail(L, "bad peer id");
    }
    peer_set_down(group, &set->peers[id], is_down);
    lua_pushboolean(L, true);
    return 1;
}

static int current_upstream_name(lua_State *L, struct script_thread *thread)
{
    struct str name = STR("");

    demand_count(L, 0, "no argument expected");
    if (thread != NULL && thread->subject->kind->group_name != NULL) {
        name = thread->subject->kind->group_name(thread->subject);
    }
    if (name.len == 0) {
        lua_pushnil(L);
    } else {
        script_push_str(L, name);
    }
    return 1;
}

static const struct script_row rows[] = {
    {"get_upstreams", get_upstreams, 0, false},
    {"get_servers", get_servers, 0, false},
    {"get_primary_peers", get_primary_peers, 0, false},
    {"get_backup_peers", get_backup_peers, 0, false},
    {"set_peer_down", set_peer_down, 0, false},
    {"current_upstream_name", current_upstream_name, 0, false},
    {0},
};

static int script_upstream_open(lua_State *L)
{
    lua_newtable(L);
    script_add(L, rows);
    return 1;
}

void script_upstream_add(lua_State *L)
{
    script_preload(L, "ngx.upstream", script_upstream_open);
}
