/* Lua waits where it is called: many threads that wait in every place of Lua, are woken in any
 * order, killed and collected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "lua/tasks/tasks.h"
#include "lua/vm/function.h"
#include "lua/vm/library.h"
#include "server/generation.h"

#ifdef __SANITIZE_ADDRESS__
enum { RUNS = 60, ROUNDS = 4, STACK = 4 << 20 };
#else
enum { RUNS = 500, ROUNDS = 8, STACK = 2 << 20 };
#endif

SCRIPT_TEXT(waits_text, "tests/lua/waits.lua")

/* A run: its entry, and what becomes of it. */
struct run {
    struct script_subject subject;
    struct fiber *fiber; /* while it waits */
    int number;
    bool has_ended;
    enum script_end end;
};

/* Who waits: on the stack of the function. */
struct waiter {
    struct wait_point point;
    unsigned position; /* in waiters */
};

static struct waiter *waiters[4 * RUNS];
static unsigned waiter_count;
static struct run runs[RUNS];
static unsigned finished, waits;
static bool is_broken;

static int do_wait(lua_State *L, struct script_thread *thread)
{
    struct waiter waiter = {.position = waiter_count};

    waiters[waiter_count++] = &waiter;
    fiber_wait(&waiter.point, FIBER_NEVER);
    waiters[waiter.position] = waiters[--waiter_count];
    waiters[waiter.position]->position = waiter.position;
    lua_pushinteger(L, container_of(thread->subject, struct run, subject)->number);
    return 1;
}

static int do_finished(lua_State *L, struct script_thread *thread)
{
    (void) L;
    (void) thread;
    finished++;
    return 0;
}

static int do_broken(lua_State *L, struct script_thread *thread)
{
    (void) L;
    (void) thread;
    is_broken = true;
    return 0;
}

static const struct script_row rows[] = {{"wait", do_wait, 0, .waits = true},
                                         {"finished", do_finished, 0, false},
                                         {"broken", do_broken, 0, false},
                                         {0}};

static void add(struct script_vm *vm, lua_State *L)
{
    (void) vm;
    script_tasks_add(L);
    script_add(L, rows);
    lua_pushinteger(L, ROUNDS);
    lua_setfield(L, -2, "rounds");
}

static const struct script_subsystem subsystem = {.name = "test", .api_version = 1, .add = add};
static struct script_vm_options options = {.subsystem = &subsystem, .idle_threads = 16};
static const struct script_subject_kind kind = {.name = "test"};

static int push_script(lua_State *L, void *arg)
{
    const struct run *run = arg;

    script_text_load(L, "waits", SCRIPT_TEXT_OF(waits_text));
    lua_pushinteger(L, run->number);
    return 1;
}

static void run_one(void *arg)
{
    struct run *run = arg;
    const struct script_call call = {.subject = &run->subject,
                                     .phase = SCRIPT_CONTENT,
                                     .begin = push_script,
                                     .arg = run};

    run->end = script_run(&call);
    run->has_ended = true;
}

/* Wakes somebody, cancels a run now and then, and lets those that are ready have their turns. */
static void step(unsigned *cancelled)
{
    struct waiter *waiter = waiters[(unsigned) rand() % waiter_count];
    struct run *run = &runs[rand() % RUNS];

    waits++;
    wait_signal(&waiter->point);
    if (rand() % 5000 == 0 && !run->has_ended) {
        fiber_cancel(run->fiber);
        ++*cancelled;
    }
    fiber_turn();
    while (fiber_has_ready() || fiber_has_yielded()) {
        fiber_run_ready();
        fiber_turn();
    }
}

static void threads_wait_in_every_place_of_lua(void **state)
{
    const struct fiber_options pool = {.stack_size = STACK};
    struct script_vm *vm;
    unsigned cancelled = 0, ended = 0, cut = 0;

    (void) state;
    srand(7);
    assert_int_equal(fiber_pool_init(&pool), 0);
    vm = script_vm_new(&options, log_main);
    assert_non_null(vm);
    for (int i = 0; i < RUNS; i++) {
        runs[i].number = i + 1;
        script_subject_begin(&runs[i].subject, &kind, vm, log_main);
        fiber_start(run_one, &runs[i], &runs[i].fiber);
    }
    while (waiter_count != 0) {
        step(&cancelled);
    }
    for (int i = 0; i < RUNS; i++) {
        assert_true(runs[i].has_ended);
        ended += runs[i].end == SCRIPT_ENDED;
        cut += runs[i].end == SCRIPT_CANCELLED;
        script_subject_end(&runs[i].subject);
    }
    assert_false(is_broken);
    assert_int_equal(ended, finished);
    assert_int_equal(ended + cut, RUNS);
    assert_true(cut <= cancelled);
    assert_int_equal(vm->thread_count, 0);
    print_message("%u waits, %u runs ended, %u cancelled\n", waits, ended, cut);
    script_vm_free(vm);
    fiber_pool_destroy();
}

int main(void)
{
    static struct slot_counters counters;
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_wait_in_every_place_of_lua)};

    counters_mine = &counters;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
