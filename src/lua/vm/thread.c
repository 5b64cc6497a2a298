/* Threads of Lua on fibers: how they run, spawn others, wait for them and end. */
#include "lua/vm/thread.h"

#include <lauxlib.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/fatal.h"
#include "lua/vm/function.h"

#define IDLE_MAX 1024 /* Lua threads that are kept for others */

struct script_thread *script_running;

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
    subject->own_vm = false;
    list_init(&subject->threads);
    list_init(&subject->resources);
    list_push_back(&vm->subjects, &subject->link);
}

void script_subject_end(struct script_subject *subject)
{
    struct list *first;

    while ((first = list_pop_front(&subject->resources)) != NULL) {
        struct script_resource *resource = container_of(first, struct script_resource, link);

        list_init(&resource->link);
        resource->release(resource);
    }
    luaL_unref(subject->vm->state, LUA_REGISTRYINDEX, subject->context);
    subject->context = LUA_NOREF;
    list_remove(&subject->link);
    if (subject->own_vm) {
        script_vm_free(subject->vm);
    }
}

/* ---- threads ---- */

static struct script_thread *thread_new(struct script_vm *vm)
{
    struct list *idle = list_pop_front(&vm->idle);
    struct script_thread *thread;

    if (idle != NULL) {
        vm->idle_count--;
        thread = container_of(idle, struct script_thread, link);
    } else {
        thread = calloc(1, sizeof(*thread));
        if (thread == NULL) {
            fatal_no_memory(sizeof(*thread));
        }
        thread->state = lua_newthread(vm->state);
        thread->reference = luaL_ref(vm->state, LUA_REGISTRYINDEX);
    }
    vm->thread_count++;
    thread->end = SCRIPT_ENDED;
    thread->has_ended = false;
    thread->is_killed = false;
    thread->parent = NULL;
    thread->tasks = NULL;
    thread->fiber = fiber_self();
    thread->handle = (struct fiber_handle){0};
    thread->ended = (struct wait_point){0};
    return thread;
}

static struct script_thread *thread_begin(struct script_subject *subject, enum script_phase phase)
{
    struct script_thread *thread = thread_new(subject->vm);

    thread->subject = subject;
    thread->phase = phase;
    thread->entry = thread;
    list_push_back(&subject->threads, &thread->link);
    return thread;
}

/* A Lua thread that came to its end is used again; one that was left in the middle is not. */
static void thread_free(struct script_thread *thread)
{
    struct script_vm *vm = thread->subject->vm;

    list_remove(&thread->link);
    vm->thread_count--;
    if ((thread->end == SCRIPT_ENDED || thread->end == SCRIPT_FAILED) && vm->idle_count < IDLE_MAX) {
        lua_settop(thread->state, 0);
        vm->idle_count++;
        list_push_front(&vm->idle, &thread->link);
        return;
    }
    luaL_unref(vm->state, LUA_REGISTRYINDEX, thread->reference);
    free(thread);
}

void script_thread_forget(struct script_thread *thread)
{
    thread_free(thread);
}

_Noreturn void script_leave(struct script_thread *thread, enum script_end end)
{
    thread->end = end;
    longjmp(thread->leave, 1);
}

void script_resumed(struct script_thread *thread)
{
    script_running = thread;
    if (__builtin_expect(thread->is_killed || (thread->fiber != NULL && fiber_is_cancelled()), 0)) {
        script_leave(thread, SCRIPT_CANCELLED);
    }
}

/* The message of an error becomes one with the ways that led to it. */
static int add_traceback(lua_State *L)
{
    const char *message = lua_tostring(L, 1);

    lua_pushstring(L, message != NULL ? message : "unknown reason");
    luaL_traceback(L, L, NULL, 1);
    luaL_gsub(L, lua_tostring(L, -1), "stack traceback:", "\nstack traceback:\ncoroutine 0:");
    lua_remove(L, -2);
    lua_concat(L, 2);
    return 1;
}

/* Runs the function below the arguments on top of the thread's stack; its results stay, from 1 on. Gives how it ended. */
static enum script_end run_protected(struct script_thread *thread, int arguments)
{
    lua_State *L = thread->state;
    struct script_thread *outer = script_running;

    lua_pushcfunction(L, add_traceback);
    lua_insert(L, 1);
    script_running = thread;
    if (setjmp(thread->leave) == 0) {
        bool is_well = lua_pcall(L, arguments, LUA_MULTRET, 1) == 0;

        thread->end = is_well ? SCRIPT_ENDED : SCRIPT_FAILED;
        lua_remove(L, 1);
    }
    script_running = outer;
    return thread->end;
}

/* ---- entry threads ---- */

static void log_failure(const struct script_thread *thread, const char *what)
{
    const char *message = lua_tostring(thread->state, -1);

    log_error(thread->subject->log, 0, "%s: runtime error: %s", what, message != NULL ? message : "unknown reason");
}

/* Waits until all threads that this run has spawned have ended; when it has failed they are killed first. */
static void end_children(struct script_thread *entry)
{
    struct script_subject *subject = entry->subject;

    list_each (item, &subject->threads) {
        struct script_thread *child = container_of(item, struct script_thread, link);

        if (child->entry == entry && child != entry && !child->has_ended && entry->end != SCRIPT_ENDED) {
            script_kill(child);
        }
    }
    for (;;) {
        struct script_thread *running = NULL;

        list_each (item, &subject->threads) {
            struct script_thread *child = container_of(item, struct script_thread, link);

            if (child->entry == entry && child != entry) {
                running = child;
                break;
            }
        }
        if (running == NULL) {
            return;
        }
        if (running->has_ended) {
            thread_free(running);
        } else if (fiber_wait(&entry->ended, FIBER_NEVER) == WAIT_CANCELLED) {
            script_kill(running);
            fiber_shield_begin();
            fiber_wait(&entry->ended, FIBER_NEVER);
            fiber_shield_end();
        }
    }
}

enum script_end script_run(const struct script_call *call)
{
    struct script_subject *subject = call->subject;
    struct script_thread *thread = thread_begin(subject, call->phase);
    lua_State *L = thread->state;
    enum script_end end = SCRIPT_FAILED;

    if (call->code != NULL && !script_code_push(subject->vm, L, call->code)) {
        log_error(subject->log, 0, "%s", lua_tostring(L, -1));
    } else {
        int arguments = call->begin != NULL ? call->begin(L, call->arg) : 0;

        end = run_protected(thread, arguments);
        if (end == SCRIPT_FAILED && (call->phase & SCRIPT_WAITING) == 0) {
            const char *message = lua_tostring(L, -1);
            log_error(subject->log, 0, "failed to run %s: %s", script_phase_text(call->phase),
                      message != NULL ? message : "unknown reason");
        } else if (end == SCRIPT_FAILED) {
            log_failure(thread, "lua entry thread aborted");
        } else if (end == SCRIPT_ENDED && call->finish != NULL) {
            call->finish(L, call->arg);
        }
    }
    thread->end = end;
    end_children(thread);
    end = thread->end;
    thread_free(thread);
    return end;
}

/* ---- spawned threads ---- */

static void run_spawned(void *arg)
{
    struct script_thread *thread = arg;
    int arguments = lua_gettop(thread->state) - 1;

    thread->fiber = fiber_self();
    if (run_protected(thread, arguments) == SCRIPT_FAILED) {
        log_failure(thread, "lua user thread aborted");
    }
    thread->has_ended = true;
    thread->fiber = NULL;
    /* ngx.exit and its kin end the whole run, not the thread alone. */
    if (thread->end == SCRIPT_LEFT && !thread->entry->has_ended) {
        thread->entry->end = SCRIPT_LEFT;
        script_kill(thread->entry);
    }
    wait_signal_later(&thread->entry->ended);
}

struct script_thread *script_spawn(struct script_thread *parent, lua_State *from, int arguments)
{
    struct script_subject *subject = parent->subject;
    struct script_thread *thread = thread_begin(subject, parent->phase);
    enum fiber_started started;

    thread->entry = parent->entry;
    thread->parent = parent;
    lua_xmove(from, thread->state, arguments + 1);
    if (subject->kind->start != NULL) {
        started = subject->kind->start(subject, run_spawned, thread, &thread->handle);
    } else {
        started = fiber_start_joinable(run_spawned, thread, &thread->handle);
    }
    script_running = parent;
    if (started == FIBER_NO_STACK) {
        thread_free(thread);
        lua_pushliteral(from, "no memory");
        return NULL;
    }
    return thread;
}

void script_kill(struct script_thread *thread)
{
    thread->is_killed = true;
    if (thread->fiber != NULL) {
        fiber_cancel(thread->fiber);
    }
}

void script_where(lua_State *L, struct room *out)
{
    lua_Debug place;

    if (lua_getstack(L, 1, &place) && lua_getinfo(L, "Sl", &place) && place.currentline > 0) {
        room_printf(out, "%s:%d: ", place.short_src, place.currentline);
    }
}
