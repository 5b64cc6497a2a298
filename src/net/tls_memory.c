/* Memory of OpenSSL, which allocates and frees some two thousand small pieces in every handshake. */
#include <malloc.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "base/list.h"
#include "base/poison.h"
#include "net/tls_private.h"

/*
 * Pieces are cut from slabs of one class of sizes each, which begin at multiples of their size: so the head of
 * its slab tells what a piece is, and none costs more than its own bytes. What is larger begins at such a
 * multiple itself, where no piece of a slab can. The thread that began the process keeps some free pieces
 * of each class at hand and takes no lock for them; others, which seldom come here, have none. A slab
 * whose pieces are all free goes back, but for one of its class.
 */
#define SLAB_SIZE 65536u
#define SIZE_MOST 20480u /* of a piece; a buffer for a record fits */
#define CLASS_COUNT 85
#define KEPT_BYTES 32768u /* of free pieces of one class at hand … */
#define KEPT_LEAST 4u     /* … and in pieces, at least and at most */
#define KEPT_MOST 128u

/* A free piece. */
struct piece {
    struct piece *next;
};

/* The head of a slab. The lock guards it, but for size and class. */
struct slab {
    struct list link;   /* among those of its class that have room; alone when it has none */
    struct piece *free; /* of its pieces that were given back */
    uint32_t fresh;     /* where the first piece lies that was never given out */
    uint32_t size;      /* of a piece */
    uint16_t used;      /* pieces given out, those at hand included */
    uint16_t class;
};
#define SLAB_HEAD ((sizeof(struct slab) + 15) / 16 * 16)

/* What the first thread has at hand. */
struct at_hand {
    struct piece *first;
    uint32_t count;
    uint32_t most;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list with_room[CLASS_COUNT]; /* slabs */
static struct at_hand kept[CLASS_COUNT];
static __thread bool is_first_thread;

/* Steps of 16 bytes up to 1 KB, of 512 up to 8 KB, of 2 KB up to 20 KB. */
static inline unsigned class_of(size_t size)
{
    if (size <= 1024) {
        return (unsigned) (size + 15) / 16;
    }
    return size <= 8192 ? 64 + (unsigned) (size - 1024 + 511) / 512
                        : 78 + (unsigned) (size - 8192 + 2047) / 2048;
}

static uint32_t size_of(unsigned class)
{
    if (class <= 64) {
        return class * 16;
    }
    return class <= 78 ? 1024 + (class - 64) * 512 : 8192 + (class - 78) * 2048;
}

static inline struct slab *slab_of(void *at)
{
    return (struct slab *) ((uintptr_t) at & ~(uintptr_t) (SLAB_SIZE - 1));
}

static inline bool is_large(const void *at)
{
    return ((uintptr_t) at & (SLAB_SIZE - 1)) == 0;
}

static bool slab_has_room(const struct slab *slab)
{
    return slab->free != NULL || slab->fresh + slab->size <= SLAB_SIZE;
}

/* ---- with the lock held ---- */

static struct slab *slab_new(unsigned class)
{
    struct slab *slab = aligned_alloc(SLAB_SIZE, SLAB_SIZE);

    if (slab != NULL) {
        *slab =
            (struct slab){.fresh = SLAB_HEAD, .size = size_of(class), .class = (uint16_t) class};
        list_push_back(&with_room[class], &slab->link);
    }
    return slab;
}

static struct piece *take(unsigned class)
{
    struct slab *slab = list_is_empty(&with_room[class])
                            ? slab_new(class)
                            : container_of(with_room[class].next, struct slab, link);

    if (slab == NULL) {
        return NULL;
    }
    struct piece *piece = slab->free;
    if (piece != NULL) {
        slab->free = piece->next;
    } else {
        piece = (struct piece *) ((char *) slab + slab->fresh);
        slab->fresh += slab->size;
    }
    slab->used++;
    if (!slab_has_room(slab)) {
        list_remove(&slab->link);
    }
    return piece;
}

static void give(struct piece *piece)
{
    struct slab *slab = slab_of(piece);
    struct list *others = &with_room[slab->class];

    if (!slab_has_room(slab)) {
        list_insert_after(others, &slab->link);
    }
    piece->next = slab->free;
    slab->free = piece;
    if (--slab->used == 0 && others->next != others->prev) {
        list_remove(&slab->link);
        free(slab);
    }
}

/* ---- the way there ---- */

/* None is at hand: fetches one, and more for the first thread. */
static __attribute__((noinline)) void *fetch(unsigned class)
{
    struct at_hand *hand = &kept[class];

    pthread_mutex_lock(&lock);
    struct piece *piece = take(class);
    while (is_first_thread && piece != NULL && hand->count < hand->most / 2) {
        struct piece *more = take(class);
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

/* More are at hand than need be, or this thread keeps none. */
static __attribute__((noinline)) void put_back(struct piece *piece, unsigned class)
{
    struct at_hand *hand = &kept[class];

    pthread_mutex_lock(&lock);
    give(piece);
    while (is_first_thread && hand->count > hand->most / 2) {
        piece = hand->first;
        hand->first = piece->next;
        hand->count--;
        give(piece);
    }
    pthread_mutex_unlock(&lock);
}

static void *memory_new(size_t size, const char *file, int line)
{
    (void) file;
    (void) line;
    if (size == 0) {
        return NULL;
    }
    if (size > SIZE_MOST) {
        void *at;
        return posix_memalign(&at, SLAB_SIZE, size) == 0 ? at : NULL;
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
    (void) file;
    (void) line;
    if (is_large(at)) {
        if (at != NULL) {
            free(at);
        }
        return;
    }
    struct piece *piece = at;
    unsigned class = slab_of(at)->class;
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
    size_t room = is_large(at) ? malloc_usable_size(at) : slab_of(at)->size;
    if (size <= room && size > room / 2) {
        return at;
    }
    void *other = memory_new(size, file, line);
    if (other != NULL) {
        memcpy(other, at, MIN(size, room));
        memory_free(at, file, line);
    }
    return other;
}

/* OpenSSL takes this only before it has allocated anything, so it is done before main. */
void __attribute__((constructor)) tls_memory_init(void)
{
#ifndef POISON_IS_ON /* AddressSanitizer watches malloc's memory only */
    if (is_first_thread) {
        return;
    }
    for (unsigned i = 0; i < CLASS_COUNT; i++) {
        uint32_t most = KEPT_BYTES / MAX(size_of(i), 1);

        list_init(&with_room[i]);
        kept[i].most = MIN(MAX(most, KEPT_LEAST), KEPT_MOST);
    }
    is_first_thread = true;
    CRYPTO_set_mem_functions(memory_new, memory_resize, memory_free);
#endif
}
