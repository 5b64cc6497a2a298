/* ngx.timer.*: Lua that runs later, on a fiber of its own, for nobody. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fatal.h"
#include "event/loop.h"
#include "lua/tasks/tasks.h"
#include "lua/vm/function.h"
#include "server/generation.h"

#define SECONDS_MOST 1e12 /* of a delay */
#define WHOM_MAX 256      /* bytes of what its lines say of whom it was made for */

/* A timer; it is on the heap from its making until it has run for the last time. */
struct script_timer {
    struct script_subject subject;
    struct log log; /* of the subject: as of the thread that made it, but for what describe adds */
    struct timer timer;
    struct list node; /* in pending, or alone */
    struct script_vm *vm;
    int function; /* reference to a table: the function, and its arguments after it */
    int arguments;
    uint64_t every_ms; /* 0 = it runs once */
    bool is_premature;
    bool is_late; /* it was made when its generation was ending already: it runs as it would have */
    char whom[WHOM_MAX]; /* ", client: …, server: …", or empty */
};

/* Those that wait, of all VMs of this process. */
static struct list pending = {&pending, &pending};

/* What a VM counts. */
struct timer_counts {
    int64_t pending, running;
};

static struct timer_counts *counts_of(struct script_vm *vm)
{
    if (vm->parts[SCRIPT_PART_TASKS] == NULL) {
        vm->parts[SCRIPT_PART_TASKS] = calloc(1, sizeof(struct timer_counts));
        if (vm->parts[SCRIPT_PART_TASKS] == NULL) {
            fatal_no_memory(sizeof(struct timer_counts));
        }
    }
    return vm->parts[SCRIPT_PART_TASKS];
}

static void script_timer_describe(const struct log *log, struct writer *out)
{
    const struct script_timer *timer = log->subject; /* the log may be a copy */

    log_member(out, "context");
    writer_put(out, STR("ngx.timer"));
    writer_put(out, str_of(timer->whom));
}

static void whom(struct script_subject *subject, struct writer *out)
{
    writer_put(out, str_of(container_of(subject, struct script_timer, subject)->whom));
}

static const struct script_subject_kind timer_kind = {.name = "timer", .whom = whom};

static void timer_free(struct script_timer *timer)
{
    timer_remove(&timer->timer);
    list_remove(&timer->node);
    luaL_unref(timer->vm->state, LUA_REGISTRYINDEX, timer->function);
    script_subject_end(&timer->subject);
    free(timer);
}

/* ---- running */

static int push_call(lua_State *L, void *arg)
{
    const struct script_timer *timer = arg;

    lua_checkstack(L, timer->arguments + LUA_MINSTACK);
    lua_rawgeti(L, LUA_REGISTRYINDEX, timer->function);
    lua_rawgeti(L, 1, 1);
    lua_pushboolean(L, timer->is_premature);
    for (int i = 1; i <= timer->arguments; i++) {
        lua_rawgeti(L, 1, i + 1);
    }
    lua_remove(L, 1);
    return timer->arguments + 1;
}

static void script_timer_run(void *arg)
{
    struct script_timer *timer = arg;
    const struct script_call call = {.subject = &timer->subject,
                                     .phase = SCRIPT_TIMER,
                                     .begin = push_call,
                                     .arg = timer};

    script_run(&call);
    counts_of(timer->vm)->running--;
    timer_free(timer);
}

/* "content_by_lua(nginx.conf:41):2" of the timer's function, into `out`. */
static void put_function(const struct script_timer *timer, struct writer *out)
{
    lua_State *L = timer->vm->state;
    lua_Debug about = {0};

    lua_rawgeti(L, LUA_REGISTRYINDEX, timer->function);
    lua_rawgeti(L, -1, 1);
    if (lua_getinfo(L, ">S", &about)) {
        writer_printf(out, "%s:%d", about.source, about.linedefined);
    }
    lua_pop(L, 1);
}

static void script_timer_refuse(struct script_timer *timer, const char *why)
{
    char place[WHOM_MAX];
    struct writer writer = {place, place + sizeof(place) - 1};

    put_function(timer, &writer);
    *writer.at = '\0';
    log_alert(&timer->log, 0, "lua failed to run timer with function defined at %s: %s", place,
              why);
    counters_mine->limited++;
    timer_free(timer);
}

static struct script_timer *timer_again(struct script_timer *timer);

/* Its time has come: takes it from those that wait. */
static void go(struct script_timer *timer)
{
    struct script_vm *vm = timer->vm;
    struct timer_counts *counts = counts_of(vm);

    list_remove(&timer->node);
    list_init(&timer->node);
    counts->pending--;
    if (timer->every_ms != 0 && !timer->is_premature) {
        timer_again(timer);
    }
    if (counts->running >= vm->options->running_timers) {
        char why[WHOM_MAX];

        snprintf(why, sizeof(why), "%s%lld lua_max_running_timers are not enough",
                 script_vm_is_stream(vm) ? "stream lua: " : "",
                 (long long) vm->options->running_timers);
        script_timer_refuse(timer, why);
        return;
    }
    if (fiber_pool_left() <= capacity.reserve) {
        script_timer_refuse(timer, "no free fiber");
        return;
    }
    counts->running++;
    if (fiber_start(script_timer_run, timer, NULL) == FIBER_NO_STACK) {
        counts->running--;
        script_timer_refuse(timer, "no memory");
    }
}

static void fire(struct timer *timer)
{
    go(container_of(timer, struct script_timer, timer));
}

static bool is_ending(const struct script_vm *vm)
{
    return worker_is_quitting || vm->options->generation != generation_now;
}

void script_timers_end(const struct generation *generation)
{
    struct list due;
    struct list *next;

    list_init(&due);
    for (struct list *item = pending.next; item != &pending; item = next) {
        struct script_timer *timer = container_of(item, struct script_timer, node);

        next = item->next;
        if (timer->vm->options->generation == generation && !timer->is_late) {
            list_remove(item);
            list_push_back(&due, item);
        }
    }
    while (!list_is_empty(&due)) {
        struct script_timer *timer = container_of(due.next, struct script_timer, node);

        timer_clear(&timer->timer);
        timer->is_premature = true;
        go(timer);
    }
}

/* ---- making */

static struct script_timer *timer_new(struct script_vm *vm, const struct log *log, int function)
{
    struct script_timer *timer = calloc(1, sizeof(*timer));

    if (timer == NULL) {
        fatal_no_memory(sizeof(*timer));
    }
    timer->vm = vm;
    timer->is_late = is_ending(vm);
    timer->log = *log;
    timer->log.action = NULL;
    timer->log.describe = script_timer_describe;
    timer->log.subject = timer;
    timer->function = function;
    script_subject_begin(&timer->subject, &timer_kind, vm, &timer->log);
    timer_init(&timer->timer, fire);
    list_push_back(&pending, &timer->node);
    counts_of(vm)->pending++;
    return timer;
}

/* The next time of one that runs again and again. */
static struct script_timer *timer_again(struct script_timer *timer)
{
    lua_State *L = timer->vm->state;

    lua_rawgeti(L, LUA_REGISTRYINDEX, timer->function);
    struct script_timer *next = timer_new(timer->vm, &timer->log, luaL_ref(L, LUA_REGISTRYINDEX));

    next->arguments = timer->arguments;
    next->every_ms = timer->every_ms;
    next->subject.settings = timer->subject.settings;
    memcpy(next->whom, timer->whom, sizeof(next->whom));
    timer_set(&next->timer, clock_now.now_ms + next->every_ms);
    return next;
}

/* Packs the function and its arguments, from index 2 on; gives a reference. */
static int pack(lua_State *L)
{
    int count = lua_gettop(L) - 1;

    lua_createtable(L, count, 0);
    lua_insert(L, 2);
    for (int i = count; i >= 1; i--) {
        lua_rawseti(L, 2, i);
    }
    return luaL_ref(L, LUA_REGISTRYINDEX);
}

static int make(lua_State *L, struct script_thread *thread, bool is_every)
{
    int count = lua_gettop(L);

    if (count < 2) {
        return luaL_error(L, "expecting at least 2 arguments but got %d", count);
    }
    double delay = luaL_checknumber(L, 1);
    if (is_every && delay > -0.001 && delay < 0.001) {
        return luaL_error(L, "delay cannot be zero");
    }
    luaL_argcheck(L, lua_isfunction(L, 2) && !lua_iscfunction(L, 2), 2, "Lua function expected");
    if (thread == NULL || thread->phase == SCRIPT_INIT) {
        return luaL_error(L, "no request");
    }
    script_demand(L, thread, SCRIPT_ALL & ~SCRIPT_EXIT_WORKER);
    if (is_every && !(delay >= 0)) {
        return luaL_error(L, "delay cannot be negative"); /* it would never rest */
    }
    uint64_t delay_ms = delay > 0 ? (uint64_t) (fmin(delay, SECONDS_MOST) * 1000) : 0;
    struct script_vm *vm = thread->subject->vm;
    if (delay_ms != 0 && is_ending(vm)) {
        return script_fail(L, "process exiting");
    }
    if (counts_of(vm)->pending >= vm->options->pending_timers) {
        counters_mine->limited++;
        return script_fail(L, "too many pending timers");
    }
    struct script_timer *timer = timer_new(vm, thread->subject->log, pack(L));
    timer->arguments = count - 2;
    timer->every_ms = is_every ? delay_ms : 0;
    timer->subject.settings = thread->subject->settings;
    if (thread->subject->kind->whom != NULL) {
        struct writer writer = {timer->whom, timer->whom + sizeof(timer->whom) - 1};

        thread->subject->kind->whom(thread->subject, &writer);
        *writer.at = '\0';
    }
    timer_set(&timer->timer, clock_now.now_ms + delay_ms);
    lua_pushinteger(L, 1);
    return 1;
}

static int at(lua_State *L, struct script_thread *thread)
{
    return make(L, thread, false);
}

static int every(lua_State *L, struct script_thread *thread)
{
    return make(L, thread, true);
}

/* As at and every say it. */
static void demand_request(lua_State *L, const struct script_thread *thread)
{
    if (thread == NULL || thread->phase == SCRIPT_INIT) {
        luaL_error(L, "no request");
    }
}

static int running_count(lua_State *L, struct script_thread *thread)
{
    demand_request(L, thread);
    lua_pushinteger(L, (lua_Integer) counts_of(script_vm_of(L))->running);
    return 1;
}

static int pending_count(lua_State *L, struct script_thread *thread)
{
    demand_request(L, thread);
    lua_pushinteger(L, (lua_Integer) counts_of(script_vm_of(L))->pending);
    return 1;
}

static const struct script_row rows[] = {
    {"timer.at", at, 0, false},
    {"timer.every", every, 0, false},
    {"timer.running_count", running_count, 0, false},
    {"timer.pending_count", pending_count, 0, false},
    {0},
};

void script_timers_add(lua_State *L)
{
    script_add(L, rows);
}

/* ---- ngx.sleep, and what this package adds to ngx ---- */

static int do_sleep(lua_State *L, struct script_thread *thread)
{
    int count = lua_gettop(L);

    if (count != 1) {
        return luaL_error(L, "attempt to pass %d arguments, but accepted 1", count);
    }
    double seconds = luaL_checknumber(L, 1);
    if (!(seconds >= 0) || seconds > 1e12) {
        return luaL_error(L, "invalid sleep duration \"%d\"", (int) (seconds * 1000));
    }
    script_demand(L, thread, SCRIPT_WAITING);
    uint64_t delay_ms = (uint64_t) (seconds * 1000);
    if (delay_ms == 0) {
        fiber_yield();
    } else {
        fiber_sleep(clock_now.now_ms + delay_ms);
    }
    return 0;
}

static const struct script_row sleep_rows[] = {
    {"sleep", do_sleep, SCRIPT_WAITING | SCRIPT_ARGUMENTS_FIRST, .waits = true},
    {0},
};

void script_tasks_add(lua_State *L)
{
    script_add(L, sleep_rows);
    script_threads_add(L);
    script_timers_add(L);
    script_coroutines_add(L);
    script_semaphore_add(L);
}
