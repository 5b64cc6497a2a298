/* Threads of Lua on fibers: how they run, spawn others, wait for them and end. */
#include "lua/vm/thread.h"

#include <lauxlib.h>
#include <luajit.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/fatal.h"
#include "event/loop.h"
#include "lua/vm/failure.h"
#include "lua/vm/context.h"
#include "lua/vm/function.h"
#include "lua/vm/memory.h"
#include "lua/vm/statistics.h"
#include "server/generation.h"

static char
    threads_key; /* its address: spawned threads by coroutine, in the registry; its keys are weak */

/* ---- subjects ---- */

void script_subject_begin(struct script_subject *subject, const struct script_subject_kind *kind,
                          struct script_vm *vm, struct log *log)
{
    subject->kind = kind;
    subject->vm = vm;
    subject->log = log;
    subject->settings = NULL;
    subject->context = LUA_NOREF;
    subject->exit_code = 0;
    subject->runs_file = false;
    subject->failed_with = 0;
    list_init(&subject->threads);
    list_init(&subject->resources);
    list_push_back(&vm->subjects, &subject->node);
}

void script_subject_let_go(struct script_subject *subject)
{
    struct list *first;

    while ((first = list_pop_front(&subject->resources)) != NULL) {
        struct script_resource *resource = container_of(first, struct script_resource, node);

        list_init(&resource->node);
        resource->release(resource);
    }
}

void script_subject_end(struct script_subject *subject)
{
    struct script_vm *vm = subject->vm;

    script_subject_let_go(subject);
    script_context_drop(subject);
    list_remove(&subject->node);
    if (vm->is_private && list_is_empty(&vm->subjects)) {
        script_vm_free(vm);
    }
}

/* ---- nobody ---- */

struct script_nobody {
    struct script_subject
        subject; /* in no list of the VM's: it has nothing that would have to end */
    struct script_thread thread;
    struct log log;
};

static const struct script_subject_kind nobody_kind = {.name = "nobody"};

struct script_thread *script_nobody(struct script_vm *vm)
{
    struct script_nobody *nobody = vm->nobody;

    if (nobody == NULL) {
        nobody = calloc(1, sizeof(*nobody));
        if (nobody == NULL) {
            fatal_no_memory(sizeof(*nobody));
        }
        nobody->log = vm->options->log;
        script_subject_begin(&nobody->subject, &nobody_kind, vm, &nobody->log);
        nobody->subject.settings = vm->options->settings;
        list_remove(&nobody->subject.node);
        nobody->thread = (struct script_thread){.subject = &nobody->subject,
                                                .phase = SCRIPT_INIT,
                                                .entry = &nobody->thread};
        vm->nobody = nobody;
    }
    return &nobody->thread;
}

/* ---- threads ---- */

/* A Lua thread and what keeps it. */
struct made {
    lua_State *state;
    int reference;
};

/* Protected. */
static int make_state(lua_State *L)
{
    struct made *made = lua_touserdata(L, 1);

    made->state = lua_newthread(L);
    made->reference = luaL_ref(L, LUA_REGISTRYINDEX);
    return 0;
}

static void thread_begin(struct script_thread *thread, struct script_subject *subject,
                         enum script_phase phase)
{
    *thread = (struct script_thread){.state = thread->state,
                                     .at = thread->state,
                                     .reference = thread->reference,
                                     .subject = subject,
                                     .phase = phase,
                                     .entry = thread,
                                     .left_values = LUA_NOREF,
                                     .fiber = fiber_self()};
    subject->vm->thread_count++;
#ifdef OPENRESTY_LUAJIT
    lua_setexdata(thread->state, subject); /* what libraries take for the request */
#endif
    list_push_back(&subject->threads, &thread->node);
}

static struct script_thread *thread_new(struct script_subject *subject, enum script_phase phase,
                                        lua_State *state, int reference)
{
    struct script_thread *thread = malloc(sizeof(*thread));

    if (thread == NULL) {
        fatal_no_memory(sizeof(*thread));
    }
    *thread = (struct script_thread){.state = state, .reference = reference};
    thread_begin(thread, subject, phase);
    return thread;
}

/* One that was used before, or a new one; NULL: there is no memory for its Lua thread. */
static struct script_thread *thread_of_entry(struct script_subject *subject,
                                             enum script_phase phase)
{
    struct script_vm *vm = subject->vm;
    struct list *idle = list_pop_front(&vm->idle);

    if (idle != NULL) {
        struct script_thread *thread = container_of(idle, struct script_thread, node);

        vm->idle_count--;
        thread_begin(thread, subject, phase);
        return thread;
    }
    struct made made = {0};
    if (lua_cpcall(vm->state, make_state, &made) != 0) {
        lua_pop(vm->state, 1);
        return NULL;
    }
    return thread_new(subject, phase, made.state, made.reference);
}

void script_push_threads(lua_State *L)
{
    lua_pushlightuserdata(L, &threads_key);
    lua_rawget(L, LUA_REGISTRYINDEX);
    if (!lua_isnil(L, -1)) {
        return;
    }
    lua_pop(L, 1);
    lua_newtable(L);
    lua_newtable(L);
    lua_pushliteral(L, "k");
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
    lua_pushlightuserdata(L, &threads_key);
    lua_pushvalue(L, -2);
    lua_rawset(L, LUA_REGISTRYINDEX);
}

/* In the table of spawned threads: this one is what it is, or, with NULL, was one. L has room for a
 * few values. */
static void note_thread(lua_State *L, const struct script_thread *thread, const void *what)
{
    script_push_threads(L);
    lua_rawgeti(L, LUA_REGISTRYINDEX, thread->reference);
    if (what != NULL) {
        lua_pushlightuserdata(L, (void *) what);
    } else {
        lua_pushboolean(L, false);
    }
    lua_rawset(L, -3);
    lua_pop(L, 1);
}

/* Has it the globals of all others? A script may have given it its own: setfenv(0, ...). */
static bool has_usual_globals(const struct script_thread *thread)
{
    return lua_topointer(thread->state, LUA_GLOBALSINDEX) ==
           lua_topointer(thread->subject->vm->state, LUA_GLOBALSINDEX);
}

/* Lua threads of entries are used again, where nobody has seen them fail or leave in the middle;
 * spawned ones scripts know. */
static void thread_free(struct script_thread *thread)
{
    struct script_vm *vm = thread->subject->vm;
    bool is_entry = thread->entry == thread;

    script_memory_show(vm, vm->memory);
    list_remove(&thread->node);
    vm->thread_count--;
    if (is_entry && thread->end == SCRIPT_ENDED && !thread->is_killed &&
        vm->idle_count < vm->options->idle_threads && has_usual_globals(thread)) {
        lua_settop(thread->state, 0);
        vm->idle_count++;
        list_push_front(&vm->idle, &thread->node);
        return;
    }
    if (!is_entry) {
        note_thread(vm->state, thread, NULL);
    }
    luaL_unref(vm->state, LUA_REGISTRYINDEX, thread->reference);
    free(thread);
}

/* Does a finalizer run? Lua collects no garbage then, as when a script has stopped that. */
static bool is_in_finalizer(lua_State *L)
{
    return lua_gc(L, LUA_GCISRUNNING, 0) == 0 && !script_vm_of(L)->is_collector_stopped;
}

void script_demand_leavable(lua_State *L)
{
    if (script_vm_of(L)->is_in_hook || is_in_finalizer(L)) {
        luaL_error(L, "attempt to yield across C-call boundary");
    }
}

_Noreturn void script_leave(struct script_thread *thread, enum script_end end)
{
    thread->end = end;
    longjmp(*thread->leave, 1);
}

void script_resumed(struct script_thread *thread)
{
    script_statistics_refresh();
    if (__builtin_expect(thread->is_killed || (thread->fiber != NULL && fiber_is_cancelled()), 0)) {
        script_demand_leavable(thread->at);
        script_leave(thread, SCRIPT_CANCELLED);
    }
}

/* Runs the function below the arguments on top of the thread's stack; its results stay, from 1 on.
 * Gives how it ended. */
static enum script_end run_protected(struct script_thread *thread, int arguments)
{
    lua_State *L = thread->state;
    struct script_thread *outer = script_running();
    jmp_buf leave;

    lua_rawgeti(L, LUA_REGISTRYINDEX, thread->subject->vm->failure_seen);
    lua_insert(L, 1);
    fiber_word = thread;
    thread->leave = &leave;
    if (setjmp(leave) == 0) {
        int status = lua_pcall(L, arguments, LUA_MULTRET, 1);

        thread->end = status == 0 ? SCRIPT_ENDED : SCRIPT_FAILED;
        thread->lacks_memory = status == LUA_ERRMEM;
        lua_remove(L, 1);
        script_failure_restore(thread);
    }
    thread->leave = NULL;
    if (thread->end == SCRIPT_FAILED) {
        script_failure_end(thread);
    }
    fiber_word = outer;
    return thread->end;
}

/* ---- entry threads ---- */

/* One of the run that has not ended, or NULL. Ended ones are freed on the way; with kills_all the
 * others are killed. */
static struct script_thread *look_for_child(struct script_thread *entry, bool kills_all)
{
    struct script_thread *running = NULL;
    struct list *next;

    for (struct list *item = entry->subject->threads.next; item != &entry->subject->threads;
         item = next) {
        struct script_thread *child = container_of(item, struct script_thread, node);

        next = item->next;
        if (child->entry != entry || child == entry) {
            continue;
        }
        if (child->has_ended) {
            thread_free(child);
            continue;
        }
        child->is_forgotten = true;
        if (kills_all && !child->is_killed) {
            script_kill(child);
        }
        running = child;
    }
    return running;
}

/* Waits until all threads of this run have ended. Unless it went well so far, and continues like
 * that, they are killed. */
static void end_run(struct script_thread *entry)
{
    while (entry->end == SCRIPT_ENDED && look_for_child(entry, false) != NULL) {
        if (fiber_wait(&entry->child_ended, FIBER_NEVER) == WAIT_CANCELLED) {
            entry->end = SCRIPT_CANCELLED;
        }
    }
    if (entry->fiber != NULL) {
        fiber_shield_begin();
        while (look_for_child(entry, true) != NULL) {
            fiber_wait(&entry->child_ended, FIBER_NEVER);
        }
        fiber_shield_end();
    }
    if (entry->run_left) {
        entry->end = SCRIPT_LEFT;
    }
    if (entry->is_killed && entry->fiber != NULL) {
        fiber_interrupt_end();
    }
}

static enum script_end run_entry(struct script_thread *thread, const struct script_call *call)
{
    struct script_subject *subject = call->subject;
    lua_State *L = thread->state;

    script_statistics_refresh();

    if (call->code != NULL) {
        int status = script_code_push(subject, L, call->code);

        if (status != 0) {
            script_failure_load(subject, call->phase, status, lua_tostring(L, -1));
            return SCRIPT_FAILED;
        }
    }
    enum script_end end =
        run_protected(thread, call->begin != NULL ? call->begin(L, call->arg) : 0);
    if (end == SCRIPT_ENDED && call->finish != NULL) {
        call->finish(L, call->arg);
    }
    return end;
}

enum script_end script_run(const struct script_call *call)
{
    struct script_thread *outer = script_running();

    loop_finish_urgent();
    fiber_word = NULL;
    struct script_thread *thread = thread_of_entry(call->subject, call->phase);
    if (thread == NULL) {
        fiber_word = outer;
        script_failure_load(call->subject, call->phase, 500, "not enough memory");
        return SCRIPT_FAILED;
    }
    thread->end = run_entry(thread, call);
    if (thread->node.next != &call->subject->threads || thread->is_killed || thread->run_left) {
        end_run(thread);
    }
    enum script_end end = thread->end;
    thread_free(thread);
    fiber_word = outer;
    return end;
}

/* ---- spawned threads ---- */

/* What a thread leaves behind when it ends: its children have no parent, and threads that wait for
 * it are woken. */
static void tell_end(struct script_thread *thread)
{
    struct script_thread *entry = thread->entry;

    if (thread->children != 0) {
        list_each(item, &thread->subject->threads) {
            struct script_thread *child = container_of(item, struct script_thread, node);

            if (child->parent == thread) {
                child->parent = NULL;
            }
        }
    }
    if (thread->end == SCRIPT_LEFT && !entry->run_left) {
        entry->run_left = true;
        script_kill(entry);
    }
    /* A parent that waits runs next, before threads that are ready: scripts see the results in the
     * order of the ends. */
    if (thread->parent != NULL) {
        wait_signal_first(&thread->parent->child_ended);
    }
    if (thread->parent != entry) {
        wait_signal_later(&entry->child_ended);
    }
}

static void run_spawned(void *arg)
{
    struct script_thread *thread = arg;
    int arguments = lua_gettop(thread->state) - 1;

    thread->fiber = fiber_self();
    run_protected(thread, arguments);
    thread->has_ended = true;
    thread->fiber = NULL;
    tell_end(thread);
    fiber_detach(&thread->handle); /* who waits does so at child_ended, and may free the thread */
    if (thread->is_forgotten || thread->parent == NULL) {
        script_thread_forget(thread);
    }
}

enum script_coroutine script_thread_of(lua_State *L, int index, struct script_thread **out)
{
    lua_pushvalue(L, index);
    script_push_threads(L);
    lua_insert(L, -2);
    lua_rawget(L, -2);
    enum script_coroutine kind = lua_isnil(L, -1)       ? COROUTINE_PLAIN
                                 : lua_isboolean(L, -1) ? COROUTINE_FORGOTTEN
                                                        : COROUTINE_THREAD;
    *out = lua_touserdata(L, -1);
    lua_pop(L, 2);
    return kind;
}

void script_thread_forget(struct script_thread *thread)
{
    thread->is_forgotten = true;
    if (thread->has_ended) {
        thread_free(thread);
    } else {
        note_thread(thread->subject->vm->state, thread, NULL);
    }
}

static enum fiber_started start_fiber(struct script_thread *thread)
{
    const struct script_subject_kind *kind = thread->subject->kind;

    if (fiber_pool_left() <= capacity.reserve) {
        return FIBER_NO_STACK;
    }
    return kind->start != NULL ? kind->start(thread->subject, run_spawned, thread, &thread->handle)
                               : fiber_start_joinable(run_spawned, thread, &thread->handle);
}

/* A thread with a coroutine of its own, which takes what is on top of `from`, and stands there
 * instead. May throw. */
static struct script_thread *thread_of_coroutine(struct script_thread *parent, lua_State *from,
                                                 int arguments)
{
    lua_State *state = lua_newthread(from);

    lua_pushvalue(from, -1);
    int reference = luaL_ref(from, LUA_REGISTRYINDEX);

    lua_insert(from, -2 - arguments);
    lua_checkstack(state, arguments + LUA_MINSTACK);
    lua_xmove(from, state, arguments + 1);
    struct script_thread *thread = thread_new(parent->subject, parent->phase, state, reference);
    thread->entry = parent->entry;
    thread->parent = parent;
    thread->spawner = from;
    thread->has_ended =
        true; /* until its fiber has started: should the next call throw, the run frees it */
    parent->children++;
    note_thread(from, thread, thread);
    return thread;
}

struct script_thread *script_spawn(struct script_thread *parent, lua_State *from, int arguments)
{
    struct script_thread *thread = thread_of_coroutine(parent, from, arguments);
    bool takes_turns = parent->fiber != NULL && parent->fiber == fiber_self();

    thread->has_ended = false;
    if (takes_turns) {
        fiber_queue();
    }
    enum fiber_started started = start_fiber(thread);
    if (takes_turns) {
        fiber_await_turn();
    }
    if (started == FIBER_NO_STACK) {
        counters_mine->limited++;
        log_error(parent->subject->log, 0, "lua has no fiber left for a thread");
        thread->has_ended = true;
        script_thread_forget(thread);
        lua_pushliteral(from, "no memory");
        return NULL;
    }
    return thread;
}

void script_kill(struct script_thread *thread)
{
    if (thread->is_killed) {
        return;
    }
    thread->is_killed = true;
    if (thread->fiber != NULL) {
        fiber_interrupt(thread->fiber);
    }
}

void script_demand_abortable(lua_State *L, const struct script_thread *thread)
{
    list_each(item, &thread->subject->threads) {
        const struct script_thread *other = container_of(item, struct script_thread, node);

        if (other->entry == thread->entry && other->subrequests != 0) {
            luaL_error(L, "attempt to abort with pending subrequests");
        }
    }
}
