/* The processes that the master has started. Private to this package. */
#ifndef SERVER_MASTER_PROCESS_H
#define SERVER_MASTER_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "server/generation.h"
#include "server/process/channel.h"

enum process_kind { PROCESS_WORKER, PROCESS_NEW_BINARY };

/* One child; in the master's list until waitpid() has returned it. */
struct process {
    struct list node;
    enum process_kind kind;
    enum worker_role role; /* of a worker */
    pid_t pid;
    unsigned slot;       /* determines the role of a worker: worker_role_of */
    unsigned generation; /* number of its generation */
    uint32_t cell;       /* CELL_NONE for a new binary */
    int channel;         /* our end; -1 = none */
    bool is_ready;       /* it accepts */
    bool is_leaving;     /* it was asked to end */
    uint64_t started_ms;
};

extern struct list processes;

/* "worker process", and so on. */
const char *process_name(const struct process *process);

/* Forks the worker of a slot; in the child this does not return. NULL after a message. */
struct process *process_start(struct generation *generation, unsigned slot);

/* Adds a child that was started by other code. */
struct process *process_add(enum process_kind kind, pid_t pid);

struct process *process_find(pid_t pid);

/* The worker of this slot and generation, unless it was asked to end; or NULL. */
struct process *process_of_slot(unsigned generation, unsigned slot);

/* The running new binary, or NULL. */
struct process *process_new_binary(void);

/* Number of running workers, of all roles. */
unsigned process_count(void);

/* Sends a message, with a copy of fd unless it is -1. False when the process cannot receive one
   now. */
bool process_tell(struct process *process, const struct channel_message *message, int fd);

/* Asks the process to quit, terminate or reopen its logs: by message or, when that fails, by
   signal. */
void process_command(struct process *process, enum channel_type type, int fd);

/* The process has ended: frees it, its cell and its channel. */
void process_free(struct process *process);

/* Called in a child right after the fork, before anything else: closes what belongs to the master.
   Set by the master. */
extern void (*process_forked)(void);

#endif
