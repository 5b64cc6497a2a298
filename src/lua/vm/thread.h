/*
 * Threads of Lua: a Lua thread on a fiber. A function that has to wait waits where it is called: the fiber sleeps, with all
 * that Lua and C have on its stack (docs/decisions.md: Lua waits where it is called).
 */
#ifndef LUA_VM_THREAD_H
#define LUA_VM_THREAD_H

#include <lua.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/log.h"
#include "base/str.h"
#include "conf/template.h"
#include "event/loop.h"
#include "fiber/fiber.h"
#include "lua/vm/phase.h"
#include "lua/vm/vm.h"

struct script_settings;
struct script_subject;
struct script_thread;

/* Something that belongs to a subject and has to be let go with it: a socket, a process, a timer. */
struct script_resource {
    struct list link; /* in script_subject.resources, or alone */
    /* The subject ends; the resource is off the list. Whatever waits on it was told already. */
    void (*release)(struct script_resource *resource);
};

/* What a kind of subjects can do; one static struct each. */
struct script_subject_kind {
    const char *name; /* "http", "stream", "timer", for debuggers */
    /* Starts a fiber on its behalf; NULL = fiber_start_joinable. */
    enum fiber_started (*start)(struct script_subject *subject, void (*run)(void *), void *arg,
                                struct fiber_handle *handle);
    /* Where its variables are; NULL = it has none. */
    struct variable_env *(*variables)(struct script_subject *subject);
    /* How often what it works on came from this service itself (net/conn/own.h); NULL = it has not come at all. */
    unsigned (*hops)(struct script_subject *subject);
};

/* Whom Lua works for: a request, a session, a handshake, a timer, a worker. Embedded in what the upper floor has. */
struct script_subject {
    const struct script_subject_kind *kind;
    struct script_vm *vm;
    struct log *log;                        /* of its lines; never NULL */
    const struct script_settings *settings; /* lua_socket_* and so on in force, or NULL: the defaults */
    struct list link;                       /* in vm->subjects */
    struct list threads;                    /* struct script_thread that live, newest last */
    struct list resources;                  /* struct script_resource */
    int context;                            /* reference to ngx.ctx, or LUA_NOREF */
    unsigned own_vm : 1;                    /* lua_code_cache off: the VM is its own, and goes with it */
};

/* How a run ended. */
enum script_end {
    SCRIPT_ENDED,     /* to its end, or by return */
    SCRIPT_LEFT,      /* script_leave: ngx.exit and its kin; the subject knows more */
    SCRIPT_FAILED,    /* by an error, which was logged, or there was no memory */
    SCRIPT_CANCELLED, /* the fiber was asked to return, or another thread has killed it */
};

/* A thread. */
struct script_thread {
    lua_State *state;
    int reference; /* that keeps the state, in the registry */
    struct script_subject *subject;
    enum script_phase phase;
    struct script_thread *entry;  /* the one that the run began with; itself when it is that */
    struct script_thread *parent; /* that spawned it, while that lives; NULL of an entry */
    struct list link;             /* in subject->threads, or vm->idle */
    struct fiber *fiber;          /* that it runs on; NULL: the loop's stack */
    struct fiber_handle handle;   /* of a spawned one */
    struct wait_point ended;      /* of an entry: a child has ended */
    enum script_end end;          /* once it has_ended */
    bool has_ended;
    bool is_killed;  /* it returns at its next chance, and no Lua of it runs any more */
    void *tasks;     /* of lua/tasks */
    jmp_buf leave;   /* out of Lua */
};

/* The thread that runs; NULL when none does. */
extern struct script_thread *script_running;

void script_subject_begin(struct script_subject *subject, const struct script_subject_kind *kind,
                          struct script_vm *vm, struct log *log);
/* Its threads have ended. Lets go of its resources. */
void script_subject_end(struct script_subject *subject);

/* What script_run is to do. */
struct script_call {
    struct script_subject *subject;
    enum script_phase phase;
    const struct script_code *code; /* NULL: begin pushes the function */
    /* Pushes the function, where there is no code, and the arguments; gives their number. Or NULL: none. */
    int (*begin)(lua_State *L, void *arg);
    /* The results are on the stack, from 1 on. Or NULL. */
    void (*finish)(lua_State *L, void *arg);
    void *arg;
};

/*
 * Runs it as an entry thread on this very stack, and waits for the threads that it spawned (when it leaves or fails they are
 * killed). Errors are logged. MAY WAIT where the phase may.
 */
enum script_end script_run(const struct script_call *call);

/*
 * Another thread: a fiber that runs the function on top of `from` with the `arguments` above it (all are taken). It runs at
 * once, until it first waits. NULL: no fiber is left, or no memory; a message is on the stack of `from`.
 */
struct script_thread *script_spawn(struct script_thread *parent, lua_State *from, int arguments);
/* Frees what is left of a spawned thread that has ended and was waited for. */
void script_thread_forget(struct script_thread *thread);
/* Asks a thread to end: it stands where it is until its fiber has a turn. Not for the running one. */
void script_kill(struct script_thread *thread);

/*
 * The running thread goes, with all that it called, and no Lua of it runs any more, whatever pcall stands around. Whoever is
 * between here and Lua must have nothing to free.
 */
_Noreturn void script_leave(struct script_thread *thread, enum script_end end);

/*
 * After a wait: the thread runs again. When it was killed, or its fiber cancelled, it leaves. A function that says `waits` in its
 * row need not call it.
 */
void script_resumed(struct script_thread *thread);

/* "CHUNK:LINE: " of the Lua code that called, for messages, into `out`; empty when it is not known. */
struct room;
void script_where(lua_State *L, struct room *out);

#endif
