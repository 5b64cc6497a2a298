/* Tests of the allocator in shared memory. */
#include "base/unit.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/shm.h"

enum { ZONE_SIZE = 1 << 20, PAGE_SIZE = 4096 };

static void *memory;
static struct slab *slab;
static size_t empty_size; /* bytes available before anything was taken */

static int set_up(void **state)
{
    memory = shm_map(ZONE_SIZE);
    slab = slab_init(memory, ZONE_SIZE);
    empty_size = slab_available(slab);
    return 0;
}

static int tear_down(void **state)
{
    shm_unmap(memory, ZONE_SIZE);
    return 0;
}

static void small_zones_are_refused(void **state)
{
    void *small = shm_map(8 * PAGE_SIZE);

    assert_null(slab_init(small, 0));
    assert_null(slab_init(small, 8 * PAGE_SIZE - 1));
    struct slab *least = slab_init(small, 8 * PAGE_SIZE);
    assert_non_null(least);
    assert_true(slab_available(least) >= 6 * PAGE_SIZE);
    shm_unmap(small, 8 * PAGE_SIZE);
}

static void pieces_are_cleared_aligned_and_inside(void **state)
{
    char *pieces[300];

    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < COUNT(pieces); i++) {
            size_t size = i * 13 % 5000;
            pieces[i] = slab_alloc(slab, size);
            assert_non_null(pieces[i]);
            assert_int_equal((uintptr_t) pieces[i] & 15, 0);
            assert_true(pieces[i] >= (char *) memory);
            assert_true(pieces[i] + size <= (char *) memory + ZONE_SIZE);
            for (size_t at = 0; at < size; at++) {
                assert_int_equal(pieces[i][at], 0);
            }
            memset(pieces[i], (int) (i & 0x3f) + 1, size);
        }
        for (size_t i = 0; i < COUNT(pieces); i++) {
            size_t size = i * 13 % 5000;
            for (size_t at = 0; at < size; at++) {
                assert_int_equal(pieces[i][at], (int) (i & 0x3f) + 1);
            }
            slab_free(slab, pieces[i]);
        }
        assert_int_equal(slab_available(slab), empty_size);
    }
}

/* Takes pieces of one size until there is no more; gives how many. All are freed in this order. */
static size_t fill(size_t size, bool is_backward)
{
    static void *pieces[ZONE_SIZE / 16];
    size_t count = 0;

    while ((pieces[count] = slab_alloc(slab, size)) != NULL) {
        count++;
    }
    for (size_t i = 0; i < count; i++) {
        slab_free(slab, pieces[is_backward ? count - 1 - i : i]);
    }
    return count;
}

static void zone_can_be_filled_and_emptied_with_any_size(void **state)
{
    static const size_t sizes[] = {0, 1, 16, 17, 64, 100, 2048, 2049, 4096, 4097, 100000};

    for (size_t i = 0; i < COUNT(sizes); i++) {
        for (int is_backward = 0; is_backward < 2; is_backward++) {
            size_t count = fill(sizes[i], is_backward);
            size_t room = sizes[i] < 16 ? 16 : sizes[i] > 2048 ? (sizes[i] + 4095) & ~4095UL : 0;
            if (room == 0) {
                for (room = 16; room < sizes[i]; room *= 2) {
                }
            }
            assert_int_equal(count, room <= 2048 ? empty_size / room
                                                 : empty_size / PAGE_SIZE / (room / PAGE_SIZE));
            assert_int_equal(slab_available(slab), empty_size);
        }
    }
    /* All pages are joined again: the whole can be had in one piece, and not a byte more. */
    void *whole = slab_alloc(slab, empty_size);
    assert_non_null(whole);
    assert_int_equal(slab_available(slab), 0);
    assert_null(slab_alloc(slab, 1));
    slab_free(slab, whole);
    assert_null(slab_alloc(slab, empty_size + 1));
    assert_null(slab_alloc(slab, SIZE_MAX));
}

static void random_use_keeps_pieces_apart(void **state)
{
    static struct {
        unsigned char *piece;
        size_t size;
        unsigned char mark;
    } held[500];
    uint32_t seed = 3;

    memset(held, 0, sizeof(held));
    for (int round = 0; round < 50000; round++) {
        seed = seed * 1664525 + 1013904223;
        size_t i = (seed >> 8) % COUNT(held);
        if (held[i].piece != NULL) {
            size_t size = held[i].size;
            assert_int_equal(held[i].piece[0], held[i].mark);
            assert_int_equal(held[i].piece[size - 1], held[i].mark);
            slab_free(slab, held[i].piece);
            held[i].piece = NULL;
        } else {
            held[i].size = 1 + (seed >> 12) % ((seed >> 30) == 0 ? 9000 : 300);
            held[i].mark = (unsigned char) (round | 1);
            held[i].piece = slab_alloc(slab, held[i].size);
            if (held[i].piece != NULL) {
                memset(held[i].piece, held[i].mark, held[i].size);
            }
        }
    }
    for (size_t i = 0; i < COUNT(held); i++) {
        slab_free(slab, held[i].piece);
    }
    assert_int_equal(slab_available(slab), empty_size);
}

/* Counts what would be logged. */
static int alerts;

static void count_alert(struct log_sink *sink, enum log_level level, struct str line)
{
    alerts++;
}

static void wrong_frees_are_told_and_change_nothing(void **state)
{
    struct log_sink sink = {.level = LOG_ALERT, .write = count_alert};
    struct log log = {.sinks = &sink, .level = LOG_ALERT};
    struct log *former = log_main;

    log_main = &log;
    log_is_starting = false;
    alerts = 0;
    char *small = slab_alloc(slab, 64);
    char *run = slab_alloc(slab, 3 * PAGE_SIZE);
    size_t before = slab_available(slab);
    slab_free(slab, NULL);
    assert_int_equal(alerts, 0);
    slab_free(slab, small + 16);
    slab_free(slab, small + 64);
    slab_free(slab, run + 16);
    slab_free(slab, run + PAGE_SIZE);
    slab_free(slab, run + 2 * PAGE_SIZE);
    slab_free(slab, memory);
    slab_free(slab, &alerts);
    assert_int_equal(alerts, 7);
    assert_int_equal(slab_available(slab), before);
    slab_free(slab, run);
    slab_free(slab, run);
    slab_free(slab, small);
    slab_free(slab, small);
    assert_int_equal(alerts, 9);
    assert_int_equal(slab_available(slab), empty_size);
    log_main = former;
    log_is_starting = true;
}

/* A child allocates and frees until it is killed, wherever it is. */
static void kill_a_user(unsigned least_turns)
{
    _Atomic unsigned *turns = slab_alloc(slab, sizeof(*turns));
    pid_t child = fork();

    if (child == 0) {
        for (size_t i = 0;; i++) {
            void *a = slab_alloc(slab, i % 200);
            void *b = slab_alloc(slab, 2049 + i % 9000);
            slab_free(slab, a);
            slab_free(slab, b);
            atomic_fetch_add(turns, 1);
        }
    }
    while (atomic_load(turns) < least_turns) {
    }
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* Whichever function first takes the lock of a process that died: all stays usable. */
static void killed_user_leaves_a_usable_zone(void **state)
{
    struct log_sink sink = {.level = LOG_ALERT, .write = count_alert};
    struct log log = {.sinks = &sink, .level = LOG_ALERT};
    struct log *former = log_main;
    int repaired_by_reset = 0;

    log_main = &log;
    log_is_starting = false;
    for (int round = 0; round < 60; round++) {
        kill_a_user(20U + (unsigned) round);
        if (round % 2 != 0) {
            int before = alerts;
            slab_stats_reset(slab);
            repaired_by_reset += alerts - before;
        }
        /* What the child held is lost, but no more than that: two pieces, and its count of turns.
         */
        assert_true(slab_available(slab) + (size_t) (round + 1) * 5 * PAGE_SIZE >= empty_size);
        void *piece = slab_alloc(slab, 100);
        assert_non_null(piece);
        slab_free(slab, piece);
    }
    assert_true(repaired_by_reset != 0);
    log_main = former;
    log_is_starting = true;
}

#define test(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_zones_are_refused),
        test(pieces_are_cleared_aligned_and_inside),
        test(zone_can_be_filled_and_emptied_with_any_size),
        test(random_use_keeps_pieces_apart),
        test(wrong_frees_are_told_and_change_nothing),
        test(killed_user_leaves_a_usable_zone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
