/* The hook of dns-01: a program, or an HTTP request, that adds and removes a TXT record. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "http/modules/clients/acme/acme.h"
#include "server/generation.h"

#define HOOK_MS 120000 /* time limit of a program */
#define REMOVE_MS 1000 /* time limit of one that removes a record while the server stops */
#define KILL_MS 500    /* between SIGTERM and SIGKILL */
#define LOOK_MS 20     /* interval between checks for its end */
#define THREADS 2

/* A running program. Times are those of now_ms(). */
struct hook_program {
    char *words[5]; /* program, action, name, value */
    pid_t pid;
    uint64_t ends_by_ms;
    uint64_t term_at_ms, kill_at_ms; /* 0: not pending */
    bool is_stopping;                /* the server stops */
};

/* A duty for a thread; on the heap, like its strings. */
struct hook_call {
    struct acme_issuer *issuer;
    struct acme_duty duty;
};

static char *copy(struct str text)
{
    char *made = strndup(text.data, text.len);

    if (made == NULL) {
        fatal_no_memory(text.len);
    }
    return made;
}

static int start(struct hook_program *program)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;

    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                              POSIX_SPAWN_SETPGROUP);
    int error = posix_spawn(&program->pid, program->words[0], &actions, &attributes, program->words,
                            environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* ---- until the program ends ---- */

/* A clock that needs no loop: this runs on a thread, or in a monitor. */
static uint64_t now_ms(void)
{
    return clock_read_ns() / 1000000;
}

/* Waits for LOOK_MS, or until the process that orders sends something, which is ACME_STOP, or
 * ends. */
static bool is_to_stop(struct acme_issuer *issuer)
{
    struct pollfd asker = {.fd = issuer->asker, .events = POLLIN | POLLRDHUP};

    if (atomic_load(&issuer->is_stopping)) {
        poll(NULL, 0, LOOK_MS);
        return true;
    }
    return poll(&asker, 1, LOOK_MS) > 0;
}

/* Sends the signals that are due to the program and its process group. */
static void press(struct hook_program *program, struct acme_duty *duty)
{
    uint64_t now = now_ms();

    if (program->term_at_ms != 0 && now >= program->term_at_ms) {
        duty->end = ACME_HOOK_STOPPED;
        kill(-program->pid, SIGTERM);
        program->term_at_ms = 0;
        program->kill_at_ms = now + KILL_MS;
    } else if (program->kill_at_ms != 0 && now >= program->kill_at_ms) {
        kill(-program->pid, SIGKILL);
        program->kill_at_ms = 0;
    } else if (now >= program->ends_by_ms && duty->end == ACME_HOOK_BY_ITSELF) {
        duty->end = ACME_HOOK_LATE;
        kill(-program->pid, SIGKILL);
    }
}

/* Its process group keeps it from a process that waits for any child (server/master/single.c). */
static int await(struct acme_issuer *issuer, struct acme_duty *duty, struct hook_program *program)
{
    pid_t ended;

    program->ends_by_ms = now_ms() + HOOK_MS;
    while ((ended = waitpid(program->pid, &duty->status, WNOHANG)) == 0) {
        if (!program->is_stopping && is_to_stop(issuer)) {
            program->is_stopping = true;
            atomic_store(&issuer->is_stopping, true);
            program->term_at_ms = now_ms() + (str_is(duty->texts[0], "remove") ? REMOVE_MS : 0);
        } else if (program->is_stopping) {
            poll(NULL, 0, LOOK_MS);
        }
        press(program, duty);
    }
    return ended == -1 ? errno : 0; /* its status is unknown */
}

int acme_hook_program(struct acme_issuer *issuer, struct acme_duty *duty)
{
    struct hook_program program = {.words = {copy(issuer->dns_hook)}};

    for (unsigned i = 0; i < 3; i++) {
        program.words[i + 1] = copy(duty->texts[i]);
    }
    int error = start(&program);
    if (error == 0) {
        error = await(issuer, duty, &program);
    }
    for (unsigned i = 0; i < 4; i++) {
        free(program.words[i]);
    }
    return error;
}

static bool tell_program(const struct hook_call *call, const struct log *log)
{
    const struct acme_duty *duty = &call->duty;
    struct str path = call->issuer->dns_hook, action = duty->texts[0], name = duty->texts[1];

    if (duty->error != 0) {
        log_error(log, duty->error, "dns_hook \"%.*s\" cannot be run", STR_ARG(path));
    } else if (duty->end == ACME_HOOK_LATE) {
        log_error(log, 0, "dns_hook \"%.*s %.*s %.*s\" did not end within %d seconds",
                  STR_ARG(path), STR_ARG(action), STR_ARG(name), HOOK_MS / 1000);
    } else if (WIFEXITED(duty->status) && WEXITSTATUS(duty->status) == 0) {
        return true; /* possibly before SIGTERM */
    } else if (duty->end == ACME_HOOK_STOPPED) {
        log_warn(log, 0, "dns_hook \"%.*s %.*s %.*s\" was terminated because the server stops",
                 STR_ARG(path), STR_ARG(action), STR_ARG(name));
    } else {
        log_error(log, 0, "dns_hook \"%.*s %.*s %.*s\" failed with status %d", STR_ARG(path),
                  STR_ARG(action), STR_ARG(name),
                  WIFEXITED(duty->status) ? WEXITSTATUS(duty->status)
                                          : 128 + WTERMSIG(duty->status));
    }
    return false;
}

static void run_call(void *arg)
{
    struct hook_call *call = arg;

    acme_duty_run(call->issuer, &call->duty, NULL);
}

static bool ask_program(struct acme_issuer *issuer, const char *action,
                        const struct acme_record *record, const struct log *log)
{
    struct hook_call *call = calloc(1, sizeof(*call));

    if (call == NULL) {
        fatal_no_memory(sizeof(*call));
    }
    call->issuer = issuer;
    call->duty = (struct acme_duty){
        .kind = ACME_RUN_HOOK,
        .texts = {str_of(action), str_of(copy(record->name)), str_of(copy(record->value))},
    };
    /* If the fiber is cancelled, a record would remain: the program is completed. */
    fiber_shield_begin();
    bool is_good = thread_pool_call(worker_own_thread_pool(STR("acme"), THREADS, 16), run_call,
                                    call) == THREAD_CALL_DONE &&
                   tell_program(call, log);
    fiber_shield_end();
    free((char *) (uintptr_t) call->duty.texts[1].data);
    free((char *) (uintptr_t) call->duty.texts[2].data);
    free(call);
    return is_good;
}

/* Names and values contain nothing that JSON must escape. */
static bool ask_server(const struct acme_issuer *issuer, struct arena *arena, const char *action,
                       const struct acme_record *record, const struct log *log)
{
    struct acme_call call = {
        .url = issuer->dns_hook,
        .method = "POST",
        .body = arena_printf(
            arena, "{\"action\":\"%s\",\"name\":\"%.*s\",\"type\":\"TXT\",\"value\":\"%.*s\"}",
            action, STR_ARG(record->name), STR_ARG(record->value)),
        .content_type = "application/json",
        .allows_plain = true,
    };

    if (!acme_fetch(issuer, arena, &call)) {
        return false;
    }
    if (call.answer.status / 100 != 2) {
        log_error(log, 0, "dns_hook \"%.*s\" answered with %u", STR_ARG(issuer->dns_hook),
                  call.answer.status);
        return false;
    }
    return true;
}

bool acme_hook_run(struct acme_issuer *issuer, struct arena *arena, const char *action,
                   const struct acme_record *record, const struct log *log)
{
    if (str_starts(issuer->dns_hook, STR("http"))) {
        return ask_server(issuer, arena, action, record, log);
    }
    return ask_program(issuer, action, record, log);
}
