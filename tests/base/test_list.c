/* Tests of intrusive lists. */
#include "base/unit.h"

#include "base/list.h"

struct item {
    int number;
    struct list node;
};

static void order_is_kept_and_ends_pop(void **state)
{
    struct list head;
    struct item items[3] = {{.number = 1}, {.number = 2}, {.number = 3}};
    int seen = 0;

    list_init(&head);
    assert_true(list_is_empty(&head));
    assert_null(list_pop_front(&head));
    list_push_back(&head, &items[1].node);
    list_push_back(&head, &items[2].node);
    list_push_front(&head, &items[0].node);
    list_each(node, &head) {
        seen = seen * 10 + container_of(node, struct item, node)->number;
    }
    assert_int_equal(seen, 123);
    assert_ptr_equal(list_pop_front(&head), &items[0].node);
    assert_ptr_equal(head.prev, &items[2].node);
}

static void item_may_be_removed_while_walking_and_twice(void **state)
{
    struct list head;
    struct item items[4] = {{.number = 1}, {.number = 2}, {.number = 3}, {.number = 4}};
    int left = 0;

    list_init(&head);
    for (size_t i = 0; i < COUNT(items); i++) {
        list_push_back(&head, &items[i].node);
    }
    list_each(node, &head) {
        if (container_of(node, struct item, node)->number % 2 == 0) {
            list_remove(node);
            list_remove(node);
        }
    }
    list_each(node, &head) {
        left = left * 10 + container_of(node, struct item, node)->number;
    }
    assert_int_equal(left, 13);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_is_kept_and_ends_pop),
        cmocka_unit_test(item_may_be_removed_while_walking_and_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
