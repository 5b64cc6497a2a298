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

/* A program under way: on a thread, with words on the heap. */
struct hook_program {
    char *words[5]; /* program, action, name, value */
    int error;      /* errno of its start, or of waiting for it */
    int status;     /* of waitpid(2) */
    bool is_late;   /* it was killed */
};

static bool start(const struct hook_program *program, pid_t *pid, int *error)
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
    *error = posix_spawn(pid, program->words[0], &actions, &attributes, program->words, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return *error == 0;
}

/* With all that it has started. Its group keeps it from a process that waits for any child (server/master/single.c). */
static void run_program(void *arg)
{
    struct hook_program *program = arg;
    pid_t pid;

    if (!start(program, &pid, &program->error)) {
        return;
    }
    for (unsigned looks = 0;; looks++) {
        pid_t ended = waitpid(pid, &program->status, WNOHANG);
        if (ended != 0) {
            program->error = ended == -1 ? errno : 0; /* how it ended is not known */
            return;
        }
        if (looks >= HOOK_S * (1000000 / LOOK_US) && !program->is_late) {
            program->is_late = true;
            kill(-pid, SIGKILL);
        }
        usleep(LOOK_US);
    }
}

static char *copy(struct str text)
{
    char *made = strndup(text.data, text.len);

    if (made == NULL) {
        fatal_no_memory(text.len);
    }
    return made;
}

static bool tell_program(const struct hook_program *program, const struct log *log)
{
    if (program->error != 0) {
        log_error(log, program->error, "dns_hook \"%s\" cannot be run", program->words[0]);
    } else if (program->is_late) {
        log_error(log, 0, "dns_hook \"%s %s %s\" did not end within %d seconds", program->words[0],
                  program->words[1], program->words[2], HOOK_S);
    } else if (!WIFEXITED(program->status) || WEXITSTATUS(program->status) != 0) {
        log_error(log, 0, "dns_hook \"%s %s %s\" failed with status %d", program->words[0],
                  program->words[1], program->words[2],
                  WIFEXITED(program->status) ? WEXITSTATUS(program->status)
                                             : 128 + WTERMSIG(program->status));
    } else {
        return true;
    }
    return false;
}

static bool ask_program(struct str path, const char *action, const struct acme_record *record,
                        const struct log *log)
{
    struct hook_program *program = calloc(1, sizeof(*program));

    if (program == NULL) {
        fatal_no_memory(sizeof(*program));
    }
    program->words[0] = copy(path);
    program->words[1] = copy(str_of(action));
    program->words[2] = copy(record->name);
    program->words[3] = copy(record->value);
    /* Where the fiber is cancelled a record would stay: the program is run to its end. */
    fiber_shield_begin();
    bool is_good = thread_pool_call(worker_own_thread_pool(STR("acme"), THREADS, 16), run_program,
                                    program) == THREAD_CALL_DONE &&
                   tell_program(program, log);
    fiber_shield_end();
    for (unsigned i = 0; i < 4; i++) {
        free(program->words[i]);
    }
    free(program);
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

bool acme_hook_run(const struct acme_issuer *issuer, struct arena *arena, const char *action,
                   const struct acme_record *record, const struct log *log)
{
    if (str_starts(issuer->dns_hook, STR("http"))) {
        return ask_server(issuer, arena, action, record, log);
    }
    return ask_program(issuer->dns_hook, action, record, log);
}
