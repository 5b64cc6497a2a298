/* lua_memory_limit: looked at where Lua can fail, and not where it allocates. */
#include "lua/vm/memory.h"

#include <lauxlib.h>
#include <stdlib.h>

#include "base/clock.h"
#include "lua/vm/interrupt.h"
#include "lua/vm/library.h"
#include "lua/vm/thread.h"
#include "server/generation.h"

/* What has to be free after a collection for the script to go on: a collection for each few
 * allocations is no way to go on. */
#define FREE_SHARE 8

#define FINALIZERS_MOST 100 /* that may fail in one collection */
#define LOG_EVERY_MS 60000
#define GRACE_SHARE                                                                                \
    4 /* part of the limit that may be taken beyond it where a script has failed                   \
       */
#define LARGE_PART ((size_t) 1 << 20) /* bytes of a part of a table that may be refused */

/* Does a finalizer run? Lua's collector rests then. */
static bool is_collecting(const struct script_vm *vm)
{
    return lua_gc(vm->state, LUA_GCISRUNNING, 0) == 0 && !vm->is_collector_stopped;
}

/*
 * There is too much. Interpreted code comes to script_memory_is_short by its next instruction.
 * Compiled code leaves its trace only where the collector has marked all: it is made to do that at
 * its next allocation. These calls set numbers, and allocate nothing.
 */
static void limit_reached(struct script_vm *vm)
{
    if ((vm->interrupts & SCRIPT_INTERRUPT_MEMORY) == 0) {
        script_interrupt(vm, SCRIPT_INTERRUPT_MEMORY);
    }
    if (!vm->is_collector_hurried && !is_collecting(vm)) {
        vm->is_collector_hurried = true;
        vm->step_share = lua_gc(vm->state, LUA_GCSETSTEPMUL, 0);
        lua_gc(vm->state, LUA_GCRESTART, 0);
    }
}

/*
 * Compiled loops that do nothing but fill a table never leave their trace. Of all that compiled
 * code asks for, LuaJIT lives with a NULL for the parts of tables, which it asks for before it
 * changes anything: 8 bytes for 2^n + 1 slots, 24 for each of 2^n nodes.
 */
static bool is_part_of_table(size_t size)
{
    size_t slots = size / 8 - 1;
    size_t nodes = size / 24;

    return (size % 8 == 0 && (slots & (slots - 1)) == 0) ||
           (size % 24 == 0 && (nodes & (nodes - 1)) == 0);
}

static bool is_refused(const struct script_vm *vm, size_t old_size, size_t size)
{
    uint64_t limit = vm->options->memory_limit;

    return limit != 0 && size >= LARGE_PART && size > old_size &&
           vm->memory + (size - old_size) > 2 * limit && is_part_of_table(size) &&
           script_running() != NULL;
}

void *script_memory_alloc(void *arg, void *old, size_t old_size, size_t size)
{
    struct script_vm *vm = arg;

    if (size == 0) {
        vm->memory -= old_size;
        free(old);
        return NULL;
    }
    void *new = is_refused(vm, old_size, size) ? NULL : realloc(old, size);
    if (new == NULL) {
        return NULL;
    }
    vm->memory += size - old_size;
    /* Where no thread runs nobody would catch an error: there the limit is not heeded. */
    if (size > old_size && vm->options->memory_limit != 0 && vm->memory > vm->check_at &&
        script_running() != NULL) {
        limit_reached(vm);
    }
    return new;
}

void script_memory_show(struct script_vm *vm, uint64_t bytes)
{
    if (counters_mine->pid == 0) {
        return; /* the master, or a worker that does not count any more */
    }
    uint64_t before = vm->shown_in == counters_mine ? vm->memory_shown : 0;
    counters_mine->lua_memory += bytes - before;
    vm->memory_shown = bytes;
    vm->shown_in = counters_mine;
}

static int collect(lua_State *L)
{
    lua_gc(L, LUA_GCCOLLECT, 0);
    return 0;
}

void script_memory_collect(lua_State *L)
{
    for (int i = 0; i < FINALIZERS_MOST && lua_cpcall(L, collect, NULL) != 0; i++) {
        const struct log *log =
            script_running() != NULL ? script_running()->subject->log : log_main;
        const char *message = lua_tostring(L, -1);

        log_error(log, 0, "lua finalizer failed: %s", message != NULL ? message : "unknown reason");
        lua_pop(L, 1);
    }
}

bool script_memory_is_short(struct script_vm *vm, lua_State *L)
{
    uint64_t limit = vm->options->memory_limit;

    if (script_running() == NULL) {
        return false;
    }
    script_memory_collect(L);
    if (vm->is_collector_hurried) {
        vm->is_collector_hurried = false;
        lua_gc(L, LUA_GCSETSTEPMUL, vm->step_share);
    }
    if (vm->is_collector_stopped) {
        lua_gc(L, LUA_GCSTOP, 0);
    }
    if (vm->memory <= limit - limit / FREE_SHARE) {
        vm->check_at = limit;
        vm->failed_at = 0;
        return false;
    }
    /* What failed leaves things on stacks that are still seen there for a while: nobody else fails
     * for those. */
    uint64_t most = vm->failed_at + limit / FREE_SHARE;
    if (vm->failed_at != 0 && vm->memory < most && vm->memory < limit + limit / GRACE_SHARE) {
        vm->check_at = most;
        return false;
    }
    vm->failed_at = vm->memory;
    vm->check_at = vm->memory;
    counters_mine->limited++;
    if (vm->limit_logged_ms == 0 || clock_now.now_ms - vm->limit_logged_ms >= LOG_EVERY_MS) {
        vm->limit_logged_ms = clock_now.now_ms;
        log_error(&vm->options->log, 0,
                  "lua_memory_limit of %llu bytes is reached: scripts fail for want of memory",
                  (unsigned long long) limit);
    }
    return true;
}

SCRIPT_TEXT(script_memory_text, "src/lua/library/memory.lua")

void script_memory_add(struct script_vm *vm, lua_State *L)
{
    if (vm->options->memory_limit != 0) {
        lua_pushnumber(L, (lua_Number) vm->options->memory_limit);
        script_text_run(L, "memory", SCRIPT_TEXT_OF(script_memory_text), 1);
    }
}
