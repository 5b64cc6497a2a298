/* The hook of dns-01: a program, or an HTTP request, that adds and removes a TXT record. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fatal.h"
#include "http/modules/clients/acme/acme.h"
#include "server/generation.h"

#define HOOK_S 120    /* a program may take so long */
#define LOOK_US 20000 /* between two looks whether it has ended */
#define THREADS 2

/* A program under way. */
struct hook_program {
    char *words[5]; /* program, action, name, value */
};

/* A duty that a thread runs: on the heap, as its texts. */
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

static int start(const struct hook_program *program, pid_t *pid)
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
    int error = posix_spawn(pid, program->words[0], &actions, &attributes, program->words, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* With all that it has started. Its group keeps it from a process that waits for any child (server/master/single.c). */
static int await(pid_t pid, int *status, bool *is_late)
{
    for (unsigned looks = 0;; looks++) {
        pid_t ended = waitpid(pid, status, WNOHANG);
        if (ended != 0) {
            return ended == -1 ? errno : 0; /* how it ended is not known */
        }
        if (looks >= HOOK_S * (1000000 / LOOK_US) && !*is_late) {
            *is_late = true;
            kill(-pid, SIGKILL);
        }
        usleep(LOOK_US);
    }
}

int acme_hook_program(struct str path, const struct str words[3], int *status, bool *is_late)
{
    struct hook_program program = {.words = {copy(path)}};
    pid_t pid;

    for (unsigned i = 0; i < 3; i++) {
        program.words[i + 1] = copy(words[i]);
    }
    int error = start(&program, &pid);
    if (error == 0) {
        error = await(pid, status, is_late);
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
    } else if (duty->is_late) {
        log_error(log, 0, "dns_hook \"%.*s %.*s %.*s\" did not end within %d seconds",
                  STR_ARG(path), STR_ARG(action), STR_ARG(name), HOOK_S);
    } else if (!WIFEXITED(duty->status) || WEXITSTATUS(duty->status) != 0) {
        log_error(log, 0, "dns_hook \"%.*s %.*s %.*s\" failed with status %d", STR_ARG(path),
                  STR_ARG(action), STR_ARG(name),
                  WIFEXITED(duty->status) ? WEXITSTATUS(duty->status)
                                          : 128 + WTERMSIG(duty->status));
    } else {
        return true;
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
    /* Where the fiber is cancelled a record would stay: the program is run to its end. */
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

/* Names and values have nothing that JSON escapes. */
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
