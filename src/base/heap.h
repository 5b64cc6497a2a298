/* The timer heap: a 4-ary min-heap of deadlines, intrusive. */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include <stddef.h>
#include <stdint.h>

#define HEAP_OUT UINT32_MAX /* index of a node that is in no heap */

/* Embedded in what has a deadline. */
struct heap_node {
    uint64_t key;   /* the heap's idea of the deadline, ms; the owner's true one may be later */
    uint32_t index; /* place in the heap, or HEAP_OUT */
};

/* A node with its key beside the pointer, so that sifting touches no node. */
struct heap_entry {
    uint64_t key;
    struct heap_node *node; /* not owned */
};

/* Zero-initialised is empty. */
struct heap {
    struct heap_entry *entries; /* that with the least key first; malloc'ed; owned */
    uint32_t count;             /* nodes */
    uint32_t capacity;          /* room, in nodes */
};

/* Adds node, which is in no heap, with node->key set by the caller. */
void heap_insert(struct heap *heap, struct heap_node *node);
/* Does nothing when it is in no heap. */
void heap_remove(struct heap *heap, struct heap_node *node);

/* The first node's key was raised in node->key: puts it where it belongs. */
void heap_first_moved(struct heap *heap);
void heap_free(struct heap *heap);

#endif
