/* Tests of the shared memory of peers: what a generation takes over from the one before, spare
 * cells. */
#include "upstream/fixture.h"

static struct peer_cell *cell(const char *name, unsigned index)
{
    return group_named(name)->peers->primary.peers[index].cell;
}

/* The next generation begins in place of the one that runs. */
static void reload(const char *text)
{
    struct generation *old = generation;
    struct generation *made = read_generation(old, "", text);

    if (made == NULL) {
        fail_msg("not taken: %.*s", STR_ARG(buf_str(&messages)));
    }
    worker_ends();
    generation_free(old);
    worker_begins(made);
}

#define TWO "upstream u { server 127.0.0.1:8000; server 127.0.0.1:8001; check interval=3600000; }"

static void health_is_taken_over(void **state)
{
    start(TWO);
    atomic_store(&cell("u", 1)->is_unhealthy, 1);
    atomic_store(&cell("u", 1)->fails, 7);
    atomic_store(&cell("u", 1)->up_at_ms, 12);
    atomic_store(&cell("u", 1)->facts_state, 2);
    atomic_store(&cell("u", 1)->connections_max, 5);
    atomic_store(&cell("u", 0)->facts_state, 1);
    reload(TWO);
    assert_int_equal(atomic_load(&cell("u", 1)->is_unhealthy), 1);
    assert_int_equal(atomic_load(&cell("u", 1)->fails), 0);
    assert_int_equal(atomic_load(&cell("u", 1)->up_at_ms), 12);
    assert_int_equal(atomic_load(&cell("u", 1)->facts_state), 2);
    assert_int_equal(atomic_load(&cell("u", 1)->connections_max), 5);
    assert_int_equal(atomic_load(&cell("u", 0)->facts_state), 0);

    /* Another address at that place is another peer, and a check that is gone says nothing. */
    reload("upstream u { server 127.0.0.1:8000; server 127.0.0.1:8002; }");
    assert_int_equal(atomic_load(&cell("u", 1)->facts_state), 0);
    finish();
}

static void a_check_that_is_gone_says_nothing(void **state)
{
    start(TWO);
    atomic_store(&cell("u", 1)->is_unhealthy, 1);
    reload("upstream u { server 127.0.0.1:8000; server 127.0.0.1:8001; }");
    assert_int_equal(atomic_load(&cell("u", 1)->is_unhealthy), 0);
    finish();
}

static void a_reading_that_fails_changes_nothing(void **state)
{
    start(TWO);
    atomic_store(&cell("u", 1)->connections_max, 5);
    assert_null(read_generation(generation, "", TWO "server { listen 127.0.0.1:8080; nonsense; }"));
    assert_null(read_generation(generation, "", "upstream u { server 127.0.0.1 backup; }"));
    /* It is taken, but then cannot be opened. */
    struct generation *made = read_generation(generation, "", TWO);
    assert_non_null(made);
    atomic_store(&cell("u", 1)->connections_max, 6);
    generation_free(made);
    reload(TWO);
    assert_int_equal(atomic_load(&cell("u", 1)->connections_max), 6);
    finish();
}

static void a_dead_worker_is_cleared(void **state)
{
    start(TWO);
    struct generation *same = generation;
    struct peer_cell *first = cell("u", 0);
    worker_ends();
    atomic_store(&first->use[0].active, 9);
    atomic_store(&first->use[0].open, 9);
    worker_begins(same);
    assert_ptr_equal(cell("u", 0), first);
    assert_int_equal(peer_active(first), 0);
    assert_int_equal(peer_open(first), 0);
    finish();
}

/* ---- addresses found at run time ---- */

#define NAMED                                                                                      \
    "upstream n { zone z 64k; server 127.0.0.1:1; server a.invalid:8000; server 127.0.0.1:2; }"

/* The only watched name of the group has these addresses now. */
static void addresses_of(const char *name, const char *list)
{
    struct upstream_group *group = group_named(name);
    struct resolved_address items[8];
    struct resolved found = {.items = items};
    struct str rest = str_of(list);

    while (rest.len != 0) {
        items[found.count] = (struct resolved_address){0};
        assert_true(addr_parse_ip(str_cut(&rest, ' '), &items[found.count].addr));
        found.count++;
    }
    watch_answer(group, &found);
}

static void addresses_are(const char *list)
{
    addresses_of("n", list);
}

static void peers_are(const char *wanted)
{
    struct buf text = {0};
    const struct peer_set *peers = &group_named("n")->peers->primary;

    for (unsigned i = 0; i < peers->count; i++) {
        buf_printf(&text, "%s%.*s", i == 0 ? "" : " ", STR_ARG(peers->peers[i].name));
    }
    assert_str(buf_str(&text), str_of(wanted));
    buf_free(&text);
}

static void addresses_come_and_go(void **state)
{
    struct asker asker;

    start(NAMED);
    peers_are("127.0.0.1:1 127.0.0.1:2");
    addresses_are("10.0.0.1 10.0.0.2 10.0.0.1");
    peers_are("127.0.0.1:1 10.0.0.1:8000 10.0.0.2:8000 10.0.0.1:8000 127.0.0.1:2");
    struct peer_list *twice = group_named("n")->peers;
    struct peer_cell *first = cell("n", 1), *second = cell("n", 2);
    assert_int_not_equal(second->number, CELL_PRIVATE);
    assert_ptr_not_equal(cell("n", 3), first);

    /* Twice is two servers: another order is no change, once takes one away. */
    addresses_are("10.0.0.2 10.0.0.1 10.0.0.1");
    assert_ptr_equal(group_named("n")->peers, twice);
    addresses_are("10.0.0.2 10.0.0.2 10.0.0.1");
    peers_are("127.0.0.1:1 10.0.0.2:8000 10.0.0.2:8000 10.0.0.1:8000 127.0.0.1:2");
    assert_ptr_equal(cell("n", 1), second);
    assert_ptr_equal(cell("n", 3), first);
    addresses_are("10.0.0.1 10.0.0.2");
    peers_are("127.0.0.1:1 10.0.0.1:8000 10.0.0.2:8000 127.0.0.1:2");
    assert_ptr_equal(cell("n", 1), first);
    assert_ptr_equal(cell("n", 2), second);

    /* A request keeps its peer while names change. */
    begin(&asker, group_named("n"));
    struct peer_list *list = asker.pick.list;
    addresses_are("10.0.0.2 10.0.0.3");
    assert_int_equal(list->count, 4);
    assert_text(list->primary.peers[1].name, "10.0.0.1:8000");
    end(&asker);
    assert_ptr_equal(cell("n", 1), second);
    peers_are("127.0.0.1:1 10.0.0.2:8000 10.0.0.3:8000 127.0.0.1:2");

    /* Another order is no change. */
    list = group_named("n")->peers;
    addresses_are("10.0.0.3 10.0.0.2");
    assert_ptr_equal(group_named("n")->peers, list);
    addresses_are("");
    peers_are("127.0.0.1:1 127.0.0.1:2");
    finish();
}

static void addresses_are_remembered(void **state)
{
    start(NAMED);
    addresses_are("10.0.0.1 10.0.0.2");
    atomic_store(&cell("n", 1)->connections_max, 3);
    reload("upstream other { server 127.0.0.1; }"
           "upstream n { zone z 64k; server a.invalid:8001; }");
    peers_are("10.0.0.1:8001 10.0.0.2:8001");
    assert_int_equal(atomic_load(&cell("n", 0)->connections_max), 3);
    addresses_are("10.0.0.2");
    reload("upstream n { zone z 64k; server a.invalid:8001; server b.invalid:8001; }");
    peers_are("10.0.0.2:8001");
    reload("upstream n { zone z 64k; server c.invalid:8001; }");
    peers_are("");
    finish();
}

static void spare_cells_run_out(void **state)
{
    char text[32];

    start(NAMED);
    struct peer_local *kept = NULL;
    for (unsigned i = 0; i < 400; i++) {
        snprintf(text, sizeof(text), "10.0.%u.%u", i / 250, i % 250);
        addresses_are(text); /* those before are free again */
        assert_int_not_equal(cell("n", 1)->number, CELL_PRIVATE);
    }
    assert_false(was_logged("no room in shared memory"));
    /* All of them are in use still. */
    for (unsigned i = 0; i < 400; i++) {
        snprintf(text, sizeof(text), "10.0.%u.%u", i / 250, i % 250);
        addresses_are(text);
        kept = group_named("n")->peers->primary.peers[1].local;
        if (kept->cell->number == CELL_PRIVATE) {
            break;
        }
        atomic_fetch_add(&kept->cell->use[0].active, 1);
    }
    assert_int_equal(kept->cell->number, CELL_PRIVATE);
    assert_int_equal(times_logged("no room in shared memory for another address of upstream \"n\""),
                     1);
    addresses_are("");
    finish();
}

static void what_is_known_is_no_spare_cell(void **state)
{
    char text[32];
    const struct peer_cell *last = NULL;

    start("upstream n { server a.invalid:8000; } upstream m { server b.invalid:8000; }");
    struct generation *same = generation;
    addresses_of("n", "10.9.9.9");
    /* A worker that begins clears its lines before it claims what is known. */
    atomic_store(&cell("n", 0)->use[0].held, 0);
    for (unsigned i = 0; i < 400 && (last == NULL || last->number != CELL_PRIVATE); i++) {
        snprintf(text, sizeof(text), "10.0.%u.%u", i / 250, i % 250);
        addresses_of("m", text);
        atomic_store(&cell("m", 0)->use[0].active, 1);
        last = cell("m", 0);
    }
    assert_int_equal(last->number, CELL_PRIVATE);
    worker_ends();
    worker_begins(same);
    peers_are("10.9.9.9:8000");
    finish();
}

#define DYNAMIC "upstream n { dynamic_resolve; server localhost:8000; }"

static void addresses_of_the_start_have_cells_of_their_own(void **state)
{
    start(DYNAMIC);
    const struct upstream_server *server =
        *vec_at(&group_named("n")->servers, struct upstream_server *, 0);
    assert_true(server->resolves);
    assert_true(server->addresses.count != 0); /* 127.0.0.1, [::1], or both */
    unsigned count = group_named("n")->peers->count;
    assert_int_equal(count, server->addresses.count);
    struct peer_cell *first = cell_of_server(group_named("n"), server, 0);
    assert_ptr_equal(cell("n", 0), first);
    atomic_store(&first->connections_max, 4);

    /* They keep them when the name is resolved, and the one that comes has a spare one. */
    char text[64];
    struct addr addr = server->addresses.items[0];
    size_t length = addr_format(&addr, false, text);
    snprintf(text + length, sizeof(text) - length, " 10.0.0.1");
    addresses_are(text);
    assert_int_equal(group_named("n")->peers->count, 2);
    assert_ptr_equal(cell("n", 0), first);
    assert_true(cell("n", 1)->number >= count);

    /* What is known outlives a reload, and what the configuration's reading found is not added. */
    reload(DYNAMIC);
    assert_int_equal(group_named("n")->peers->count, 2);
    assert_int_equal(atomic_load(&cell("n", 0)->connections_max), 4);
    assert_text(group_named("n")->peers->primary.peers[1].name, "10.0.0.1:8000");
    addresses_are("10.0.0.1");
    reload(DYNAMIC);
    peers_are("10.0.0.1:8000");

    /* Without the directive those that were found serve. */
    reload("upstream n { server localhost:8000; }");
    assert_int_equal(group_named("n")->peers->count, count);
    finish();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(health_is_taken_over),
        cmocka_unit_test(a_check_that_is_gone_says_nothing),
        cmocka_unit_test(a_reading_that_fails_changes_nothing),
        cmocka_unit_test(a_dead_worker_is_cleared),
        cmocka_unit_test(addresses_come_and_go),
        cmocka_unit_test(addresses_are_remembered),
        cmocka_unit_test(spare_cells_run_out),
        cmocka_unit_test(what_is_known_is_no_spare_cell),
        cmocka_unit_test(addresses_of_the_start_have_cells_of_their_own),
    };

    return upstream_tests_run("cells", tests);
}
