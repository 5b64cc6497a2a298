/* Arenas: memory that is allocated piece by piece and freed as a whole. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/poison.h"
#include "base/str.h"

struct arena_block;
struct arena_cleanup;

/*
 * A common limit for several arenas; the owner of the arenas owns the account. `over` is called for
 * each block that exceeds limit + allowed. The block is given nevertheless, so `over` has to make
 * its owner stop allocating. `over` may allocate, too.
 */
struct arena_account {
    size_t used;    /* bytes in blocks */
    size_t limit;   /* 0 = no limit */
    size_t allowed; /* additional bytes: see arena_allow */
    void (*over)(struct arena_account *account);
};

/*
 * An arena. Blocks of the common size come from a per-process free list (last in, first out), so
 * that a request that needs one block costs no malloc. Larger pieces get a block of their own. When
 * the system has no memory, the process ends with an emerg line.
 */
struct arena {
    char *next; /* first free byte of the current block; aligned to 16 */
    char *end;  /* one past the last free byte; text is taken from here, downwards */
    struct arena_block *blocks;    /* all blocks, newest first; owned */
    struct arena_cleanup *cleanup; /* called newest first when the arena is freed */
    size_t used;                   /* bytes in blocks */
    struct arena_account *account; /* where these bytes are counted, or NULL */
    bool is_small; /* see arena_init_small: one of very many arenas that mostly hold little */
};

#define ARENA_BLOCK_SIZE 4096 /* bytes of the common block, its header included */

/* These bytes do not count towards the limit: the operator has configured them (the size of a
 * buffer). */
static inline void arena_allow(struct arena *arena, size_t size)
{
    if (arena->account != NULL) {
        arena->account->allowed += size;
    }
}

/* An arena without a block points here: a valid address without free bytes. */
extern char arena_no_room[16];

/* Makes an empty arena, without an account; takes no memory yet. */
static inline void arena_init(struct arena *arena)
{
    *arena = (struct arena){.next = arena_no_room, .end = arena_no_room};
}

/* The same; its first block has ARENA_SMALL_BLOCK bytes, if the first piece fits. */
#define ARENA_SMALL_BLOCK 512
static inline void arena_init_small(struct arena *arena)
{
    arena_init(arena);
    arena->is_small = true;
}

/* Runs the cleanups, newest first, and frees all memory. The arena is empty and usable again. */
void arena_free(struct arena *arena);

/* The slow path of arena_alloc: a new block. */
void *arena_grow(struct arena *arena, size_t size);

/* size bytes, aligned to 16, not cleared. Never fails (see above). */
static inline void *arena_alloc(struct arena *arena, size_t size)
{
    size_t rounded = (size + 15 + POISON_REDZONE) & ~(size_t) 15;

    if (rounded < size || rounded > (size_t) (arena->end - arena->next)) {
        return arena_grow(arena, size);
    }
    char *piece = arena->next;
    arena->next += rounded;
    memory_unpoison(piece, size);
    return piece;
}

/* The same without alignment, for text: taken from the end of the block, so that no byte is
 * wasted. */
char *arena_text(struct arena *arena, size_t size);

static inline void *arena_zalloc(struct arena *arena, size_t size)
{
    return memset(arena_alloc(arena, size), 0, size);
}

/* Memory for count items of this size; an overflow of the product ends the process. Cleared. */
void *arena_array(struct arena *arena, size_t count, size_t size);

#define arena_new(arena, type) ((type *) arena_zalloc(arena, sizeof(type)))

/* Copies. The second form adds a NUL that is not counted in the length, for system calls. */
struct str arena_dup(struct arena *arena, struct str s);
char *arena_cstr(struct arena *arena, struct str s);

/* Joins several strings into one. */
struct str arena_concat(struct arena *arena, struct str a, struct str b);
struct str arena_join(struct arena *arena, const struct str *parts, size_t count);

/* Formatted text; NUL-terminated, the NUL is not counted. */
struct str arena_printf(struct arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
struct str arena_vprintf(struct arena *arena, const char *format, va_list args);

/* Registers a function that is called when the arena is freed; newest first. */
void arena_on_free(struct arena *arena, void (*run)(void *), void *arg);

/* Process-wide statistics. */
struct arena_stats {
    uint64_t blocks_taken;      /* common blocks taken so far, including reused ones */
    size_t blocks, free_blocks; /* common blocks in use now, and in the free list */
    uint64_t large_taken;       /* blocks for one large piece, so far */
    size_t large, large_bytes;  /* large pieces in use now, and their bytes */
};
void arena_stats_of(struct arena_stats *out);

/* Process-wide: frees the blocks of the free list that were not used since the last call. */
void arena_trim(void);

/*
 * A growing array inside an arena. `items` is of the caller's type.
 *     struct vec list = {0};
 *     struct thing *t = vec_add(&list, arena, struct thing);
 *     *vec_add(&names, arena, struct str) = name;
 */
struct vec {
    void *items;     /* count items; in the arena */
    size_t count;    /* items in use */
    size_t capacity; /* items that fit */
};

/* Adds a cleared item and gives a pointer to it; earlier pointers into the array may become
   invalid. */
#define vec_add(vec, arena, type) ((type *) vec_push(vec, arena, sizeof(type)))
void *vec_push(struct vec *vec, struct arena *arena, size_t item_size);

/* A copy that can grow without changing the original. */
struct vec vec_copy(const struct vec *vec, struct arena *arena, size_t item_size);

#define vec_at(vec, type, index) (&((type *) (vec)->items)[index])

/* Iterates over the items of a vec: vec_each(struct thing, item, &list) { … } */
#define vec_each(type, item, vec)                                                                  \
    for (type *item = (vec)->items; item != NULL && item < (type *) (vec)->items + (vec)->count;   \
         item++)

#endif
