/* OpenSSL's memory: each handshake allocates and frees about two thousand small pieces. */
#include <malloc.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <unistd.h>

#include "base/list.h"
#include "base/poison.h"
#include "net/tls/private.h"

/*
 * Pieces are cut from blocks. A block has pieces of one size class and is aligned to its size: so
 * the head of a block describes a piece by its address, and a piece needs no header. Larger
 * allocations are aligned like blocks, at addresses that no piece of a block has. The process's
 * first thread caches some free pieces of each class and takes no lock for them; other threads,
 * which rarely allocate here, have no cache. A block whose pieces are all free, except for one
 * block of its class, is returned to the pool of free blocks. If there are many, its pages, except
 * the first, are given back to the system.
 */
#define BLOCK_SIZE 65536u
#define SIZE_MOST 20480u /* largest piece; a buffer for a record fits */
#define CLASS_COUNT 183
#define KEPT_BYTES 32768u /* of free pieces of one class in the cache */
#define KEPT_LEAST 4u     /* free pieces of one class in the cache, at least and at most */
#define KEPT_MOST 128u
#define REGION_BLOCKS 63u /* mapped at a time; one more is lost to the alignment */
#define WARM_MOST 16u     /* free blocks that keep their pages */

#ifdef POISON_IS_ON
#define IS_WATCHED true /* AddressSanitizer only checks malloc's memory */
#else
#define IS_WATCHED false
#endif

/* A free piece. */
struct piece {
    struct piece *next;
};

/* The head of a block. Guarded by the lock, except size and class. */
struct block {
    struct list node;   /* in with_space of its class while it has free pieces */
    struct piece *free; /* pieces that were returned */
    uint32_t fresh;     /* offset of the first piece that was never used */
    uint32_t size;      /* of a piece */
    uint16_t used;      /* pieces in use or in the cache */
    uint16_t class;
};
#define BLOCK_HEAD ((sizeof(struct block) + 15) / 16 * 16)

/* The first thread's cache of one class. */
struct at_hand {
    struct piece *first;
    uint32_t count;
    uint32_t most;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list with_space[CLASS_COUNT]; /* blocks with free pieces */
static struct at_hand kept[CLASS_COUNT];
static struct list warm_blocks; /* free blocks */
static struct list cold_blocks; /* free blocks without pages */
static unsigned warm_count;
static char *region; /* unused memory of region_left bytes */
static size_t region_left;
static __thread bool is_first_thread;

/* Steps of 16 bytes up to 1 KB, of 64 up to 8 KB, of 2 KB up to 20 KB. */
static inline unsigned class_of(size_t size)
{
    if (size <= 1024) {
        return (unsigned) (size + 15) / 16;
    }
    return size <= 8192 ? 64 + (unsigned) (size - 1024 + 63) / 64
                        : 176 + (unsigned) (size - 8192 + 2047) / 2048;
}

static uint32_t size_of(unsigned class)
{
    if (class <= 64) {
        return class * 16;
    }
    return class <= 176 ? 1024 + (class - 64) * 64 : 8192 + (class - 176) * 2048;
}

static inline struct block *block_of(void *at)
{
    return (struct block *) ((uintptr_t) at & ~(uintptr_t) (BLOCK_SIZE - 1));
}

static inline bool is_large(const void *at)
{
    return ((uintptr_t) at & (BLOCK_SIZE - 1)) == 0;
}

static bool block_has_room(const struct block *block)
{
    return block->free != NULL || block->fresh + block->size <= BLOCK_SIZE;
}

/* ---- with the lock held ---- */

static void *block_from_system(void)
{
    if (region_left == 0) {
        size_t size = (size_t) (REGION_BLOCKS + 1) * BLOCK_SIZE;
        char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (at == MAP_FAILED) {
            return NULL;
        }
        region = (char *) block_of(at + BLOCK_SIZE - 1);
        region_left = (size_t) REGION_BLOCKS * BLOCK_SIZE;
    }
    void *block = region;
    region += BLOCK_SIZE;
    region_left -= BLOCK_SIZE;
    return block;
}

static struct block *block_new(unsigned class)
{
    struct list *free_ones = list_is_empty(&warm_blocks) ? &cold_blocks : &warm_blocks;
    struct block *block = list_is_empty(free_ones)
                              ? block_from_system()
                              : container_of(list_pop_front(free_ones), struct block, node);

    warm_count -= free_ones == &warm_blocks;
    if (block != NULL) {
        *block =
            (struct block){.fresh = BLOCK_HEAD, .size = size_of(class), .class = (uint16_t) class};
        list_push_back(&with_space[class], &block->node);
    }
    return block;
}

static void block_free(struct block *block)
{
    long page = sysconf(_SC_PAGESIZE);

    list_remove(&block->node);
    if (warm_count < WARM_MOST) {
        warm_count++;
        list_push_front(&warm_blocks, &block->node);
        return;
    }
    if (page < (long) BLOCK_SIZE) {
        madvise((char *) block + page, BLOCK_SIZE - (size_t) page, MADV_DONTNEED);
    }
    list_push_front(&cold_blocks, &block->node);
}

static struct piece *piece_take(unsigned class)
{
    struct block *block = list_is_empty(&with_space[class])
                              ? block_new(class)
                              : container_of(with_space[class].next, struct block, node);

    if (block == NULL) {
        return NULL;
    }
    struct piece *piece = block->free;
    if (piece != NULL) {
        block->free = piece->next;
    } else {
        piece = (struct piece *) ((char *) block + block->fresh);
        block->fresh += block->size;
    }
    block->used++;
    if (!block_has_room(block)) {
        list_remove(&block->node);
    }
    return piece;
}

static void piece_give(struct piece *piece)
{
    struct block *block = block_of(piece);
    struct list *others = &with_space[block->class];

    if (!block_has_room(block)) {
        list_push_front(others, &block->node);
    }
    piece->next = block->free;
    block->free = piece;
    if (--block->used == 0 && others->next != others->prev) {
        block_free(block);
    }
}

/* ---- allocation ---- */

/* The cache is empty: takes a piece, and refills the cache for the first thread. */
static __attribute__((noinline)) void *fetch(unsigned class)
{
    struct at_hand *hand = &kept[class];

    pthread_mutex_lock(&lock);
    struct piece *piece = piece_take(class);
    while (is_first_thread && piece != NULL && hand->count < hand->most / 2) {
        struct piece *more = piece_take(class);
        if (more == NULL) {
            break;
        }
        more->next = hand->first;
        hand->first = more;
        hand->count++;
    }
    pthread_mutex_unlock(&lock);
    return piece;
}

/* The cache is full, or this thread has none: returns pieces. */
static __attribute__((noinline)) void put_back(struct piece *piece, unsigned class)
{
    struct at_hand *hand = &kept[class];

    pthread_mutex_lock(&lock);
    piece_give(piece);
    while (is_first_thread && hand->count > hand->most / 2) {
        piece = hand->first;
        hand->first = piece->next;
        hand->count--;
        piece_give(piece);
    }
    pthread_mutex_unlock(&lock);
}

static void *memory_new(size_t size, const char *file, int line)
{
    if (size == 0) {
        return NULL;
    }
    if (size > SIZE_MOST) {
        void *at;
        return posix_memalign(&at, BLOCK_SIZE, size) == 0 ? at : NULL;
    }
    unsigned class = class_of(size);
    struct at_hand *hand = &kept[class];
    if (!is_first_thread || hand->first == NULL) {
        return fetch(class);
    }
    struct piece *piece = hand->first;
    hand->first = piece->next;
    hand->count--;
    return piece;
}

static void memory_free(void *at, const char *file, int line)
{
    if (is_large(at)) {
        if (at != NULL) {
            free(at);
        }
        return;
    }
    struct piece *piece = at;
    unsigned class = block_of(at)->class;
    struct at_hand *hand = &kept[class];
    if (!is_first_thread || hand->count == hand->most) {
        put_back(piece, class);
        return;
    }
    piece->next = hand->first;
    hand->first = piece;
    hand->count++;
}

static void *memory_resize(void *at, size_t size, const char *file, int line)
{
    if (at == NULL || size == 0) {
        memory_free(at, file, line);
        return memory_new(size, file, line);
    }
    size_t capacity = is_large(at) ? malloc_usable_size(at) : block_of(at)->size;
    if (size <= capacity && size > capacity / 2) {
        return at;
    }
    void *other = memory_new(size, file, line);
    if (other != NULL) {
        memcpy(other, at, MIN(size, capacity));
        memory_free(at, file, line);
    }
    return other;
}

/* OpenSSL accepts this only before its first allocation, so it runs before main. */
void __attribute__((constructor)) tls_memory_init(void)
{
    if (IS_WATCHED || is_first_thread) {
        return;
    }
    for (unsigned i = 0; i < CLASS_COUNT; i++) {
        uint32_t most = KEPT_BYTES / MAX(size_of(i), 1);

        list_init(&with_space[i]);
        kept[i].most = MIN(MAX(most, KEPT_LEAST), KEPT_MOST);
    }
    list_init(&warm_blocks);
    list_init(&cold_blocks);
    is_first_thread = true;
    CRYPTO_set_mem_functions(memory_new, memory_resize, memory_free);
}

/* ---- OpenSSL as a whole: initialization, ex_data indexes, all contexts of this process ---- */

int tls_context_index = -1;
int tls_index = -1;
struct tls_context *tls_contexts;

void tls_library_init(void)
{
    if (tls_index != -1) {
        return;
    }
    tls_memory_init();
    OPENSSL_init_ssl(OPENSSL_INIT_LOAD_CONFIG | OPENSSL_INIT_LOAD_SSL_STRINGS, NULL);
    tls_context_index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, NULL);
    tls_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, NULL);
    ERR_clear_error();
}

const char *tls_version_built(void)
{
    return OPENSSL_VERSION_TEXT;
}

const char *tls_version_running(void)
{
    return OpenSSL_version(OPENSSL_VERSION);
}
