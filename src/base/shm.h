/* Shared memory: zones that live over reloads, their slab allocator, robust locks. Implemented in
 * shm.c and slab.c. */
#ifndef BASE_SHM_H
#define BASE_SHM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/*
 * A lock in shared memory. When its owner dies, the next process that takes it is informed. Never
 * held across a wait of a fiber.
 */
struct shm_lock {
    _Alignas(16) char opaque[64]; /* a process-shared robust mutex */
};

void shm_lock_init(struct shm_lock *lock);
/* True: the previous owner died while it held the lock; the data must be checked or reset. */
bool shm_lock_take(struct shm_lock *lock);
void shm_lock_release(struct shm_lock *lock);

/* Zeroed memory that is shared with children; NULL with errno. */
void *shm_map(size_t size);
void shm_unmap(void *memory, size_t size);

/* An allocator in such memory: powers of two up to half a page, then whole pages; O(1), with its
   own lock. */
struct slab;
struct slab *slab_init(void *memory, size_t size); /* NULL when size is under 8 pages */
void *slab_alloc(struct slab *slab, size_t size);  /* NULL when it is full; the memory is cleared */
void slab_free(struct slab *slab, void *piece);
size_t slab_available(struct slab *slab); /* bytes in free pages */
/* Frees all pieces that are not in use, such as those that a process has lost when it died. Calls
 * is_used for each piece. */
void slab_keep(struct slab *slab, bool (*is_used)(void *arg, const void *piece), void *arg);

/* Statistics. Read without the lock: the numbers need not match each other exactly. */
#define SLAB_CLASSES 8
struct slab_stats {
    size_t page_size;
    size_t pages, free_pages;
    size_t start, end; /* of the pages, as offsets in the memory */
    struct slab_class {
        size_t size;               /* of a chunk, in bytes */
        uint64_t total, used;      /* chunks in the pages of this class */
        uint64_t requests, failed; /* allocations so far */
    } classes[SLAB_CLASSES];
};
void slab_stats_of(const struct slab *slab, struct slab_stats *out);
/* Resets the counts of requests to 0. */
void slab_stats_reset(struct slab *slab);

/* A named zone: memory, allocator, and the root object of its user. */
struct zone {
    struct zone *next;
    struct str name;  /* owned by the zone */
    size_t size;      /* bytes */
    const void *user; /* tag of the module that declared it */
    void *memory;     /* mapped */
    struct slab *slab;
    void *root; /* the user's root object; survives a reload */
};

#endif
