/* Arenas: blocks, the per-process list of free ones, and the functions that build on pieces of
   memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/fatal.h"

/* Header of a block; its pieces follow. */
struct arena_block {
    struct arena_block *next; /* next older one of the arena, or next free one */
    size_t size;              /* bytes, this header included; ARENA_BLOCK_SIZE is the common size */
};

struct arena_cleanup {
    struct arena_cleanup *next; /* next older one */
    void (*run)(void *);        /* function to call */
    void *arg;                  /* its argument */
};

enum {
    BLOCK_CAPACITY = ARENA_BLOCK_SIZE - (int) sizeof(struct arena_block),
    SMALL_CAPACITY = ARENA_SMALL_BLOCK - (int) sizeof(struct arena_block),
    FREE_BLOCKS_MAX = 8192, /* at most 32 MB are kept */
    SMALL_TEXT = 256,       /* formatted text up to this size is formatted only once */
    FIRST_VEC_CAPACITY = 4,
};

_Static_assert(sizeof(struct arena_block) % 16 == 0, "pieces are aligned to 16");

/* The free list. Arenas belong to the process's main thread, so there is no lock. */
static struct {
    struct arena_block *
        first; /* newest first: the memory that is most likely in the CPU's cache is reused first */
    size_t count;     /* blocks in the list */
    size_t low_water; /* lowest count since the last trim */
} free_blocks;

static struct arena_stats stats;

_Alignas(16) char arena_no_room[16];

void arena_stats_of(struct arena_stats *out)
{
    *out = stats;
    out->free_blocks = free_blocks.count;
}

static void block_release(struct arena_block *block)
{
    memory_unpoison(block + 1, block->size - sizeof(*block));
    free(block);
}

void arena_trim(void)
{
    while (free_blocks.low_water > 0) {
        struct arena_block *block = free_blocks.first;
        free_blocks.first = block->next;
        free_blocks.count--;
        free_blocks.low_water--;
        block_release(block);
    }
    free_blocks.low_water = free_blocks.count;
}

/* Counts a new block of this size. */
static void arena_account_for(struct arena *arena, size_t size)
{
    struct arena_account *account = arena->account;

    arena->used += size;
    if (account != NULL) {
        account->used += size;
        if (account->limit != 0 && account->used > account->limit &&
            account->used - account->limit > account->allowed) {
            account->over(account);
        }
    }
}

void arena_free(struct arena *arena)
{
    while (arena->cleanup != NULL) {
        struct arena_cleanup *cleanup = arena->cleanup;
        arena->cleanup = cleanup->next;
        cleanup->run(cleanup->arg);
    }
    if (arena->account != NULL) {
        arena->account->used -= arena->used; /* first: the account may be in a block */
    }
    while (arena->blocks != NULL) {
        struct arena_block *block = arena->blocks;
        arena->blocks = block->next;
        if (block->size == ARENA_BLOCK_SIZE) {
            stats.blocks--;
        } else {
            stats.large--;
            stats.large_bytes -= block->size;
        }
        if (block->size != ARENA_BLOCK_SIZE || free_blocks.count >= FREE_BLOCKS_MAX) {
            block_release(block);
            continue;
        }
        memory_poison(block + 1, BLOCK_CAPACITY);
        block->next = free_blocks.first;
        free_blocks.first = block;
        free_blocks.count++;
    }
    arena_init(arena);
}

/* Takes a block of this size, its header included. One of the common size may come from the free
   list. */
static struct arena_block *block_take(size_t size)
{
    struct arena_block *block = free_blocks.first;

    if (size == ARENA_BLOCK_SIZE) {
        stats.blocks_taken++;
        stats.blocks++;
        if (block != NULL) {
            free_blocks.first = block->next;
            if (--free_blocks.count < free_blocks.low_water) {
                free_blocks.low_water = free_blocks.count;
            }
            return block;
        }
    } else {
        stats.large_taken++;
        stats.large++;
        stats.large_bytes += size;
    }
    block = malloc(size);
    if (block == NULL) {
        fatal_no_memory(size);
    }
    block->size = size;
    memory_poison(block + 1, size - sizeof(*block));
    return block;
}

/* A block for one large piece. It is linked after the newest block, which stays the current one. */
static char *grow_large(struct arena *arena, size_t size)
{
    size_t whole;

    if (__builtin_add_overflow(size, sizeof(struct arena_block) + POISON_REDZONE, &whole)) {
        fatal_no_memory(SIZE_MAX);
    }
    /* Another size than the common one, so that the block does not go to the free list. */
    if (whole <= ARENA_BLOCK_SIZE) {
        whole = ARENA_BLOCK_SIZE + 1;
    }
    struct arena_block *block = block_take(whole);
    struct arena_block **where = arena->blocks == NULL ? &arena->blocks : &arena->blocks->next;
    block->next = *where;
    *where = block;
    char *piece = (char *) (block + 1);
    memory_unpoison(piece, size);
    arena_account_for(arena, whole);
    return piece;
}

void *arena_grow(struct arena *arena, size_t size)
{
    if (size > BLOCK_CAPACITY - POISON_REDZONE) {
        return grow_large(arena, size);
    }
    bool is_small =
        arena->is_small && arena->blocks == NULL && size <= SMALL_CAPACITY - POISON_REDZONE;
    struct arena_block *block = block_take(is_small ? ARENA_SMALL_BLOCK : ARENA_BLOCK_SIZE);
    block->next = arena->blocks;
    arena->blocks = block;

    size_t rounded = (size + 15 + POISON_REDZONE) & ~(size_t) 15;
    char *piece = (char *) (block + 1);
    char *next = piece + rounded;
    char *end = (char *) block + block->size;
    /* The block with more free space becomes the current one. */
    if (end - next >= arena->end - arena->next) {
        arena->next = next;
        arena->end = end;
    }
    memory_unpoison(piece, size);
    arena_account_for(arena, block->size);
    return piece;
}

char *arena_text(struct arena *arena, size_t size)
{
    size_t whole = size + POISON_REDZONE;

    if (whole < size || whole > (size_t) (arena->end - arena->next)) {
        return arena_grow(arena, size);
    }
    char *piece = arena->end - whole;
    if (POISON_REDZONE != 0) {
        /* AddressSanitizer poisons in units of 8 bytes: only a piece that starts at a multiple of 8
           can be enclosed exactly. */
        piece -= (uintptr_t) piece & 7;
    }
    arena->end = piece;
    memory_unpoison(piece, size);
    return piece;
}

void *arena_array(struct arena *arena, size_t count, size_t size)
{
    size_t whole;

    if (__builtin_mul_overflow(count, size, &whole)) {
        fatal_no_memory(SIZE_MAX);
    }
    return arena_zalloc(arena, whole);
}

struct str arena_dup(struct arena *arena, struct str s)
{
    char *copy = arena_text(arena, s.len);

    if (s.len != 0) {
        memcpy(copy, s.data, s.len);
    }
    return (struct str){copy, s.len};
}

char *arena_cstr(struct arena *arena, struct str s)
{
    if (s.len == SIZE_MAX) {
        fatal_no_memory(s.len);
    }
    char *copy = arena_text(arena, s.len + 1);
    if (s.len != 0) {
        memcpy(copy, s.data, s.len);
    }
    copy[s.len] = '\0';
    return copy;
}

struct str arena_concat(struct arena *arena, struct str a, struct str b)
{
    return arena_join(arena, (struct str[]){a, b}, 2);
}

struct str arena_join(struct arena *arena, const struct str *parts, size_t count)
{
    size_t whole = 0;

    for (size_t i = 0; i < count; i++) {
        if (__builtin_add_overflow(whole, parts[i].len, &whole)) {
            fatal_no_memory(SIZE_MAX);
        }
    }
    char *start = arena_text(arena, whole);
    char *at = start;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].len != 0) {
            memcpy(at, parts[i].data, parts[i].len);
            at += parts[i].len;
        }
    }
    return (struct str){start, whole};
}

struct str arena_vprintf(struct arena *arena, const char *format, va_list args)
{
    char small[SMALL_TEXT];
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(small, sizeof(small), format, args);
    size_t len = n < 0 ? 0 : (size_t) n;
    char *text = arena_text(arena, len + 1);

    if (len < sizeof(small)) {
        memcpy(text, small, len);
    } else {
        vsnprintf(text, len + 1, format, again);
    }
    text[len] = '\0';
    va_end(again);
    return (struct str){text, len};
}

struct str arena_printf(struct arena *arena, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    struct str text = arena_vprintf(arena, format, args);
    va_end(args);
    return text;
}

void arena_on_free(struct arena *arena, void (*run)(void *), void *arg)
{
    struct arena_cleanup *cleanup = arena_alloc(arena, sizeof(*cleanup));

    *cleanup = (struct arena_cleanup){arena->cleanup, run, arg};
    arena->cleanup = cleanup;
}

void *vec_push(struct vec *vec, struct arena *arena, size_t item_size)
{
    if (vec->count == vec->capacity) {
        size_t capacity = vec->capacity == 0 ? FIRST_VEC_CAPACITY : vec->capacity * 2;
        size_t bytes;

        if (__builtin_mul_overflow(capacity, item_size, &bytes)) {
            fatal_no_memory(SIZE_MAX);
        }
        void *items = arena_alloc(arena, bytes);
        if (vec->count != 0) {
            memcpy(items, vec->items, vec->count * item_size);
        }
        vec->items = items;
        vec->capacity = capacity;
    }
    return memset((char *) vec->items + vec->count++ * item_size, 0, item_size);
}

struct vec vec_copy(const struct vec *vec, struct arena *arena, size_t item_size)
{
    struct vec copy = {NULL, vec->count, vec->count};

    if (vec->count != 0) {
        copy.items = arena_alloc(arena, vec->count * item_size);
        memcpy(copy.items, vec->items, vec->count * item_size);
    }
    return copy;
}
