/* The monitor of an issuer: a process with the master's rights that performs operations allowed by
 * acme_duty_is_allowed for the process that orders, which communicates with a CA and has only the
 * workers' rights. Of a CA's data it handles only what is written to files. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http/modules/clients/acme/acme.h"

#define TEXT_MAX 4096 /* bytes of each string, except for the contents of a file */

/* The message on the socket; the strings follow. */
struct question {
    uint32_t kind;
    uint32_t sizes[ACME_DUTY_TEXTS];
};

struct reply {
    int32_t error;
    int32_t status;
    uint32_t end;  /* an enum acme_hook_end */
    uint32_t size; /* of the text that follows */
    int64_t time_ns;
};

/* ---- the socket: blocking ---- */

static bool send_all(int fd, const void *data, size_t size)
{
    const char *at = data;

    while (size != 0) {
        ssize_t n = send(fd, at, size, MSG_NOSIGNAL);

        if (n < 0 && errno != EINTR) {
            return false;
        }
        if (n > 0) {
            at += n;
            size -= (size_t) n;
        }
    }
    return true;
}

static bool receive_all(int fd, void *data, size_t size)
{
    char *at = data;

    while (size != 0) {
        ssize_t n = recv(fd, at, size, 0);

        if (n == 0 || (n < 0 && errno != EINTR)) {
            return false;
        }
        if (n > 0) {
            at += n;
            size -= (size_t) n;
        }
    }
    return true;
}

static bool receive_text(int fd, struct arena *arena, size_t size, struct str *out)
{
    char *text = arena_text(arena, size);

    *out = (struct str){text, size};
    return receive_all(fd, text, size);
}

/* ---- in the monitor ---- */

static bool receive_duty(int fd, struct arena *arena, struct acme_duty *duty)
{
    struct question question;

    if (!receive_all(fd, &question, sizeof(question)) || question.kind > ACME_RUN_HOOK) {
        return false;
    }
    *duty = (struct acme_duty){.kind = (enum acme_duty_kind) question.kind};
    for (unsigned i = 0; i < ACME_DUTY_TEXTS; i++) {
        size_t limit = i == 1 && question.kind == ACME_FILE_WRITE ? ACME_PEM_MAX : TEXT_MAX;

        if (question.sizes[i] > limit ||
            !receive_text(fd, arena, question.sizes[i], &duty->texts[i])) {
            return false;
        }
    }
    return true;
}

static bool send_reply(int fd, const struct acme_duty *duty)
{
    const struct reply reply = {duty->error, duty->status, duty->end, (uint32_t) duty->text.len,
                                duty->time_ns};

    return send_all(fd, &reply, sizeof(reply)) && send_all(fd, duty->text.data, duty->text.len);
}

void acme_monitor_serve(int fd, void *arg)
{
    struct acme_issuer *issuer = arg;
    struct acme_duty duty;
    struct arena arena;
    bool is_good;

    issuer->asker = fd;
    do {
        arena_init(&arena);
        is_good = receive_duty(fd, &arena, &duty);
        if (is_good && acme_duty_is_allowed(issuer, &duty)) {
            acme_duty_perform(issuer, &duty, &arena);
        } else {
            duty.error = EPERM;
        }
        is_good = is_good && (duty.kind == ACME_STOP || send_reply(fd, &duty));
        arena_free(&arena);
    } while (is_good);
}

/* ---- in the process that orders ---- */

bool acme_monitor_start(struct acme_issuer *issuer)
{
    if (monitor_start(&issuer->monitor, STR("acme monitor process"), acme_monitor_serve, issuer)) {
        return true;
    }
    log_emerg(log_main, errno, "acme_issuer \"%.*s\": no monitor process can be started",
              STR_ARG(issuer->name));
    return false;
}

void acme_monitor_end(struct acme_issuer *issuer)
{
    if (issuer->is_alone) {
        log_alert(log_main, 0,
                  "acme_issuer \"%.*s\": its monitor process has exited, and this process exits",
                  STR_ARG(issuer->name));
    }
    monitor_end(&issuer->monitor, !issuer->is_asking);
}

/* Sends one message, so that an ACME_STOP of another thread is before or after it. */
static bool send_question(int fd, const struct acme_duty *duty)
{
    struct question question = {.kind = (uint32_t) duty->kind};
    struct buf out = {0};

    for (unsigned i = 0; i < ACME_DUTY_TEXTS; i++) {
        question.sizes[i] = (uint32_t) duty->texts[i].len;
    }
    buf_append(&out, (struct str){(const char *) &question, sizeof(question)});
    for (unsigned i = 0; i < ACME_DUTY_TEXTS; i++) {
        buf_append(&out, duty->texts[i]);
    }
    bool is_good = send_all(fd, out.data, out.len);
    buf_free(&out);
    return is_good;
}

static bool ask(int fd, struct acme_duty *duty, struct arena *arena)
{
    struct reply reply;

    if (!send_question(fd, duty)) {
        return false;
    }
    if (!receive_all(fd, &reply, sizeof(reply)) || reply.size > ACME_PEM_MAX) {
        return false;
    }
    duty->error = reply.error;
    duty->status = reply.status;
    duty->end = (enum acme_hook_end) reply.end;
    duty->time_ns = reply.time_ns;
    return reply.size == 0 || (arena != NULL && receive_text(fd, arena, reply.size, &duty->text));
}

void acme_monitor_stop(struct acme_issuer *issuer)
{
    const struct acme_duty stop = {.kind = ACME_STOP};

    if (issuer->monitor.pid == 0) {
        atomic_store(&issuer->is_stopping, true);
    } else if (!atomic_load(&issuer->is_alone)) {
        send_question(issuer->monitor.fd, &stop);
    }
}

void acme_duty_run(struct acme_issuer *issuer, struct acme_duty *duty, struct arena *arena)
{
    struct arena own;

    if (issuer->monitor.pid != 0) {
        issuer->is_asking = true;
        if (!ask(issuer->monitor.fd, duty, arena)) {
            duty->error = EPIPE;
            issuer->is_alone = true;
            kill(getpid(), SIGTERM); /* the master starts another one, with a monitor */
        }
        issuer->is_asking = false;
        return;
    }
    arena_init(&own);
    acme_duty_perform(issuer, duty, arena != NULL ? arena : &own);
    arena_free(&own);
}
