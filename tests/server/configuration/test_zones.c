/* Zones of shared memory: one name, one use, and the same memory after a reload. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

#include "base/shm.h"
#include "server/configuration/generation_life.h"

enum { SIZE = 64 << 10 };

static const char one_use, other_use;
static struct generation first, second;

static void begin(struct generation *generation)
{
    memset(generation, 0, sizeof(*generation));
    arena_init(&generation->arena);
    generation->conf.arena = &generation->arena;
}

static void end(struct generation *generation)
{
    generation_free_zones(generation);
    arena_free(&generation->arena);
}

static struct zone *zone(struct generation *generation, const char *name, size_t size,
                         const void *user)
{
    return generation_zone(generation, NULL, str_of(name), size, user);
}

static void a_name_may_be_used_before_it_is_declared(void **state)
{
    begin(&first);
    struct zone *z = zone(&first, "z", 0, &one_use);

    assert_null(z->memory);
    assert_false(generation_check_zones(&first));
    assert_ptr_equal(zone(&first, "z", SIZE, &one_use), z);
    assert_non_null(z->memory);
    assert_true(generation_check_zones(&first));
    end(&first);
}

static void one_name_has_one_use_and_one_size(void **state)
{
    begin(&first);
    assert_non_null(zone(&first, "z", SIZE, &one_use));
    assert_null(zone(&first, "z", SIZE, &other_use));
    assert_null(zone(&first, "z", SIZE * 2, &one_use));
    assert_null(zone(&first, "small", 100, &one_use));
    assert_int_equal(first.conf.error_count, 3);
    end(&first);
}

static void memory_and_root_live_over_a_reload(void **state)
{
    begin(&first);
    struct zone *z = zone(&first, "z", SIZE, &one_use);

    z->root = slab_alloc(z->slab, 100);
    strcpy(z->root, "kept");
    zone(&first, "resized", SIZE, &one_use);
    zone(&first, "reused", SIZE, &one_use);

    begin(&second);
    generation_inherit_zones(&first);
    struct zone *again = zone(&second, "z", SIZE, &one_use);
    struct zone *resized = zone(&second, "resized", SIZE * 2, &one_use);
    struct zone *reused = zone(&second, "reused", SIZE, &other_use);
    generation_inherit_zones(NULL);
    assert_ptr_equal(again->memory, z->memory);
    assert_null(resized->root);
    assert_null(reused->root);
    end(&first);
    assert_string_equal(again->root, "kept");
    end(&second);
}

static void a_reading_that_fails_leaves_the_memory_alone(void **state)
{
    begin(&first);
    struct zone *z = zone(&first, "z", SIZE, &one_use);

    z->root = slab_alloc(z->slab, 10);
    begin(&second);
    generation_inherit_zones(&first);
    zone(&second, "z", SIZE, &one_use);
    generation_inherit_zones(NULL);
    end(&second);
    memset(z->root, 1, 10);
    end(&first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_may_be_used_before_it_is_declared),
        cmocka_unit_test(one_name_has_one_use_and_one_size),
        cmocka_unit_test(memory_and_root_live_over_a_reload),
        cmocka_unit_test(a_reading_that_fails_leaves_the_memory_alone),
    };
    struct log quiet = {.level = LOG_STDERR};

    log_main = &quiet;
    log_is_starting = false;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
