/* The timer heap: a 4-ary min-heap with the keys beside the pointers, so that sifting reads few
 * cache lines. */
#include <assert.h>
#include <stdlib.h>

#include "base/fatal.h"
#include "base/heap.h"

enum { ARITY = 4, FIRST_CAPACITY = 64 };

static inline void heap_put(struct heap *heap, uint32_t index, struct heap_entry entry)
{
    heap->entries[index] = entry;
    entry.node->index = index;
}

/* Moves the gap at index up until entry fits, and puts it there. */
static void sift_up(struct heap *heap, uint32_t index, struct heap_entry entry)
{
    while (index > 0) {
        uint32_t parent = (index - 1) / ARITY;
        if (heap->entries[parent].key <= entry.key) {
            break;
        }
        heap_put(heap, index, heap->entries[parent]);
        index = parent;
    }
    heap_put(heap, index, entry);
}

/* Moves the gap at index down until entry fits, and puts it there. */
static void sift_down(struct heap *heap, uint32_t index, struct heap_entry entry)
{
    for (;;) {
        uint64_t first = (uint64_t) index * ARITY + 1;
        if (first >= heap->count) {
            break;
        }
        uint32_t least = (uint32_t) first;
        uint32_t end = heap->count - least < ARITY ? heap->count : least + ARITY;
        for (uint32_t child = least + 1; child < end; child++) {
            if (heap->entries[child].key < heap->entries[least].key) {
                least = child;
            }
        }
        if (heap->entries[least].key >= entry.key) {
            break;
        }
        heap_put(heap, index, heap->entries[least]);
        index = least;
    }
    heap_put(heap, index, entry);
}

void heap_insert(struct heap *heap, struct heap_node *node)
{
    assert(node->index == HEAP_OUT);
    if (heap->count == heap->capacity) {
        size_t capacity = heap->capacity == 0 ? FIRST_CAPACITY : (size_t) heap->capacity * 2;
        struct heap_entry *entries = NULL;
        if (capacity < HEAP_OUT) {
            entries = reallocarray(heap->entries, capacity, sizeof(*entries));
        }
        if (entries == NULL) {
            fatal_no_memory(capacity * sizeof(*entries));
        }
        heap->entries = entries;
        heap->capacity = (uint32_t) capacity;
    }
    sift_up(heap, heap->count++, (struct heap_entry){node->key, node});
}

void heap_remove(struct heap *heap, struct heap_node *node)
{
    uint32_t index = node->index;

    if (index == HEAP_OUT) {
        return;
    }
    assert(index < heap->count && heap->entries[index].node == node);
    node->index = HEAP_OUT;
    struct heap_entry last = heap->entries[--heap->count];
    if (last.node == node) {
        return;
    }
    if (index > 0 && heap->entries[(index - 1) / ARITY].key > last.key) {
        sift_up(heap, index, last);
    } else {
        sift_down(heap, index, last);
    }
}

void heap_first_moved(struct heap *heap)
{
    assert(heap->count != 0);
    struct heap_node *node = heap->entries[0].node;
    sift_down(heap, 0, (struct heap_entry){node->key, node});
}

void heap_free(struct heap *heap)
{
    for (uint32_t i = 0; i < heap->count; i++) {
        heap->entries[i].node->index = HEAP_OUT;
    }
    free(heap->entries);
    *heap = (struct heap){0};
}
