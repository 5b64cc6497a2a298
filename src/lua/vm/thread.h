/*
 * Threads of Lua: a Lua thread on a fiber. A function that has to wait waits where it is called:
 * the fiber sleeps, with all that Lua and C have on its stack (docs/decisions.md: Lua waits where
 * it is called).
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

struct conn;
struct script_backend;
struct writer;
struct script_settings;
struct script_subject;
struct script_thread;
struct ssl_st;

/* Something that belongs to a subject and has to be let go with it: a socket, a process, a timer.
 */
struct script_resource {
    struct list node; /* in script_subject.resources, or alone */
    /* The subject ends; the resource is off the list. Threads that wait on it were woken already.
     */
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
    /* Are there values of variables that have to be fetched, and fetching them (MAY WAIT). NULL:
     * there never are. */
    bool (*values_are_due)(struct script_subject *subject);
    void (*fetch_values)(struct script_subject *subject);
    /* Its client's connection; NULL, or gives NULL: it has none. */
    struct conn *(*client)(struct script_subject *subject);
    /* OpenSSL's object of its client, and of the backend that it is connected to; NULL, or gives
     * NULL: there is none. */
    struct ssl_st *(*ssl)(struct script_subject *subject);
    struct ssl_st *(*upstream_ssl)(struct script_subject *subject);
    /* What it has of a handshake with a backend (lua/tls/backend.h); NULL: it has none. */
    struct script_backend *(*backend)(struct script_subject *subject);
    /* The place (context.h) of a ngx.ctx that its own begins as a copy of; NULL, or gives
     * LUA_NOREF: it begins empty. */
    int (*context_before)(struct script_subject *subject);
    /* What lines of its timers say of it: ", client: …, server: …"; NULL = nothing. */
    void (*whom)(struct script_subject *subject, struct writer *out);
    /* The name of the group that it is passed on to, or was; NULL, or gives an empty text: none. */
    struct str (*group_name)(struct script_subject *subject);
    /* How often what it works on came from this service itself (net/conn/own.h); NULL = it has not
     * come at all. */
    unsigned (*hops)(struct script_subject *subject);
};

/* What Lua works for: a request, a session, a handshake, a timer, a worker. Embedded in what the
 * layer above has. */
struct script_subject {
    const struct script_subject_kind *kind;
    struct script_vm *vm;
    struct log *log; /* of its lines; never NULL */
    const struct script_settings
        *settings;         /* lua_socket_* and so on in force, or NULL: the defaults */
    struct list node;      /* in vm->subjects */
    struct list threads;   /* struct script_thread that live, newest last */
    struct list resources; /* struct script_resource */
    int context;           /* place of ngx.ctx (context.h), or LUA_NOREF */
    int exit_code;         /* of ngx.exit, where a phase of no request asks for it; else 0 */
    bool runs_file;  /* what a chunk of the process begins with is a file, which messages say */
    int failed_with; /* after SCRIPT_FAILED: the status that a request of HTTP gets */
};

/* How a run ended. */
enum script_end {
    SCRIPT_ENDED,     /* to its end, or by return */
    SCRIPT_LEFT,      /* script_leave: ngx.exit and similar functions; the subject knows more */
    SCRIPT_FAILED,    /* by an error, which was logged, or there was no memory */
    SCRIPT_CANCELLED, /* the fiber was asked to return, or another thread has killed it */
};

/* A thread. All that one script_run begins, the entry and what that spawns, is called a run. */
struct script_thread {
    lua_State *state;
    int reference; /* that keeps the state, in the registry */
    lua_State *at; /* the coroutine of it that called a function which waits, last; after that to be
                      compared only */
    struct script_subject *subject;
    enum script_phase phase;
    struct script_thread *entry;  /* the one that the run began with; itself when it is that */
    struct script_thread *parent; /* that spawned it, while that lives; NULL of an entry */
    lua_State *spawner;           /* the coroutine of the parent that did it; to be compared only */
    struct list node;             /* in subject->threads, or vm->idle */
    struct fiber *fiber;          /* that it runs on; NULL: the loop's stack, or it has ended */
    struct fiber_handle handle;   /* of a spawned one */
    struct wait_point
        child_ended;      /* a thread that it spawned, or of an entry any of its run, has ended */
    enum script_end end;  /* once it has_ended */
    unsigned children;    /* threads that it has spawned */
    unsigned subrequests; /* that it waits for: while there are any, scripts may not end the run */
    bool has_ended;
    bool is_killed;    /* it returns at its next chance, and no Lua of it runs any more */
    bool is_forgotten; /* nobody will wait for it: freed when it ends */
    bool run_left;     /* of an entry: a thread of the run has left (ngx.exit), and so the whole run
                          ends */
    int left_values;   /* of a spawned one that failed: reference to what stood on its stack, or
                          LUA_NOREF */
    bool lacks_memory; /* it failed by that: there was none for Lua */
    bool is_logged;    /* its failure was logged */
    jmp_buf *leave;    /* out of Lua, while it runs that; on the stack of the code that runs it */
};

/*
 * The thread that runs on this fiber; NULL when none does: in the loop, while Lua is called for no
 * thread (a finalizer when a VM ends), and on threads of pools, where VMs of worker threads are at
 * work.
 */
static inline struct script_thread *script_running(void)
{
    return fiber_word;
}

/* Its subject, or NULL; and whether it runs in one of these phases. */
static inline struct script_subject *script_running_subject(void)
{
    return script_running() != NULL ? script_running()->subject : NULL;
}

static inline bool script_runs_in(uint32_t phases)
{
    return script_running() != NULL && (script_running()->phase & phases) != 0;
}

/* Whom functions take for the thread where none runs: it may do what init_by_lua may. */
struct script_thread *script_nobody(struct script_vm *vm);

void script_subject_begin(struct script_subject *subject, const struct script_subject_kind *kind,
                          struct script_vm *vm, struct log *log);
/* Its threads have ended. Lets go of its resources. */
void script_subject_end(struct script_subject *subject);
/* Its resources alone: the loop is going to end, and whatever waits on them does not run any more.
 */
void script_subject_let_go(struct script_subject *subject);

/* What script_run is to do. */
struct script_call {
    struct script_subject *subject;
    enum script_phase phase;
    const struct script_code *code; /* NULL: begin pushes the function */
    /* Pushes the function, where there is no code, and the arguments; gives their number. Or NULL:
     * none. */
    int (*begin)(lua_State *L, void *arg);
    /* The results are on the stack, from 1 on. Or NULL. */
    void (*finish)(lua_State *L, void *arg);
    void *arg;
};

/*
 * Runs it as an entry thread on this very stack, and waits for the threads that it spawned (when it
 * leaves or fails they are killed). Errors are logged. MAY WAIT where the phase may.
 */
enum script_end script_run(const struct script_call *call);

/*
 * Another thread: a fiber that runs the function below the `arguments` on top of `from` (all are
 * taken); its coroutine is pushed there. It runs at once, until it first waits; the parent, if it
 * is the caller, continues after the threads that were ready before (MAY WAIT). NULL: no fiber is
 * left; a message is pushed instead.
 */
struct script_thread *script_spawn(struct script_thread *parent, lua_State *from, int arguments);
/* Nobody will wait for it any more. A spawned one that has ended is freed, another one when it
 * ends. */
void script_thread_forget(struct script_thread *thread);
/* Asks a thread to end: it stands where it is until its fiber has a turn. Of the running one: at
 * its next wait. */
void script_kill(struct script_thread *thread);

/* What a coroutine is to us. */
enum script_coroutine {
    COROUTINE_PLAIN,     /* Lua's own */
    COROUTINE_THREAD,    /* a spawned thread: *out is it */
    COROUTINE_FORGOTTEN, /* *out is a spawned thread that was waited for, or killed */
};
enum script_coroutine script_thread_of(lua_State *L, int index, struct script_thread **out);

/* Pushes the table of all spawned threads, by coroutine: what is not in there is COROUTINE_PLAIN.
 * May throw. */
void script_push_threads(lua_State *L);

/* Throws an error in a finalizer (__gc) and in a debug hook, which nobody may leave but by their
 * end: Lua collects no garbage, and calls no hook, until then. */
void script_demand_leavable(lua_State *L);

/* Throws "attempt to abort with pending subrequests" where a thread of the run waits for one. For
 * ngx.exit and similar functions. */
void script_demand_abortable(lua_State *L, const struct script_thread *thread);

/*
 * The running thread goes, with all that it called, and no Lua of it runs any more, whatever pcall
 * stands around. A thread that is between here and Lua must have nothing to free, and have asked
 * script_demand_leavable.
 */
_Noreturn void script_leave(struct script_thread *thread, enum script_end end);

/*
 * After a wait: when the thread was killed meanwhile, or its fiber cancelled, it leaves. A function
 * that says `waits` in its row need not call it. A finalizer ends by an error first.
 */
void script_resumed(struct script_thread *thread);

#endif
