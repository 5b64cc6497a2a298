/*
 * src/upstream as a worker has it: a configuration is read as the server reads it, the loop turns,
 * fibers run, peers are sockets of the test's own.
 */
#ifndef TESTS_UPSTREAM_FIXTURE_H
#define TESTS_UPSTREAM_FIXTURE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "base/unit.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/memory_log.h"
#include "base/clock.h"
#include "event/loop.h"
#include "fiber/fiber.h"
#include "net/conn/conn.h"
#include "server/configuration/generation_life.h"
#include "server/process/cells.h"
#include "server/process/server.h"
#include "upstream/private.h"

static struct generation *generation; /* that the worker runs, or NULL */
static struct upstream_set *set;
static char directory[] = "/tmp/portunus-upstream-XXXXXX";
static char conf_path[sizeof(directory) + 16];

/* ---- configurations ---- */

/* Reads what stands inside http { } after `before`, the main level. NULL: messages says why. */
static inline struct generation *read_generation(struct generation *old, const char *before,
                                                 const char *text)
{
    FILE *file = fopen(conf_path, "w");

    assert_non_null(file);
    messages.len = 0;
    fprintf(file, "%s events {} http {\n%s\n}\n", before, text);
    fclose(file);
    return generation_read(old, true, false);
}

static inline void worker_begins(struct generation *made)
{
    struct loop_options options = {.log = log_main};

    generation = generation_now = made;
    set = upstream_set_of(&generation->conf, &upstream_http);
    conn_pool_init(1000);
    assert_true(loop_init(&options));
    assert_true(loop_host_fibers(200, 0));
    clock_update();
    assert_true(upstream_worker_start(generation, &upstream_http));
}

/* A worker of slot 0 begins with this configuration. */
static inline void start_with(const char *before, const char *text)
{
    struct generation *made = read_generation(NULL, before, text);

    if (made == NULL) {
        fail_msg("not taken: %.*s", STR_ARG(buf_str(&messages)));
    }
    worker_begins(made);
}

static inline void start(const char *text)
{
    start_with("", text);
}

static inline void worker_ends(void)
{
    struct fiber_pool_stats fibers;

    upstream_worker_quit(generation, &upstream_http);
    for (unsigned i = 0; i < 16; i++) {
        loop_turn(0);
    }
    fiber_pool_stats(&fibers);
    assert_int_equal(fibers.in_use, 0);
    assert_int_equal(conn_pool.used, 0);
    upstream_worker_end(generation, &upstream_http);
    loop_destroy();
}

static inline void finish(void)
{
    worker_ends();
    generation_free(generation);
    generation = generation_now = NULL;
}

static inline void assert_read(const char *text)
{
    struct generation *made = read_generation(NULL, "", text);

    if (made == NULL) {
        fail_msg("not taken: %.*s", STR_ARG(buf_str(&messages)));
    }
    generation_free(made);
}

/* Refused, with this message before " in FILE:LINE"; line 1 is the text's first. */
static inline void assert_unread(const char *text, const char *message, unsigned line)
{
    char wanted[512];

    if (read_generation(NULL, "", text) != NULL) {
        fail_msg("taken: %s", text);
    }
    snprintf(wanted, sizeof(wanted), "[emerg] %s in %s:%u\n", message, conf_path, line + 1);
    if (!was_logged(wanted)) {
        fail_msg("got \"%.*s\", expected \"%s\"", STR_ARG(buf_str(&messages)), wanted);
    }
}

static inline struct upstream_group *group_named(const char *name)
{
    struct upstream_group *group = map_get_nocase(&set->blocks, str_of(name));

    assert_non_null(group);
    return group;
}

/* ---- picks ---- */

/* A request and its memory. */
struct asker {
    struct upstream_pick pick;
    struct arena arena;
};

static inline void begin(struct asker *asker, struct upstream_group *group)
{
    memset(asker, 0, sizeof(*asker));
    arena_init(&asker->arena);
    asker->pick.arena = &asker->arena;
    asker->pick.log = &memory_log;
    upstream_pick_begin(&asker->pick, group);
}

static inline void end(struct asker *asker)
{
    upstream_pick_end(&asker->pick);
    arena_free(&asker->arena);
}

/* Port of the peer that a request gets, which is given back with this outcome; 0 = nobody. */
static inline unsigned ask_once(struct upstream_group *group, enum peer_outcome outcome)
{
    struct asker asker;
    unsigned port = 0;

    begin(&asker, group);
    if (upstream_pick_next(&asker.pick) == PICK_OK) {
        port = addr_port(&asker.pick.peer->addr);
        upstream_pick_done(&asker.pick, outcome);
    }
    end(&asker);
    return port;
}

/* ---- the loop ---- */

#define turn_until(condition)                                                                      \
    do {                                                                                           \
        uint64_t give_up_ = clock_now.now_ms + 10000;                                              \
        while (!(condition) && clock_now.now_ms < give_up_) {                                      \
            loop_turn(20);                                                                         \
        }                                                                                          \
        assert_true(condition);                                                                    \
    } while (0)

/* Runs it on a fiber, to its end. */
static inline void on_fiber(void (*run)(void *), void *arg)
{
    struct fiber *fiber;
    struct fiber_pool_stats before, now;

    fiber_pool_stats(&before);
    if (fiber_start(run, arg, &fiber) == FIBER_WAITING) {
        do {
            loop_turn(20);
            fiber_pool_stats(&now);
        } while (now.in_use > before.in_use);
    }
}

/* ---- peers ---- */

/* A socket that listens on loopback; gives its port. */
static inline int listen_somewhere(unsigned *port, int backlog)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(name);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *) &name, len), 0);
    assert_int_equal(listen(fd, backlog), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *) &name, &len), 0);
    *port = ntohs(name.sin_port);
    return fd;
}

/* The next connection that was made to it. */
static inline int accept_one(int listening)
{
    struct pollfd waited = {.fd = listening, .events = POLLIN};

    assert_int_equal(poll(&waited, 1, 10000), 1);
    int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static inline bool has_waiting(int listening)
{
    struct pollfd waited = {.fd = listening, .events = POLLIN};

    return poll(&waited, 1, 0) == 1;
}

/* ---- the frame ---- */

static int set_up_group(void **state)
{
    clock_update();
    log_main = &memory_log;
    log_is_starting = false;
    assert_true(cells_init());
    assert_non_null(mkdtemp(directory));
    snprintf(conf_path, sizeof(conf_path), "%s/t.conf", directory);
    server.file_name = str_of(conf_path);
    server.prefix = arena_printf(&server.arena, "%s/", directory);
    server.cpu_count = 1;
    return 0;
}

static int tear_down_group(void **state)
{
    buf_free(&messages);
    unlink(conf_path);
    rmdir(directory);
    arena_free(&server.arena);
    return 0;
}

#define upstream_tests_run(name, tests)                                                            \
    cmocka_run_group_tests_name(name, tests, set_up_group, tear_down_group)

#endif
