/* Tests of the timer heap. */
#include "base/unit.h"

#include "base/heap.h"

enum { MANY = 2000 };

/* The same numbers in every run. */
static uint32_t next_number(uint32_t *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 8;
}

static void check_indices(const struct heap *heap)
{
    for (uint32_t i = 0; i < heap->count; i++) {
        assert_int_equal(heap->entries[i].node->index, i);
        if (i > 0) {
            assert_true(heap->entries[(i - 1) / 4].key <= heap->entries[i].key);
        }
    }
}

static void nodes_leave_in_order(void **state)
{
    static struct heap_node nodes[MANY];
    struct heap heap = {0};
    uint32_t seed = 1;
    uint64_t last = 0;

    assert_int_equal(heap.count, 0);
    for (size_t i = 0; i < MANY; i++) {
        nodes[i].index = HEAP_OUT;
        nodes[i].key = next_number(&seed) % 500;
        heap_insert(&heap, &nodes[i]);
    }
    check_indices(&heap);
    for (size_t i = 0; i < MANY; i++) {
        struct heap_node *node = heap.entries[0].node;
        assert_true(node->key >= last);
        last = node->key;
        heap_remove(&heap, node);
        assert_int_equal(node->index, HEAP_OUT);
    }
    assert_int_equal(heap.count, 0);
    heap_free(&heap);
}

static void any_node_may_leave(void **state)
{
    static struct heap_node nodes[MANY];
    struct heap heap = {0};
    uint32_t seed = 7;

    for (size_t i = 0; i < MANY; i++) {
        nodes[i].index = HEAP_OUT;
        nodes[i].key = next_number(&seed);
        heap_insert(&heap, &nodes[i]);
    }
    for (size_t i = 0; i < MANY; i += 2) {
        heap_remove(&heap, &nodes[(i * 7) % MANY / 2 * 2]);
    }
    check_indices(&heap);
    for (size_t i = 1; i < MANY; i += 2) {
        assert_int_not_equal(nodes[i].index, HEAP_OUT);
    }
    heap_remove(&heap, &nodes[1]);
    heap_remove(&heap, &nodes[1]); /* in no heap any more: nothing happens */
    heap_free(&heap);
    assert_int_equal(nodes[3].index, HEAP_OUT);
}

static void first_that_moves_later_sinks(void **state)
{
    struct heap_node nodes[6];
    struct heap heap = {0};

    for (size_t i = 0; i < COUNT(nodes); i++) {
        nodes[i].index = HEAP_OUT;
        nodes[i].key = i * 10;
        heap_insert(&heap, &nodes[i]);
    }
    nodes[0].key = 35;
    heap_first_moved(&heap);
    check_indices(&heap);
    uint64_t expected[] = {10, 20, 30, 35, 40, 50};
    for (size_t i = 0; i < COUNT(expected); i++) {
        assert_int_equal(heap.entries[0].node->key, expected[i]);
        heap_remove(&heap, heap.entries[0].node);
    }
    heap_free(&heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_leave_in_order),
        cmocka_unit_test(any_node_may_leave),
        cmocka_unit_test(first_that_moves_later_sinks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
