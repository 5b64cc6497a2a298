/* Tests of ticket keys that several nodes have in common: which one encrypts when, and which
 * decrypt. */
#include "base/unit.h"

#include "base/log.h"
#include "base/shm.h"
#include "net/tls/private.h"
#include "net/tls/ring.h"

enum { ZONE_SIZE = 8 * 4096, PERIOD = 600, START = 1000 * PERIOD };

static struct zone zone;
static struct ticket_ring *ring;

static int set_up(void **state)
{
    zone = (struct zone){.size = ZONE_SIZE, .memory = shm_map(ZONE_SIZE)};
    zone.slab = slab_init(zone.memory, ZONE_SIZE);
    ring = tls_ring_of(&zone, 0);
    return ring == NULL;
}

static int tear_down(void **state)
{
    shm_unmap(zone.memory, ZONE_SIZE);
    return 0;
}

static uint64_t wanted(uint64_t now_s)
{
    uint64_t number;

    return tls_ring_wants(ring, now_s, &number) ? number : 0;
}

/* Without a context nobody uses the keys, and none is made. */
static void without_a_period(void **state)
{
    assert_int_equal(wanted(START), 0);
}

/* The key of a period is made in the second half of the one before; the first one at once. */
static void when_keys_are_made(void **state)
{
    tls_ring_of(&zone, PERIOD);
    assert_int_equal(wanted(START), 1000);
    assert_true(tls_ring_make(ring, 1000));
    assert_int_equal(wanted(START + PERIOD / 2 - 1), 0);
    assert_int_equal(wanted(START + PERIOD / 2), 1001);
    assert_true(tls_ring_make(ring, 1001));
    assert_int_equal(wanted(START + PERIOD - 1), 0);
    assert_int_equal(wanted(START + PERIOD), 0);
    assert_int_equal(wanted(START + 5 * PERIOD), 1005);
}

static void which_keys_are_good(void **state)
{
    struct tls_ticket_key first, second, found;

    tls_ring_of(&zone, PERIOD);
    tls_ring_make(ring, 1000);
    tls_ring_make(ring, 1001);
    assert_int_equal(tls_ring_find(ring, NULL, START, &first), 1);
    assert_int_equal(tls_ring_find(ring, NULL, START + PERIOD, &second), 1);
    assert_memory_not_equal(first.name, second.name, sizeof(first.name));
    /* The next one's is known: a node whose clock is ahead uses it. */
    assert_int_equal(tls_ring_find(ring, second.name, START, &found), 1);
    assert_int_equal(tls_ring_find(ring, first.name, START + PERIOD, &found), 2);
    assert_memory_equal(found.aes, first.aes, sizeof(first.aes));
    assert_int_equal(tls_ring_find(ring, first.name, START + 2 * PERIOD, &found), 0);
}

/* A reload with a longer period: keys of its numbers, which are smaller, are taken. */
static void a_longer_period(void **state)
{
    unsigned char bytes[TLS_RING_KEY] = {1}, found[TLS_RING_KEY];

    tls_ring_of(&zone, PERIOD);
    tls_ring_make(ring, 1000);
    tls_ring_of(&zone, 2 * PERIOD);
    tls_ring_put(ring, 500, bytes);
    assert_true(tls_ring_get(ring, 500, found));
    assert_memory_equal(found, bytes, sizeof(bytes));
}

/* A reload with a shorter period: it holds when the reading is in force, which a refused one never
 * is. */
static void a_shorter_period(void **state)
{
    uint64_t now = (uint64_t) time(NULL);
    struct tls_ticket_key first, found;

    tls_ring_begin(&zone); /* 1 */
    tls_ring_of(&zone, 2 * PERIOD);
    tls_ring_use(ring, 1);
    assert_int_equal(tls_ring_find(ring, NULL, now, &first), 1);
    tls_ring_begin(&zone); /* 2: refused */
    tls_ring_of(&zone, PERIOD / 2);
    tls_ring_begin(&zone); /* 3 */
    tls_ring_of(&zone, PERIOD);
    tls_ring_of(&zone, PERIOD - 1);
    tls_ring_use(ring, 1);
    tls_ring_use(ring, 2);
    assert_int_equal(tls_ring_period_s(ring), 2 * PERIOD);
    tls_ring_use(ring, 3);
    assert_int_equal(tls_ring_period_s(ring), PERIOD);
    assert_int_equal(tls_ring_find(ring, first.name, now, &found), 1);
    assert_int_equal(tls_ring_find(ring, first.name, now + PERIOD + 1, &found), 2);
    assert_int_equal(tls_ring_find(ring, first.name, now + 3 * PERIOD, &found), 0);
}

/* Without a key of the period the node uses its own, and decrypts what it encrypted by that later.
 */
static void own_keys_instead(void **state)
{
    struct tls_ticket_key own, shared, found;
    unsigned char bytes[TLS_RING_KEY];

    tls_ring_of(&zone, PERIOD);
    assert_int_equal(tls_ring_find(ring, NULL, START, &own), 1);
    tls_ring_make(ring, 1000);
    assert_int_equal(tls_ring_find(ring, NULL, START, &shared), 1);
    assert_memory_not_equal(own.name, shared.name, sizeof(own.name));
    assert_int_equal(tls_ring_find(ring, own.name, START + 1, &found), 1);
    assert_true(tls_ring_get(ring, 1000, bytes));
    tls_ring_put(ring, 1000, NULL);
    assert_false(tls_ring_get(ring, 1000, bytes));
    assert_int_equal(tls_ring_find(ring, shared.name, START, &found), 0);
    tls_ring_put(ring, 1000, bytes);
    assert_int_equal(tls_ring_find(ring, shared.name, START, &found), 1);
    /* An older one does not take the place of a newer one. */
    tls_ring_put(ring, 996, bytes);
    assert_true(tls_ring_get(ring, 1000, bytes));
    assert_false(tls_ring_get(ring, 996, bytes));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_a_period, set_up, tear_down),
        cmocka_unit_test_setup_teardown(when_keys_are_made, set_up, tear_down),
        cmocka_unit_test_setup_teardown(which_keys_are_good, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_longer_period, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_shorter_period, set_up, tear_down),
        cmocka_unit_test_setup_teardown(own_keys_instead, set_up, tear_down),
    };
    log_main = NULL;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
