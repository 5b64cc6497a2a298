/*
 * A service of lines, for tests of processes and shards without http: each line is answered with
 * the slot, the process and the generation that got it. "hold" keeps the connection from resting,
 * "spin MS" keeps the loop from turning, "crash" ends the worker.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/parse.h"
#include "net/conn/conn.h"
#include "net/shards/listener.h"
#include "server/module.h"

struct echo_settings {
    struct vec addresses; /* struct addr */
};

static struct settings_key key;

static void close_conn(struct conn *conn)
{
    conn_close(conn);
    counters_mine->active--;
}

static void spin(uint64_t ms)
{
    struct timespec start, now;

    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((uint64_t) (now.tv_sec - start.tv_sec) * 1000 + (uint64_t) (now.tv_nsec / 1000000) <
             ms + (uint64_t) (start.tv_nsec / 1000000));
}

/* Gives false when the connection is not to rest. */
static bool answer(struct conn *conn, struct str line)
{
    char text[64];
    uint64_t ms;

    if (str_is(line, "crash")) {
        *(volatile int *) NULL = 0;
    }
    if (str_starts(line, STR("spin ")) && parse_uint(str_skip(line, 5), &ms)) {
        spin(ms);
    }
    counters_mine->requests++;
    int len = snprintf(text, sizeof(text), "%u %d %u\n", worker_slot, (int) getpid(),
                       generation_now->number);
    conn_write(conn, (struct str){text, (size_t) len});
    return !str_is(line, "hold");
}

static void input(struct conn *conn)
{
    bool may_rest = true;

    conn_unpark(conn);
    for (;;) {
        bool more = conn_fill(conn, 256, 4096);
        struct str in = conn_input(conn);
        const char *end;

        while (in.len != 0 && (end = str_find_char(in, '\n')) != NULL) {
            may_rest = answer(conn, str_from(in.data, end));
            conn_consume(conn, (size_t) (end + 1 - in.data));
            in = conn_input(conn);
        }
        if (!more) {
            break;
        }
    }
    if (!conn_flush(conn) || conn->is_input_closed || conn->is_broken) {
        close_conn(conn);
    } else if (may_rest && !worker_is_quitting) {
        conn_park(conn);
    } else if (may_rest) {
        close_conn(conn);
    } else {
        conn_watch(conn);
    }
}

static void drained(struct conn *conn)
{
}

static const struct conn_owner owner = {.input = input,
                                        .drained = drained,
                                        .timed_out = close_conn};

static struct conn *take(struct listener *listener, int fd, const struct addr *peer)
{
    struct conn *conn = conn_new(fd, peer, &owner, listener->log);

    if (conn == NULL) {
        close(fd);
        return NULL;
    }
    conn->listener = listener;
    counters_mine->active++;
    return conn;
}

static void accepted(struct listener *listener, int fd, const struct addr *peer)
{
    struct conn *conn = take(listener, fd, peer);

    counters_mine->accepted++;
    if (conn != NULL) {
        input(conn);
    }
}

static void handed_over(struct listener *listener, int fd, const struct addr *peer,
                        const void *state, size_t size)
{
    struct conn *conn = take(listener, fd, peer);

    if (conn != NULL && size == 4 && memcmp(state, "echo", 4) == 0) {
        input(conn);
    }
}

static bool apply_listen(struct conf_scope *scope, const struct directive *row,
                         struct conf_node *node, void *settings)
{
    struct echo_settings *echo = settings;
    struct addr_list list;

    if (!addr_parse(scope->conf->arena, node->args[1], 7, true, &list)) {
        return conf_error(scope->conf, node, "%s in \"%.*s\"", list.error, STR_ARG(node->args[1]));
    }
    for (size_t i = 0; i < list.count; i++) {
        *vec_add(&echo->addresses, scope->conf->arena, struct addr) = list.items[i];
    }
    return true;
}

static bool configured(struct conf *conf, struct generation *generation)
{
    struct echo_settings *echo = conf_settings(conf_main_scope(conf), &key);

    vec_each(struct addr, addr, &echo->addresses) {
        struct listener *listener = arena_new(conf->arena, struct listener);
        char text[ADDR_TEXT_MAX + 1];

        listener->magic = LISTENER_MAGIC;
        listener->addr = *addr;
        listener->text = arena_dup(conf->arena, (struct str){text, addr_format(addr, true, text)});
        listener->options =
            (struct listen_options){.backlog = -1, .rcvbuf = -1, .sndbuf = -1, .fastopen = -1};
        listener->log = &generation->log;
        listener->accepted = accepted;
        listener->handed_over = handed_over;
        listener->next = generation->listeners;
        generation->listeners = listener;
    }
    return true;
}

static void let_go(struct conn *conn, void *arg)
{
    struct listener *listener = (struct listener *) conn->listener;

    if (!conn->is_idle) {
        return;
    }
    if (handover_now != NULL) {
        int fd = dup(conn->source.fd);

        if (handover_now->send(handover_now, listener, fd, "echo", 4)) {
            close_conn(conn);
            return;
        }
        close(fd);
        return; /* it rests here until its client leaves */
    }
    close_conn(conn);
}

static void worker_quit(struct generation *generation)
{
    conn_each(let_go, NULL);
}

static const struct directive rows[] = {
    {"echo_listen", IN_MAIN, CUSTOM(apply_listen), ARGS(1, 1), .repeat = REPEAT_APPEND,
     .syntax = "<address>", .doc = "Answers lines there."},
    {0},
};

static const struct directive_table table = {.key = &key,
                                             .rows = rows,
                                             .contexts = IN_MAIN,
                                             .size = sizeof(struct echo_settings)};
static const struct directive_table *const tables[] = {&table, NULL};

const struct module ngx_echo_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_echo_module",
    .kind = MODULE_CORE,
    .tables = tables,
    .configured = configured,
    .worker_quit = worker_quit,
};
