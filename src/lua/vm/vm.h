/* A virtual machine of LuaJIT, and the chunks of the configuration in it.
 * Implemented in vm.c and code.c. */
#ifndef LUA_VM_VM_H
#define LUA_VM_VM_H

#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/list.h"
#include "base/log.h"
#include "base/str.h"

struct conf_node;
struct script_capture;
struct script_dict;
struct script_settings;
struct generation;
struct script_subject;
struct script_vm;
struct template;

/* A Lua text of the configuration: a directive's, or a file that one names. Lives as long as the
 * generation. */
struct script_code {
    struct script_code *next;     /* of the subsystem, newest first */
    struct str text;              /* the source; of a file: empty */
    struct template *path;        /* of a file: its full path; or NULL */
    struct str chunk;             /* the name of the chunk of a text, as Lua takes it:
                                     "=content_by_lua(nginx.conf:41)" */
    unsigned number;              /* from 1, of its subsystem: where a VM keeps the function */
    const struct conf_node *node; /* where it stands */
};

/* What a subsystem (http, stream) hands down: what scripts find there. */
struct script_subsystem {
    const char *name;     /* ngx.config.subsystem */
    unsigned api_version; /* ngx.config.ngx_lua_version */
    bool is_stream;       /* some texts and functions differ between OpenResty's two modules */
    /* Adds what the subsystem has to the table ngx, which is on top of the stack. */
    void (*add)(struct script_vm *vm, lua_State *L);
    /* The same for a VM that works on a thread: only what neither waits nor touches the loop. NULL:
     * it has none. */
    void (*add_to_thread)(struct script_vm *vm, lua_State *L);
};

/* What main-level directives of the subsystem say of its VMs. Lives as long as the generation. */
struct script_vm_options {
    const struct script_subsystem *subsystem;
    struct generation *generation;
    /* What the subsystem's outermost block says, for code that runs without a request: its
     * settings, and its error_log. */
    const struct script_settings *settings;
    struct log log;
    struct str package_path; /* lua_package_path; empty = not said */
    struct str package_cpath;
    uint64_t memory_limit;    /* bytes that a VM may take; 0 = none */
    uint64_t time_limit_ms;   /* lua_time_limit: … that a script may compute without a wait before
                                 that is logged; 0 = none */
    bool loads_core;          /* lua_load_resty_core: says nothing any more, for it is built in */
    bool restarts_calls;      /* lua_sa_restart: likewise, since signals interrupt nothing */
    int64_t trim_requests;    /* lua_malloc_trim: likewise, since workers trim by time */
    struct script_code *init; /* init_by_lua, and so on; or NULL */
    struct script_code *init_worker;
    struct script_code *exit_worker;
    struct script_code *codes; /* all chunks of the configuration */
    unsigned code_count;       /* numbers of chunks go up to this */
    int64_t idle_threads;   /* lua_thread_cache_max_entries: Lua threads that are kept for others */
    int64_t pending_timers; /* lua_max_pending_timers: most of them that wait */
    int64_t running_timers; /* lua_max_running_timers: … and that run */
    int64_t thread_vms; /* lua_worker_thread_vm_pool_size: most VMs of threads; 0 = it has none */
    struct script_dict *dicts; /* of lua/dict: lua_shared_dict, newest first */
    struct script_capture
        *capture;            /* of lua/process: lua_capture_error_log; NULL = lines are not kept */
    int64_t regex_cache_max; /* lua_regex_cache_max_entries */
    int64_t regex_match_limit; /* steps; 0 = as PCRE2 has it */
};

#define SCRIPT_VM_MAGIC 0x10a0517eu

/*
 * A VM. One for each subsystem, made in the master when the configuration was read, and shared with
 * workers by fork(2); with `lua_code_cache off` one for each request.
 */
struct script_vm {
    uint32_t magic;
    lua_State *state; /* its main thread */
    const struct script_vm_options *options;
    int failure_seen; /* reference to script_failure_seen, that no run makes a function of it */
    int *functions;   /* by number of the code: reference to its function, or LUA_NOREF */
    struct list idle; /* struct script_thread: ended ones, whose Lua threads are used again */
    unsigned idle_count;
    unsigned thread_count;                /* that live */
    uint64_t memory;                      /* bytes that it has */
    uint64_t memory_shown;                /* of them, those that the counters of the worker have */
    const struct slot_counters *shown_in; /* the worker's: a VM may be older than the process */
    uint64_t check_at; /* bytes above which a safe point is asked for (memory.c) */
    uint64_t
        failed_at; /* bytes when a script failed for them last; 0 = none has since there was room */
    uint64_t limit_logged_ms;  /* when it was logged last that the limit was reached; 0 = never */
    bool is_collector_hurried; /* the limit was reached, so the collector runs a full cycle at once
                                  (memory.c) */
    int step_share;            /* else the collector works in steps of this share, in percent */
    bool is_in_hook;           /* a debug hook runs: nobody may wait, nor leave it */
    volatile unsigned interrupts; /* enum script_interrupt that are to come (interrupt.c) */
    struct {                      /* the hook of a script, while ours is there */
        lua_Hook function;
        int mask, count;
    } hook;
    bool is_private;              /* lua_code_cache off: ends with the last of its subjects */
    bool is_collector_stopped;    /* by collectgarbage("stop") */
    struct list subjects;         /* struct script_subject that are at work */
    struct script_nobody *nobody; /* of thread.c, or NULL */
    void *parts[8]; /* what the packages of src/lua keep for a VM, by enum script_part; freed with
                       free(3) after Lua */
};

/* The packages that keep something in script_vm.parts. */
enum script_part { SCRIPT_PART_TASKS, SCRIPT_PART_SOCKETS, SCRIPT_PART_VALUES, SCRIPT_PART_TLS };

static inline bool script_vm_is_stream(const struct script_vm *vm)
{
    return vm->options->subsystem->is_stream;
}

/* A VM with all of ngx.* in it. NULL: there is a message in the log. */
struct script_vm *script_vm_new(const struct script_vm_options *options, const struct log *log);
/* Its subjects have ended. NULL is fine. */
void script_vm_free(struct script_vm *vm);

/* The VM that a Lua thread belongs to: the argument of its allocator. */
static inline struct script_vm *script_vm_of(lua_State *L)
{
    void *vm;

    lua_getallocf(L, &vm);
    return vm;
}

/* Compiles alone: the message, in arena, or an empty text when it is well or not known before it
 * runs. For -t. */
struct str script_code_check(const struct script_code *code, struct arena *arena);

/*
 * Pushes the function of the code onto L, compiled at its first use there. Gives 0, or the status
 * that a request of HTTP gets then (a file that is not there: 404); there is a message on the stack
 * instead ("failed to load inlined Lua code: …").
 */
int script_code_push(struct script_subject *subject, lua_State *L, const struct script_code *code);

#endif
