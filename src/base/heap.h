/* The timer heap: a 4-ary min-heap of deadlines, intrusive. */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include <stddef.h>
#include <stdint.h>

#define HEAP_OUT UINT32_MAX /* index of a node that is in no heap */

/* Embedded in an object that has a deadline. */
struct heap_node {
    uint64_t key;   /* the key in the heap, not later than the owner's actual deadline */
    uint32_t index; /* index in the heap, or HEAP_OUT */
};

/* A node with its key beside the pointer, so that sifting does not read nodes. */
struct heap_entry {
    uint64_t key;
    struct heap_node *node; /* not owned */
};

/* Zero-initialised is empty. */
struct heap {
    struct heap_entry *entries; /* the one with the lowest key first; malloc'ed; owned */
    uint32_t count;             /* nodes */
    uint32_t capacity;          /* nodes that fit */
};

/* Adds a node, which must be in no heap, with node->key set by the caller. */
void heap_insert(struct heap *heap, struct heap_node *node);
/* Removes a node; does nothing when it is in no heap. */
void heap_remove(struct heap *heap, struct heap_node *node);

/* The key of the first node was raised in node->key: moves it to its new position. */
void heap_first_moved(struct heap *heap);
void heap_free(struct heap *heap);

#endif
