/*
 * Which worker has which flow, in memory that all processes share. Buckets of one cache line with
 * eight words; a word is 48 bits of a flow's hash and the number of a worker. There is no lock: a
 * word changes by compare and swap. What finds no place is not noted, and works as long as its
 * client's datagrams come to the same worker. A number that belongs to another worker by now leads
 * to one that does not know the flow, and begins it: so a word may be wrong, not harmful.
 */
#include <stdatomic.h>

#include "base/shm.h"
#include "net/datagram/private.h"

#define BUCKET_BITS 16u
#define WORDS 8u
#define OWNER_BITS 16u
#define OWNER_MASK ((UINT64_C(1) << OWNER_BITS) - 1)

struct bucket {
    _Alignas(64) _Atomic uint64_t words[WORDS]; /* 0 = free */
};

static struct directory {
    _Atomic uint32_t lengths; /* a bit for each length that an id had, of all that were learned */
    struct bucket buckets[1u << BUCKET_BITS];
} * directory;

bool directory_make(void)
{
    if (directory == NULL) {
        directory = shm_map(sizeof(*directory));
    }
    return directory != NULL;
}

static struct bucket *datagram_directory_bucket_of(uint64_t hash)
{
    return &directory->buckets[hash & ((1u << BUCKET_BITS) - 1)];
}

static uint64_t word_of(uint64_t hash, uint32_t owner)
{
    return (hash & ~OWNER_MASK) | owner;
}

/* Puts the word where `from` stands; false: nowhere. */
static bool swap(uint64_t hash, uint64_t from, uint64_t to)
{
    struct bucket *bucket = datagram_directory_bucket_of(hash);

    for (unsigned i = 0; i < WORDS; i++) {
        uint64_t expected = from;

        if (atomic_load_explicit(&bucket->words[i], memory_order_relaxed) == from &&
            atomic_compare_exchange_strong(&bucket->words[i], &expected, to)) {
            return true;
        }
    }
    return false;
}

uint32_t directory_find(uint64_t hash)
{
    if (directory == NULL) {
        return 0;
    }
    const struct bucket *bucket = datagram_directory_bucket_of(hash);

    for (unsigned i = 0; i < WORDS; i++) {
        uint64_t word = atomic_load_explicit(&bucket->words[i], memory_order_relaxed);

        if (word != 0 && ((word ^ hash) & ~OWNER_MASK) == 0) {
            return (uint32_t) (word & OWNER_MASK);
        }
    }
    return 0;
}

uint32_t directory_claim(uint64_t hash, uint32_t me)
{
    if (directory == NULL || me == 0) {
        return me;
    }
    uint32_t owner = directory_find(hash);
    if (owner != 0) {
        return owner;
    }
    swap(hash, 0, word_of(hash, me));
    return me;
}

void directory_take(uint64_t hash, uint32_t me)
{
    uint32_t owner = directory_claim(hash, me);

    if (owner != me) {
        directory_seize(hash, owner, me);
    }
}

void directory_note_length(unsigned length)
{
    uint32_t bit = UINT32_C(1) << length;

    if (directory != NULL &&
        (atomic_load_explicit(&directory->lengths, memory_order_relaxed) & bit) == 0) {
        atomic_fetch_or(&directory->lengths, bit);
    }
}

uint32_t directory_lengths(void)
{
    return directory == NULL ? 0 : atomic_load_explicit(&directory->lengths, memory_order_relaxed);
}

void directory_seize(uint64_t hash, uint32_t former, uint32_t me)
{
    if (directory != NULL && me != 0) {
        swap(hash, word_of(hash, former), word_of(hash, me));
    }
}

void directory_leave(uint64_t hash, uint32_t me)
{
    if (directory != NULL && me != 0) {
        swap(hash, word_of(hash, me), 0);
    }
}
