/* A program that a script has started: its pipes, its end. */
#ifndef LUA_PROCESS_CHILD_H
#define LUA_PROCESS_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "event/loop.h"
#include "fiber/fiber.h"

/* Our end of a pipe, or the descriptor of the process. One fiber at a time waits on it. */
struct child_end {
    struct event_source source; /* fd -1: closed */
    struct wait_point ready;    /* there may be something to do */
    bool is_busy;               /* a fiber waits */
    bool is_ended;              /* of those that are read: nothing more comes */
    struct buf input;           /* of those that are read: bytes that came and were not taken */
    size_t taken;               /* of input: bytes at its beginning that were */
    uint64_t timeout_ms;        /* 0: none */
};

/* A child. In a userdata of Lua, which nothing moves. */
struct child {
    struct list node; /* of those that run, or may have ended without being looked at */
    pid_t pid;
    struct child_end stdin_end, stdout_end, stderr_end;
    struct child_end life; /* its pidfd: readable when it has ended */
    size_t buffer_size;    /* bytes of one read */
    bool is_merged;        /* stderr goes where stdout goes */
    bool has_ended;
    int status;       /* of waitpid, once it has */
    bool is_reported; /* wait() has returned it: nothing can be read, written or shut down any more
                       */
};

/* What is started. All texts are NUL-terminated. */
struct child_program {
    char *const *args;    /* ended by NULL; found by PATH */
    char *const *environ; /* ended by NULL; NULL: ours */
    bool merges_stderr;
};

/* False with errno, and the call that failed. */
bool child_start(struct child *child, const struct child_program *program, const char **failed);
/* Closes the pipes; kills a child that still runs. What it has is freed. */
void child_free(struct child *child);
/* Its status, when it has ended: true. */
bool child_look(struct child *child);
/* Its status was given: closes the ends on which nobody waits. */
void child_report(struct child *child);

/* How an operation on an end went. */
enum child_result {
    CHILD_DONE,
    CHILD_CLOSED,
    CHILD_TIMED_OUT,
    CHILD_CANCELLED,
    CHILD_FAILED /* errno */
};

void child_end_close(struct child_end *end);
/* Writes all of it; *written: so much went. Fails as child_read_more does. MAY WAIT. */
enum child_result child_write(struct child_end *end, struct str data, size_t *written);
/* When an operation that begins now times out. */
uint64_t child_deadline(const struct child_end *end);
/* Gets more input. CHILD_CLOSED: there is no more. CHILD_CANCELLED: the end was closed during the
 * wait, or the fiber was cancelled. MAY WAIT until the deadline. */
enum child_result child_read_more(struct child_end *end, size_t size, uint64_t deadline_ms);
/* Until it has ended. MAY WAIT. */
enum child_result child_wait(struct child *child);

static inline struct str child_input(const struct child_end *end)
{
    return str_from(end->input.data + end->taken, end->input.data + end->input.len);
}

#endif
