/*
 * Many nodes with one limit, in virtual time: the code of limit_req with `sync` decides and
 * exchanges, and the script of the store runs as it does in Redis. Each run is the same for the
 * same seed. Without arguments: tests of the bounds that docs/scaling-out.md promises. With the
 * word "table": the figures of its plot.
 */
#include "base/unit.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/shm.h"
#include "fiber/fiber.h"
#include "shared/limit/sync.h"

enum { NODES_MOST = 64, ZONE_SIZE = 64 * 4096, START_MS = 1000000 };

/* What is tried. */
struct scenario {
    unsigned nodes;
    unsigned interval_ms;
    unsigned rate;   /* requests a second */
    unsigned burst;  /* requests */
    unsigned demand; /* requests a second that come to all nodes together */
    unsigned keys;   /* that they are spread over: the limit is of each */
    unsigned seconds;
    unsigned cut_nodes;            /* the first so many lose the store … */
    unsigned cut_from_s, cut_to_s; /* … for this time */
    unsigned skew_ms;              /* clocks of nodes differ by up to this */
    int drift_ppm;     /* and every other one runs so much faster, its neighbour slower */
    int store_jump_ms; /* the store's clock jumps by this, in the middle */
    bool is_strict;
    uint64_t seed;
    unsigned *passed_by_100ms; /* or NULL: how many passed in each tenth of a second */
};

struct outcome {
    uint64_t asked, passed, allowed;
    double steady; /* percent above (below: negative) the rate, after the first second */
    uint64_t commands;
};

struct node {
    struct zone zone, memory;
    struct limit_zone limit;
    struct bucket_sync sync;
    void (*exchange)(void *arg);
    int64_t offset_ms;
    double speed;
    double share; /* of the demand */
    double owes;  /* parts of requests that have not come yet */
};

static struct node nodes[NODES_MOST];
static const struct scenario *current;
static struct node *running; /* whose code runs */
static double now_ms;        /* true time, from 0 */
static uint64_t commands, random_state;
static lua_State *lua;

/* ---- chance: xorshift64* ---- */

static uint64_t chance(void)
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return random_state * UINT64_C(2685821657736338717);
}

static double chance_below(double most)
{
    return (double) (chance() >> 11) / (double) (UINT64_C(1) << 53) * most;
}

/* ---- the store: its scripts in Lua, keys without a TTL ---- */

static bool is_cut(void)
{
    return (unsigned) (running - nodes) < current->cut_nodes &&
           now_ms >= current->cut_from_s * 1000.0 && now_ms < current->cut_to_s * 1000.0;
}

static double store_us(void)
{
    double jump = now_ms < current->seconds * 500.0 ? 0 : current->store_jump_ms * 1000.0;

    return 1.7e15 + now_ms * 1000.0 + jump;
}

static void push_time(lua_State *state)
{
    double seconds = (double) (uint64_t) (store_us() / 1e6);

    lua_createtable(state, 2, 0);
    lua_pushfstring(state, "%d", (int) seconds);
    lua_rawseti(state, -2, 1);
    lua_pushfstring(state, "%d", (int) (store_us() - seconds * 1e6));
    lua_rawseti(state, -2, 2);
}

/* The hash whose key is the command's first argument; it is made where there is none. */
static void push_hash(lua_State *state)
{
    lua_pushvalue(state, 2);
    lua_rawget(state, lua_upvalueindex(1));
    if (lua_isnil(state, -1)) {
        lua_pop(state, 1);
        lua_newtable(state);
        lua_pushvalue(state, 2);
        lua_pushvalue(state, -2);
        lua_rawset(state, lua_upvalueindex(1));
    }
}

static void push_value(lua_State *state, int hash, int field)
{
    lua_pushvalue(state, field);
    lua_rawget(state, hash);
    if (lua_isnil(state, -1)) {
        lua_pop(state, 1);
        lua_pushboolean(state, 0);
    }
}

/* redis.call */
static int redis_call(lua_State *state)
{
    const char *word = luaL_checkstring(state, 1);
    int count = lua_gettop(state);

    if (strcmp(word, "TIME") == 0) {
        push_time(state);
    } else if (strcmp(word, "HMGET") == 0) {
        push_hash(state);
        lua_createtable(state, count - 2, 0);
        for (int i = 3; i <= count; i++) {
            push_value(state, count + 1, i);
            lua_rawseti(state, -2, i - 2);
        }
    } else if (strcmp(word, "HSET") == 0) {
        push_hash(state);
        for (int i = 3; i < count; i += 2) {
            lua_pushvalue(state, i);
            lua_pushvalue(state, i + 1);
            lua_rawset(state, count + 1);
        }
        lua_pushboolean(state, 1);
    } else if (strcmp(word, "HLEN") == 0) {
        int fields = 0;

        push_hash(state);
        lua_pushnil(state);
        while (lua_next(state, count + 1) != 0) {
            lua_pop(state, 1);
            fields++;
        }
        lua_pushinteger(state, fields);
    } else if (strcmp(word, "RENAME") == 0) {
        push_hash(state);
        lua_pushvalue(state, 3);
        lua_insert(state, count + 1);
        lua_rawset(state, lua_upvalueindex(1));
        lua_pushvalue(state, 2);
        lua_pushnil(state);
        lua_rawset(state, lua_upvalueindex(1));
        lua_pushboolean(state, 1);
    } else if (strcmp(word, "UNLINK") == 0) {
        lua_pushvalue(state, 2);
        lua_pushnil(state);
        lua_rawset(state, lua_upvalueindex(1));
        lua_pushboolean(state, 1);
    } else if (strcmp(word, "PEXPIREAT") == 0) {
        lua_pushboolean(state, 1);
    } else {
        return luaL_error(state, "no such command: %s", word);
    }
    return 1;
}

static void set_words(const char *name, const struct store_words *words)
{
    lua_createtable(lua, (int) words->count, 0);
    for (size_t i = 0; i < words->count; i++) {
        lua_pushlstring(lua, words->items[i].data, words->items[i].len);
        lua_rawseti(lua, -2, (int) i + 1);
    }
    lua_setglobal(lua, name);
}

/* The script's table of numbers as a reply in RESP. */
static struct str reply_of(struct arena *arena)
{
    struct buf out = {0};
    int count = (int) lua_objlen(lua, -1);

    buf_printf(&out, "*%d\r\n", count);
    for (int i = 1; i <= count; i++) {
        lua_rawgeti(lua, -1, i);
        buf_printf(&out, ":%lld\r\n", (long long) lua_tonumber(lua, -1));
        lua_pop(lua, 1);
    }
    struct str reply = arena_dup(arena, buf_str(&out));
    buf_free(&out);
    return reply;
}

enum store_result store_run(const struct store_call *call, struct store_script *script,
                            const struct store_words *keys, const struct store_words *args,
                            struct str *reply)
{
    if (is_cut()) {
        return STORE_GONE;
    }
    commands++;
    set_words("KEYS", keys);
    set_words("ARGV", args);
    if (luaL_loadstring(lua, script->text) != 0 || lua_pcall(lua, 0, 1, 0) != 0) {
        fprintf(stderr, "%s\n", lua_tostring(lua, -1));
        abort();
    }
    *reply = reply_of(call->arena);
    lua_pop(lua, 1);
    return STORE_OK;
}

struct str store_key_text(const struct store *store, struct arena *arena,
                          const struct store_key *key)
{
    return arena_dup(arena, key->item);
}

/* ---- what a node has of the rest ---- */

bool limit_zone_name(const struct limit_zone *zone, struct variable_env *env,
                     const uint64_t secret[4], struct shm_key *name)
{
    *name = *(const struct shm_key *) (const void *) env;
    return true;
}

/* One exchange is a call of what would run on a fiber: its first sleep is over at once, its second
 * one ends it. */
static unsigned sleeps;

enum wait_result fiber_sleep(uint64_t deadline_ms)
{
    return sleeps++ == 0 ? WAIT_READY : WAIT_CANCELLED;
}

void fiber_shield_begin(void)
{
}

void fiber_shield_end(void)
{
}

enum fiber_started fiber_launch(void (*run)(void *), void *arg, struct fiber_handle *handle,
                                struct fiber **out)
{
    running->exchange = run;
    return FIBER_WAITING;
}

static void zone_make(struct zone *zone, const char *name)
{
    *zone = (struct zone){.name = str_of(name), .size = ZONE_SIZE, .memory = shm_map(ZONE_SIZE)};
    zone->slab = slab_init(zone->memory, ZONE_SIZE);
}

static void be(struct node *node)
{
    running = node;
    clock_now.now_ms =
        (uint64_t) ((double) START_MS + (double) node->offset_ms + now_ms * node->speed);
}

static void node_make(struct node *node, const struct scenario *scenario)
{
    unsigned number = (unsigned) (node - nodes);

    *node = (struct node){.speed = 1.0};
    zone_make(&node->zone, "z");
    zone_make(&node->memory, "owed");
    node->limit = (struct limit_zone){.zone = &node->zone,
                                      .table = shm_table_of(&node->zone, BUCKET_RECORD_SIZE, 0)};
    node->sync = (struct bucket_sync){
        .zone = &node->limit,
        .is_strict = scenario->is_strict,
        .interval_ms = scenario->interval_ms,
        .burst = (uint64_t) scenario->burst * REQUEST_UNITS,
        .memory = &node->memory,
        .owed = shm_table_of(&node->memory, 128, 0),
    };
    node->offset_ms = (int64_t) chance_below(scenario->skew_ms + 1.0);
    node->speed += (number % 2 == 0 ? 1 : -1) * scenario->drift_ppm / 1e6;
    node->share = 1.0 / (1.0 + number % 4); /* uneven: 12 to 3 to … */
    be(node);
    bucket_sync_start(&node->sync);
}

/* ---- a run ---- */

static bool ask(struct node *node, unsigned key_number)
{
    struct shm_key key = {.words = {key_number + 1, 77}};
    struct variable_env *env = (void *) &key;
    struct bucket_ask request = {.key = key,
                                 .per_minute = (uint64_t) current->rate * 60,
                                 .burst = node->sync.burst,
                                 .now_ms = clock_now.now_ms,
                                 .is_shared = true};

    if (current->is_strict) {
        struct arena arena;

        arena_init(&arena);
        bool may_pass = bucket_sync_take(&node->sync, &request, true, env, &arena);
        arena_free(&arena);
        return may_pass;
    }
    bool may_pass = bucket_take(node->limit.table, &request, true);
    bucket_sync_note(&node->sync, &request, env);
    return may_pass;
}

/* The requests of one node in one millisecond. */
static void run_node(struct node *node, double per_ms, struct outcome *outcome)
{
    be(node);
    node->owes += chance_below(2.0 * per_ms);
    for (; node->owes >= 1.0; node->owes -= 1.0) {
        bool may_pass = ask(node, (unsigned) (chance() % current->keys));

        outcome->asked++;
        outcome->passed += may_pass;
        outcome->steady += may_pass && now_ms >= 1000;
        if (may_pass && current->passed_by_100ms != NULL) {
            current->passed_by_100ms[(unsigned) now_ms / 100]++;
        }
    }
}

static void exchange(struct node *node)
{
    sleeps = 0;
    node->exchange(&node->sync);
}

static struct outcome run(const struct scenario *scenario)
{
    struct outcome outcome = {.asked = 0};
    double shares = 0;

    current = scenario;
    random_state = scenario->seed * 2 + 1;
    commands = 0;
    now_ms = 0;
    lua = luaL_newstate();
    luaL_openlibs(lua);
    lua_createtable(lua, 0, 1);
    lua_createtable(lua, 0, 0);
    lua_pushcclosure(lua, redis_call, 1);
    lua_setfield(lua, -2, "call");
    lua_setglobal(lua, "redis");
    for (unsigned i = 0; i < scenario->nodes; i++) {
        node_make(&nodes[i], scenario);
        shares += nodes[i].share;
    }
    for (unsigned ms = 0; ms < scenario->seconds * 1000; ms++) {
        now_ms = ms;
        for (unsigned i = 0; i < scenario->nodes; i++) {
            run_node(&nodes[i], scenario->demand / 1000.0 * nodes[i].share / shares, &outcome);
            /* Nodes do not exchange at the same moment. */
            if (!scenario->is_strict && (ms + 7 * i) % scenario->interval_ms == 0) {
                exchange(&nodes[i]);
            }
        }
    }
    for (unsigned i = 0; i < scenario->nodes; i++) {
        shm_unmap(nodes[i].zone.memory, ZONE_SIZE);
        shm_unmap(nodes[i].memory.memory, ZONE_SIZE);
    }
    lua_close(lua);
    uint64_t rate = (uint64_t) scenario->rate * scenario->keys;
    outcome.allowed = rate * scenario->seconds + (scenario->burst + 1) * scenario->keys;
    outcome.steady = 100.0 * (outcome.steady / ((double) rate * (scenario->seconds - 1)) - 1.0);
    outcome.commands = commands;
    return outcome;
}

static double error_of(const struct outcome *outcome)
{
    return 100.0 * ((double) outcome->passed / (double) outcome->allowed - 1.0);
}

/* ---- the tests ---- */

static const struct scenario usual = {.nodes = 8,
                                      .interval_ms = 50,
                                      .rate = 1000,
                                      .burst = 100,
                                      .demand = 3000,
                                      .keys = 1,
                                      .seconds = 10,
                                      .seed = 1};

static void assert_within(const struct outcome *outcome, double percent)
{
    double error = error_of(outcome);

    if (error > percent || error < -percent) {
        fail_msg("%.2f%% beside the limit, of %.2f%% that are promised", error, percent);
    }
}

/* 8 nodes, 1,000 requests a second, uneven load: within 5%. */
static void eventual(void **state)
{
    for (unsigned seed = 1; seed <= 3; seed++) {
        struct scenario scenario = usual;

        scenario.seed = seed;
        struct outcome outcome = run(&scenario);
        assert_within(&outcome, 5.0);
        assert_true(outcome.passed < outcome.asked);
    }
}

/* The same with a round trip for each request: within 1%. */
static void strict(void **state)
{
    struct scenario scenario = usual;

    scenario.is_strict = true;
    struct outcome outcome = run(&scenario);
    assert_within(&outcome, 1.0);
}

/* Below the limit nobody is refused. */
static void below(void **state)
{
    struct scenario scenario = usual;

    scenario.demand = 800;
    struct outcome outcome = run(&scenario);
    assert_true(outcome.passed == outcome.asked);
}

/* The same seed gives the same run. */
static void repeatable(void **state)
{
    struct outcome one = run(&usual), other = run(&usual);

    assert_true(one.passed == other.passed && one.asked == other.asked);
}

/* Clocks of nodes that differ by hours and run apart by 200 ppm, and a store whose clock jumps by a
 * second: nothing changes. */
static void clocks(void **state)
{
    struct scenario scenario = usual;

    scenario.skew_ms = 7200000;
    scenario.drift_ppm = 200;
    struct outcome outcome = run(&scenario);
    assert_within(&outcome, 5.0);
}

/* Half of the nodes lose the store for 4 s: meanwhile these limit by themselves, and what they
 * counted is added afterwards. */
static void partition(void **state)
{
    struct scenario scenario = usual;
    unsigned passed[100] = {0};

    scenario.cut_nodes = 4;
    scenario.cut_from_s = 3;
    scenario.cut_to_s = 7;
    scenario.passed_by_100ms = passed;
    run(&scenario);
    unsigned before = 0, during = 0, after = 0;
    for (unsigned i = 0; i < 10; i++) {
        before += passed[20 + i];
        during += passed[50 + i];
        after += passed[85 + i];
    }
    assert_true(before < 1060);
    assert_true(during < 4 * 1000 + 1060 &&
                during > before);             /* each of the four, and the others together */
    assert_true(after < 1060 && after > 900); /* a second and a half later it is as before */
}

/* ---- figures ---- */

static void print_errors(void)
{
    static const unsigned counts[] = {2, 8, 32}, intervals[] = {10, 25, 50, 100, 200, 500, 1000};

    for (size_t n = 0; n < COUNT(counts); n++) {
        for (size_t i = 0; i < COUNT(intervals); i++) {
            struct scenario scenario = usual;

            scenario.nodes = counts[n];
            scenario.interval_ms = intervals[i];
            struct outcome outcome = run(&scenario);
            printf("error %u %u %.2f %.2f %llu\n", counts[n], intervals[i], error_of(&outcome),
                   outcome.steady, (unsigned long long) outcome.commands / scenario.seconds);
        }
    }
}

static void print_clocks(void)
{
    static const struct {
        unsigned skew_ms;
        int drift_ppm, jump_ms;
    } rows[] = {{0, 0, 0},   {7200000, 0, 0}, {0, 200, 0},  {0, 10000, 0},
                {0, 0, 100}, {0, 0, 1000},    {0, 0, -100}, {0, 0, -1000}};

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct scenario scenario = usual;

        scenario.skew_ms = rows[i].skew_ms;
        scenario.drift_ppm = rows[i].drift_ppm;
        scenario.store_jump_ms = rows[i].jump_ms;
        struct outcome outcome = run(&scenario);
        printf("clock %u %d %d %.2f\n", rows[i].skew_ms, rows[i].drift_ppm, rows[i].jump_ms,
               error_of(&outcome));
    }
}

static void print_partition(void)
{
    struct scenario scenario = usual;
    unsigned passed[100] = {0};

    scenario.cut_nodes = 4;
    scenario.cut_from_s = 3;
    scenario.cut_to_s = 7;
    scenario.passed_by_100ms = passed;
    run(&scenario);
    for (unsigned i = 0; i < COUNT(passed); i++) {
        printf("partition %u %u\n", i, passed[i] * 10);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eventual),   cmocka_unit_test(strict), cmocka_unit_test(below),
        cmocka_unit_test(repeatable), cmocka_unit_test(clocks), cmocka_unit_test(partition),
    };

    if (argc == 2 && strcmp(argv[1], "table") == 0) {
        print_errors();
        print_clocks();
        print_partition();
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
