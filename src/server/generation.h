/* A generation: one reading of the configuration and everything that belongs to it. Implemented in
 * configuration/error_log.c, configuration/generation_files.c, configuration/log_pipe.c,
 * configuration/thread_pools.c, configuration/zones.c, process/cells.c and worker/worker.c. */
#ifndef SERVER_GENERATION_H
#define SERVER_GENERATION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/shm.h"
#include "conf/conf.h"
#include "conf/directive.h"

struct listener;
struct log_pipe;

/* A directory that must exist and belong to the worker user: temp paths, cache paths. */
struct wanted_path {
    struct wanted_path *next;
    struct str name;    /* full, NUL-terminated, no trailing slash */
    unsigned levels[3]; /* lengths of subdirectory names; 0 = none */
    const struct conf_node *node;
};

/* A `thread_pool` of the configuration. */
struct thread_pool_settings {
    struct str name;
    unsigned threads;
    unsigned max_queue; /* jobs that may wait */
};

enum affinity_mode { AFFINITY_OFF, AFFINITY_AUTO, AFFINITY_MASKS };

/* Settings of ngx_core_module (main context). */
extern struct settings_key core_key;
struct core_settings {
    bool daemon;
    bool master_process;
    unsigned debug_points;
    uint64_t timer_resolution_ms;
    struct str pid_path;
    struct str lock_path;
    struct str working_directory;
    uid_t user; /* (uid_t) -1 = not changed */
    gid_t group;
    struct str user_name;
    int64_t worker_processes; /* resolved: at least 1 */
    unsigned cpu_quota;       /* CPUs that `auto` may count; 0 = not computed, UINT_MAX = all */
    int64_t worker_priority;
    int64_t worker_rlimit_nofile; /* -1 = not set */
    int64_t worker_rlimit_core;   /* -1 = not set */
    int64_t worker_rlimit_sigpending;
    uint64_t worker_shutdown_timeout_ms; /* 0 = none */
    struct vec environment;              /* struct str "NAME" or "NAME=VALUE" */
    struct vec affinity;                 /* cpu_set_t, one for each mask */
    enum affinity_mode affinity_mode;    /* AUTO: a mask, if any, limits the CPUs to choose from */
    struct vec thread_pools;             /* struct thread_pool_settings */
    uint64_t pipe_set_size;              /* 0 = the system's default */
    int64_t history_count;               /* of config_history; 0 = off */
    struct str history_directory;        /* full, NUL-terminated; empty when it is off */
    uint64_t reload_confirm_ms;          /* 0 = a reload needs no confirmation */
    struct log_sink *error_log;
    uint64_t shutdown_delay_ms; /* between QUIT and the end of accepting; 0 = none */
};

/* Settings of ngx_event_core_module and ngx_epoll_module (events context). */
struct events_settings {
    int64_t worker_connections;
    int64_t worker_requests; /* 0 = as memory allows */
    bool multi_accept;
    bool accept_mutex;
    uint64_t accept_mutex_delay_ms;
    bool reuse_port;     /* reuse_port of the configuration */
    bool reuse_port_set; /* written in the file; else sharding is on where there is more than one
                            worker */
    struct vec debug_connections; /* struct cidr */
    int64_t epoll_events;
    int64_t worker_aio_requests;
    uint64_t stall_threshold_ms; /* 0 = off */
};

/* The record of a generation in the directory of `config_history`. */
struct generation_record {
    unsigned number;      /* 0 = it has no record */
    unsigned before;      /* the record that ran before this one; 0 = none */
    struct str directory; /* NUL-terminated, in the generation's arena */
};

#define GENERATION_MAGIC 0x6e4e7a11u

struct generation {
    uint32_t magic;
    uint32_t number;    /* 1 for the first */
    uint64_t read_ms;   /* when it was read, milliseconds since the epoch */
    struct arena arena; /* everything below lives here */
    struct conf conf;
    struct generation_record kept;
    struct core_settings *core;
    struct events_settings *events;
    struct listener *listeners; /* wanted addresses */
    struct log_file *log_files; /* all logs: they are reopened together */
    struct log_pipe *log_pipes; /* to programs; not reopened */
    struct wanted_path *paths;
    struct zone *zones;
    struct log log;                      /* of the generation */
    const struct module *const *modules; /* NULL-ended */
    void *http;                          /* struct http_main *: of src/http */
    void *stream;                        /* struct stream_main *: of src/stream */
    size_t fiber_stack_size;    /* bytes of address space that modules need for each fiber; 0 = the
                                   default */
    unsigned slots;             /* workers */
    bool has_agent;             /* a WORKER_AGENT process is started */
    uint32_t agent_connections; /* connections that it may open */
    uint32_t background_connections; /* those of WORKER_BACKGROUND; 0 = it is not started */
    bool is_sharded;
    bool is_test;             /* -t: nothing is bound, no process started */
    bool binds_transparently; /* connections to backends come from addresses that are not ours
                                 (`proxy_bind … transparent`): workers keep CAP_NET_RAW */
};

/* The log file with this path, opened with the generation and shared by all logs with the same
 * path. The caller handles "stderr" and syslog itself. */
struct log_file *generation_log_file(struct generation *generation, struct str path);
/* The pipe to the program of a target "pipe:COMMAND", opened with the generation and shared by all
 * logs with the same command. NULL after conf_error. */
struct log_pipe *generation_log_pipe(struct conf *conf, const struct conf_node *node,
                                     struct str target);
/* Writes a line (without its newline), cut at PIPE_BUF bytes, in one write. Never waits: when the
 * pipe is full, the line is lost, counted as limited, and reported once a minute. */
void log_pipe_write(struct log_pipe *pipe, struct str line);
/* A directory that the generation needs. The same name twice gives the same directory. */
struct wanted_path *generation_path(struct generation *generation, struct conf_node *node,
                                    struct str name, const unsigned levels[3]);
/* A zone by name; declared twice with different users is an error. Memory and root of an older
 * generation are kept when size and user are the same. */
struct zone *generation_zone(struct generation *generation, struct conf_node *node, struct str name,
                             size_t size, const void *user);

/*
 * The settings of the thread pool with this name (`aio threads=NAME`); "default" always exists.
 * NULL when there is none. Call it after the main level was applied.
 */
const struct thread_pool_settings *generation_thread_pool(const struct generation *generation,
                                                          struct str name);
/* The node names a thread pool that must exist: generation_check reports it when it does not. */
void generation_want_thread_pool(struct generation *generation, const struct conf_node *node,
                                 struct str name);
/* In a worker: the pool with this name, created at its first use; NULL when there is none. */
struct thread_pool *worker_thread_pool(struct str name);
/* The same for a module's own pool: where no `thread_pool` directive defines the name, the pool has
 * this number of threads and of waiting jobs. */
struct thread_pool *worker_own_thread_pool(struct str name, unsigned threads, unsigned max_queue);

/* Applies error_log at the main, http, server and location levels: a file, stderr, syslog:, memory:
 * or pipe:, with a level. Adds a sink to the chain. */
bool error_log_apply(struct conf_scope *scope, const struct directive *row, struct conf_node *node,
                     void *settings);

/* The worker's own generation, and the number of its slot. */
extern struct generation *generation_now;
extern unsigned worker_slot;

/* What a process that runs the hooks of modules does. Only the first has listening sockets. */
enum worker_role {
    WORKER_SERVES,
    WORKER_AGENT,      /* the privileged agent: scripts run there, with the master's rights */
    WORKER_BACKGROUND, /* work that no request waits for, with the rights of workers; runs no
                          scripts */
    WORKER_ROLES
};
extern enum worker_role worker_role;
/* "worker process", and so on. */
extern const char *const worker_role_names[WORKER_ROLES];
/* The role of a slot: the slots of the workers come first, then the agent's, then the background
   process's. */
enum worker_role worker_role_of(const struct generation *generation, unsigned slot);

/* This worker is quitting: responses should close their connections, parked connections are
 * closed. */
extern bool worker_is_quitting;

/* It quits because newer workers serve: an idle connection that was announced as kept alive is not
 * closed because of that. */
extern bool worker_is_replaced;

/* In shared memory: the whole service got QUIT and ends after `shutdown_delay`. Until then it
 * accepts connections, and asks clients to leave. */
extern _Atomic bool *service_drains;
static inline bool service_is_draining(void)
{
    return atomic_load_explicit(service_drains, memory_order_relaxed);
}

/*
 * How many requests one worker may process at one time, and how many of them are reserved for
 * connections that have no request in progress. Computed from worker_requests, or from the
 * machine's memory, by capacity_init. Without it (unit tests) there is no limit.
 */
struct capacity {
    uint32_t requests;
    uint32_t reserve;
};
extern struct capacity capacity;

/* Counters of one slot, in shared memory for the life of the service; padded to cache lines; summed
 * when read. */
struct slot_counters {
    uint64_t accepted;
    uint64_t handled;
    uint64_t requests;
    uint64_t request_time_ms; /* Tengine's third column */
    uint64_t active;          /* connections open now */
    uint64_t reading;         /* connections whose request head is being read */
    uint64_t writing;         /* connections whose request is being answered */
    uint64_t waiting;         /* all other connections: computed when summed */
    uint64_t limited;         /* refused because a limit on what a peer may do was reached */
    uint64_t tls_handshakes;  /* handshakes with clients that were completed */
    uint64_t tls_resumed;     /* handshakes that resumed a session */
    uint64_t tls_version_1_3; /* handshakes with TLS 1.3; others used 1.2 or older */
    uint64_t tls_failures;    /* handshakes that failed */
    uint64_t h2_connections;  /* clients' connections that used HTTP/2 */
    uint64_t reload_failures; /* new configurations that could not be applied */
    /* Why handshakes failed, or what was wrong with a client's certificate. Handshakes that timed
     * out are not in tls_failures. */
    uint64_t tls_no_protocol, tls_no_cipher, tls_timeouts, tls_rejected;
    uint64_t tls_no_certificate, tls_expired, tls_revoked, tls_unverified;
    uint64_t respawned; /* workers that replaced one that died */
    uint64_t spans_sent,
        spans_dropped;   /* of traces: accepted by the collector; not delivered to it */
    uint64_t stalls;     /* turns of the loop that took longer than stall_threshold */
    uint64_t lua_memory; /* bytes that Lua VMs use now */
    uint64_t records_sent,
        records_dropped;      /* of logs: accepted by the collector; not delivered to it */
    uint64_t metrics_dropped; /* exports of metrics that the collector did not accept */
    uint32_t pid;             /* of the worker; 0: there is none, or it is ending */
    uint32_t slot;            /* its slot */
};
extern struct slot_counters *counters_mine;   /* this worker's */
void counters_sum(struct slot_counters *sum); /* over all slots */
/* Writes the process ids of the workers that serve, at most `max`; gives their number. */
unsigned workers_pids(pid_t *pids, unsigned max);
/* The process id of the worker of this slot; 0: there is none now. */
pid_t workers_pid(unsigned slot);
/* The current counters of the worker of this slot. False: there is none. */
bool worker_counters(unsigned slot, struct slot_counters *out);

/*
 * For src/http: what to do with parked connections when this worker quits because of a reload.
 * src/server calls it with a sender that passes one descriptor and a few bytes of state to the new
 * worker of the slot. False: the connection cannot be handed over and stays.
 */
struct handover {
    /* Does the successor serve this listener's address? */
    bool (*takes)(const struct handover *handover, const struct listener *listener);
    bool (*send)(struct handover *handover, struct listener *listener, int fd, const void *state,
                 size_t size);
    /* Has the successor so many connections to take over that more of them would only wait? NULL =
       it takes them at once. */
    bool (*is_behind)(const struct handover *handover);
    /* Called once when is_behind is no longer true, or the successor has ended; for owners that
       were called before. */
    void (*caught_up)(void);
};
extern struct handover *handover_now; /* NULL unless a successor waits for connections */

#endif
