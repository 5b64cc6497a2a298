/* Tests of arenas: alignment, growth, large pieces, cleanups, formatted text, vectors. */
#include "base/unit.h"

#include <string.h>

#include "base/arena.h"

static void empty_arena_takes_no_memory(void **state)
{
    struct arena arena;
    arena_init(&arena);
    assert_int_equal(arena.used, 0);
    assert_null(arena.blocks);
    assert_non_null(arena_alloc(&arena, 0));
    assert_text(arena_dup(&arena, STR_NONE), "");
    arena_free(&arena);
    arena_free(&arena);
}

static void pieces_are_aligned_and_apart(void **state)
{
    struct arena arena;
    char *pieces[600];

    arena_init(&arena);
    for (size_t i = 0; i < COUNT(pieces); i++) {
        /* Text in between must not spoil the alignment. */
        memset(arena_text(&arena, i % 7), 't', i % 7);
        pieces[i] = arena_alloc(&arena, i + 1);
        assert_int_equal((uintptr_t) pieces[i] & 15, 0);
        memset(pieces[i], (int) (i & 0x7f), i + 1);
    }
    for (size_t i = 0; i < COUNT(pieces); i++) {
        for (size_t at = 0; at <= i; at++) {
            assert_int_equal(pieces[i][at], (int) (i & 0x7f));
        }
    }
    arena_free(&arena);
    assert_int_equal(arena.used, 0);
}

static void large_piece_leaves_the_current_block_in_use(void **state)
{
    struct arena arena;
    arena_init(&arena);
    char *first = arena_alloc(&arena, 16);
    char *next = arena.next;
    char *large = arena_alloc(&arena, 100000);
    memset(large, 1, 100000);
    assert_ptr_equal(arena.next, next);
    assert_true(arena.used >= 100000 + ARENA_BLOCK_SIZE);
    char *second = arena_alloc(&arena, 16);
    assert_true(second > first && second < first + ARENA_BLOCK_SIZE);
    arena_free(&arena);
}

static void large_piece_may_come_first(void **state)
{
    struct arena arena;
    arena_init(&arena);
    memset(arena_alloc(&arena, ARENA_BLOCK_SIZE), 1, ARENA_BLOCK_SIZE);
    memset(arena_text(&arena, ARENA_BLOCK_SIZE - 16), 1, ARENA_BLOCK_SIZE - 16);
    memset(arena_alloc(&arena, 10), 1, 10);
    arena_free(&arena);
}

static void sizes_around_a_block_are_whole(void **state)
{
    for (size_t size = ARENA_BLOCK_SIZE - 80; size < ARENA_BLOCK_SIZE + 80; size++) {
        struct arena arena;
        arena_init(&arena);
        memset(arena_alloc(&arena, size), 1, size);
        memset(arena_text(&arena, size), 2, size);
        arena_free(&arena);
    }
}

static void freed_blocks_are_used_again_newest_first(void **state)
{
    struct arena arena;
    arena_init(&arena);
    void *first = arena_alloc(&arena, 100);
    arena_free(&arena);
    assert_ptr_equal(arena_alloc(&arena, 100), first);
    arena_free(&arena);
    arena_trim(); /* learns the low-water mark */
    arena_trim(); /* gives it back */
    memset(arena_alloc(&arena, 100), 1, 100);
    arena_free(&arena);
}

static void zeroed_memory_is_zero_after_reuse(void **state)
{
    struct arena arena;
    arena_init(&arena);
    for (int round = 0; round < 2; round++) {
        char *piece = arena_zalloc(&arena, 3000);
        for (size_t i = 0; i < 3000; i++) {
            assert_int_equal(piece[i], 0);
        }
        memset(piece, 0xff, 3000);
        arena_free(&arena);
    }
    uint64_t *numbers = arena_array(&arena, 10, sizeof(*numbers));
    assert_int_equal(numbers[9], 0);
    arena_free(&arena);
}

static void copies_keep_embedded_nul(void **state)
{
    struct arena arena;
    arena_init(&arena);
    assert_text(arena_dup(&arena, STR("a\0b")), "a\0b");
    char *text = arena_cstr(&arena, STR("a\0b"));
    assert_memory_equal(text, "a\0b", 4);
    assert_string_equal(arena_cstr(&arena, STR_NONE), "");
    assert_text(arena_concat(&arena, STR("a\0"), STR("b")), "a\0b");
    struct str parts[] = {STR("x"), STR_NONE, STR("yz")};
    assert_text(arena_join(&arena, parts, 3), "xyz");
    assert_text(arena_join(&arena, NULL, 0), "");
    arena_free(&arena);
}

static void printf_text_of_any_length_ends_with_nul(void **state)
{
    struct arena arena;
    arena_init(&arena);
    for (int width = 250; width <= 260; width++) {
        struct str text = arena_printf(&arena, "%*d", width, 7);
        assert_int_equal(text.len, width);
        assert_int_equal(text.data[width - 1], '7');
        assert_int_equal(text.data[width], '\0');
    }
    assert_text(arena_printf(&arena, "%s", ""), "");
    arena_free(&arena);
}

/* Registers order[0] as the place to write and counts up. */
static char order[8];
static size_t order_count;

static void note(void *arg)
{
    order[order_count++] = *(const char *) arg;
}

static struct arena *late_arena;

static void note_and_register(void *arg)
{
    note(arg);
    arena_on_free(late_arena, note, "z");
}

static void cleanups_run_newest_first_and_may_add_more(void **state)
{
    struct arena arena;
    arena_init(&arena);
    late_arena = &arena;
    order_count = 0;
    arena_on_free(&arena, note, "a");
    arena_on_free(&arena, note_and_register, "b");
    arena_on_free(&arena, note, "c");
    arena_free(&arena);
    assert_str(((struct str){order, order_count}), STR("cbza"));
    arena_free(&arena);
    assert_int_equal(order_count, 4);
}

struct pair {
    int first;
    int second;
};

static void vectors_grow_and_clear_what_they_add(void **state)
{
    struct arena arena;
    struct vec vec = {0};
    int sum = 0;

    arena_init(&arena);
    vec_each(struct pair, none, &vec) {
        sum += none->first + 1;
    }
    assert_int_equal(sum, 0);
    for (int i = 0; i < 1000; i++) {
        struct pair *pair = vec_add(&vec, &arena, struct pair);
        assert_int_equal(pair->first | pair->second, 0);
        pair->first = i;
    }
    struct vec copy = vec_copy(&vec, &arena, sizeof(struct pair));
    struct pair *added = vec_add(&copy, &arena, struct pair);
    added->first = -1;
    vec_at(&copy, struct pair, 0)->first = 77;
    assert_int_equal(vec.count, 1000);
    assert_int_equal(copy.count, 1001);
    vec_each(struct pair, pair, &vec) {
        sum += pair->first;
    }
    assert_int_equal(sum, 999 * 1000 / 2);
    struct vec nothing = {0};
    assert_int_equal(vec_copy(&nothing, &arena, 8).count, 0);
    arena_free(&arena);
}

#ifdef POISON_IS_ON
static void freed_and_unused_bytes_are_poisoned(void **state)
{
    struct arena arena;
    arena_init(&arena);
    char *piece = arena_alloc(&arena, 5);
    assert_false(__asan_address_is_poisoned(piece + 4));
    assert_true(__asan_address_is_poisoned(piece + 5));
    char *text = arena_text(&arena, 3);
    assert_false(__asan_address_is_poisoned(text + 2));
    assert_true(__asan_address_is_poisoned(text + 3));
    char *large = arena_alloc(&arena, 5001);
    assert_true(__asan_address_is_poisoned(large + 5001));
    arena_free(&arena);
    assert_true(__asan_address_is_poisoned(piece));
    assert_true(__asan_address_is_poisoned(text));
}
#endif

static unsigned told; /* calls of note_over */

static void note_over(struct arena_account *account)
{
    assert_true(account->used > account->limit);
    told++;
}

static void an_account_is_told_of_what_goes_beyond_it(void **state)
{
    struct arena_account account = {.limit = 3 * ARENA_BLOCK_SIZE, .over = note_over};
    struct arena first;
    struct arena second;

    arena_init(&first);
    arena_init(&second);
    first.account = second.account = &account;
    arena_alloc(&first, 1000);
    arena_alloc(&first, 3500);
    arena_alloc(&second, 1000);
    assert_int_equal(account.used, 3 * ARENA_BLOCK_SIZE);
    assert_int_equal(told, 0);
    arena_allow(&first, 100000);
    arena_alloc(&first, 50000);
    assert_int_equal(told, 0);
    assert_non_null(arena_alloc(&second, 50000));
    assert_int_equal(told, 1);
    arena_free(&first);
    arena_free(&second);
    assert_int_equal(account.used, 0);
}

static void a_small_arena_begins_small(void **state)
{
    struct arena arena;

    arena_init_small(&arena);
    char *first = arena_alloc(&arena, 100);
    memset(first, 1, 100);
    assert_int_equal(arena.used, ARENA_SMALL_BLOCK);
    char *text = arena_text(&arena, 300);
    memset(text, 2, 300);
    assert_int_equal(arena.used, ARENA_SMALL_BLOCK);
    memset(arena_alloc(&arena, 200), 3, 200);
    assert_int_equal(arena.used, ARENA_SMALL_BLOCK + ARENA_BLOCK_SIZE);
    assert_int_equal(first[99], 1);
    assert_int_equal(text[299], 2);
    arena_free(&arena);

    arena_init_small(&arena);
    memset(arena_alloc(&arena, 1000), 4, 1000); /* does not fit: a common block at once */
    assert_int_equal(arena.used, ARENA_BLOCK_SIZE);
    arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_arena_takes_no_memory),
        cmocka_unit_test(pieces_are_aligned_and_apart),
        cmocka_unit_test(large_piece_leaves_the_current_block_in_use),
        cmocka_unit_test(large_piece_may_come_first),
        cmocka_unit_test(sizes_around_a_block_are_whole),
        cmocka_unit_test(freed_blocks_are_used_again_newest_first),
        cmocka_unit_test(zeroed_memory_is_zero_after_reuse),
        cmocka_unit_test(copies_keep_embedded_nul),
        cmocka_unit_test(printf_text_of_any_length_ends_with_nul),
        cmocka_unit_test(cleanups_run_newest_first_and_may_add_more),
        cmocka_unit_test(an_account_is_told_of_what_goes_beyond_it),
        cmocka_unit_test(vectors_grow_and_clear_what_they_add),
        cmocka_unit_test(a_small_arena_begins_small),
#ifdef POISON_IS_ON
        cmocka_unit_test(freed_and_unused_bytes_are_poisoned),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
