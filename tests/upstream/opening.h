/* For tests of connections to peers: a group of one peer that listens, and requests that open links
 * to it. */
#ifndef TESTS_UPSTREAM_OPENING_H
#define TESTS_UPSTREAM_OPENING_H

#include "upstream/fixture.h"

static int listening = -1;
static unsigned port;
static struct upstream_group *group;

/* One request that opens a link. */
struct opening {
    struct asker asker;
    struct upstream_connection_options options;
    uint64_t timeout_ms;
    struct variable_env *env; /* NULL: without variables */
    struct upstream_connection *connection;
    int error;
    enum upstream_connect_result result;
    bool is_over;
};

static const char here, there; /* tags: two locations */

/* A group of one peer that listens, with these lines. */
static inline void start_peer(const char *before, const char *lines)
{
    char text[512];

    listening = listen_somewhere(&port, 16);
    snprintf(text, sizeof(text), "upstream u { server 127.0.0.1:%u; %s }", port, lines);
    start_with(before, text);
    group = group_named("u");
}

static inline void stop_peer(void)
{
    finish();
    close(listening);
    listening = -1;
}

static inline void open_now(void *arg)
{
    struct opening *opening = arg;

    begin(&opening->asker, group);
    opening->asker.pick.env = opening->env;
    assert_int_equal(upstream_pick_next(&opening->asker.pick), PICK_OK);
    opening->result =
        upstream_connection_open(&opening->asker.pick, &opening->options, opening->timeout_ms,
                                 &opening->connection, &opening->error);
    opening->is_over = true;
}

static inline struct opening open_with(struct upstream_connection_options options,
                                       uint64_t timeout_ms)
{
    struct opening opening = {.options = options, .timeout_ms = timeout_ms};

    on_fiber(open_now, &opening);
    assert_true(opening.is_over);
    return opening;
}

static inline struct opening open_tagged(const void *tag)
{
    struct opening opening = open_with((struct upstream_connection_options){.tag = tag}, 10000);

    assert_int_equal(opening.result, UPSTREAM_CONNECT_OK);
    return opening;
}

static inline void over(struct opening *opening)
{
    end(&opening->asker);
}

/* A request that is answered: its link is kept if it may be. */
static inline bool request(const void *tag)
{
    struct opening opening = open_tagged(tag);
    bool is_reused = opening.connection->is_reused;

    upstream_connection_keep(opening.connection);
    over(&opening);
    return is_reused;
}

static inline struct peer_local *local_of(unsigned index)
{
    return group->peers->primary.peers[index].local;
}

#endif
