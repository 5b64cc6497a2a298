/* Fibers that ask the resolver, and the name servers that they ask. */
#ifndef TESTS_NET_RESOLVING_H
#define TESTS_NET_RESOLVING_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <stdio.h>

#include "fiber/fiber.h"
#include "net/resolver/dns_server.h"
#include "net/resolver/resolver.h"

#define LONG_MS 30000 /* a deadline that no test reaches */

static struct dns_server servers[2];
static struct addr server_addrs[2];
static struct resolver_settings settings;

/* A fiber that asks, and what it was told. */
struct ask {
    const struct resolver_settings *settings;
    const char *name;
    const char *service; /* NULL: addresses */
    uint64_t within_ms;
    struct fiber *fiber;
    struct arena arena;
    bool is_done;
    enum resolve_result result;
    struct resolved resolved;
};

static inline void ask_run(void *arg)
{
    struct ask *ask = arg;
    const struct dns_lookup lookup = {.settings = ask->settings,
                                      .name = str_of(ask->name),
                                      .deadline_ms = clock_now.now_ms + ask->within_ms,
                                      .log = log_main,
                                      .arena = &ask->arena};

    ask->result = ask->service != NULL
                      ? resolver_services(&lookup, str_of(ask->service), &ask->resolved)
                      : resolver_addresses(&lookup, &ask->resolved);
    ask->is_done = true;
}

static inline void ask_start(struct ask *ask, const char *name, uint64_t within_ms)
{
    *ask = (struct ask){.settings = &settings,
                        .name = name,
                        .service = ask->service,
                        .within_ms = within_ms};
    arena_init(&ask->arena);
    fiber_start(ask_run, ask, &ask->fiber);
}

static inline void ask_end(struct ask *ask)
{
    arena_free(&ask->arena);
}

/* Asks and turns the loop until it is told; ask_end must follow. */
static inline enum resolve_result resolve_within(struct ask *ask, const char *name,
                                                 uint64_t within_ms)
{
    ask->service = NULL;
    ask_start(ask, name, within_ms);
    turn_until(ask->is_done);
    return ask->result;
}

static inline enum resolve_result resolve(struct ask *ask, const char *name)
{
    return resolve_within(ask, name, LONG_MS);
}

static inline enum resolve_result resolve_service(struct ask *ask, const char *service,
                                                  const char *name)
{
    ask->service = service;
    ask_start(ask, name, LONG_MS);
    turn_until(ask->is_done);
    return ask->result;
}

/* The addresses that were told, a blank behind each; those of services with all that belongs to
 * them. */
static inline void assert_told(const struct ask *ask, const char *wanted)
{
    struct buf text = {0};

    assert_int_equal(ask->result, RESOLVE_OK);
    for (unsigned i = 0; i < ask->resolved.count; i++) {
        const struct resolved_address *item = &ask->resolved.items[i];
        char address[ADDR_TEXT_MAX];

        if (item->name.len != 0) {
            buf_printf(&text, "%.*s/%u/%u=", STR_ARG(item->name), item->priority, item->weight);
        }
        bool has_port = addr_port(&item->addr) != 0;
        buf_printf(&text, "%.*s ", (int) addr_format(&item->addr, has_port, address), address);
    }
    buf_append_char(&text, '\0');
    assert_string_equal(text.data, wanted);
    buf_free(&text);
}

/* The whole life of one question whose answer is known. */
static inline void assert_resolves(const char *name, const char *wanted)
{
    struct ask ask;

    resolve(&ask, name);
    assert_told(&ask, wanted);
    ask_end(&ask);
}

static inline void assert_result(const char *name, enum resolve_result wanted)
{
    struct ask ask;

    assert_int_equal(resolve(&ask, name), wanted);
    assert_int_equal(ask.resolved.count, 0);
    ask_end(&ask);
}

static inline bool says_nothing(struct dns_server *server, const struct seen *seen,
                                struct message *reply)
{
    return false;
}

static inline struct resolver_stats stats(void)
{
    struct resolver_stats now;

    resolver_stats(&now);
    return now;
}

/* The first `count` servers are asked, in their order. */
static inline void use_servers(size_t count)
{
    settings.servers.count = count;
}

static inline int resolving_setup(void **state)
{
    struct loop_options options = {.log = log_main};

    conn_pool_init(1000);
    if (!loop_init(&options) || !loop_host_fibers(1000, 0)) {
        return -1;
    }
    clock_update();
    for (unsigned i = 0; i < 2; i++) {
        dns_server_open(&servers[i], says_nothing);
        server_addrs[i] = servers[i].addr;
    }
    settings = (struct resolver_settings){.servers = {server_addrs, 1, 2},
                                          .uses_ipv4 = true,
                                          .uses_ipv6 = true};
    return 0;
}

static inline int resolving_teardown(void **state)
{
    resolver_close_all();
    for (unsigned i = 0; i < 2; i++) {
        dns_server_close(&servers[i]);
    }
    assert_int_equal(stats().names, 0);
    assert_int_equal(stats().questions, 0);
    assert_int_equal(conn_pool.used, 0);
    loop_destroy();
    return 0;
}

#define RESOLVING(name) cmocka_unit_test_setup_teardown(name, resolving_setup, resolving_teardown)

#endif
