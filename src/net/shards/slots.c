/* State of the slots that all processes share, and which workers watch which slots. */
#include "net/shards/slots.h"

#include <stddef.h>

#include "base/shm.h"
#include "net/shards/listener.h"
#include "net/shards/placement.h"

#define SLOTS_MOST 4096
#define AHEAD_LEAST 64u /* connections beyond the mean and a quarter */

/* Written at each accept: each slot has its own cache lines, and those that the CPU prefetches with
 * them. */
union padded_slot {
    struct shard_slot slot;
    char pad[128];
};

static struct {
    union padded_slot slots[SLOTS_MOST];
    _Atomic uint64_t steerings;
} * shared_slots;

bool shard_slots_init(void)
{
    if (shared_slots == NULL) {
        shared_slots = shm_map(sizeof(*shared_slots));
    }
    return shared_slots != NULL;
}

struct shard_slot *shard_slot(unsigned slot)
{
    return &shared_slots->slots[slot % SLOTS_MOST].slot;
}

void shard_slot_begin(unsigned slot, const struct accept_options *options)
{
    struct shard_slot *shared = shard_slot(slot);

    atomic_store_explicit(&shared->load, options->load, memory_order_relaxed);
    atomic_store_explicit(&shared->accepted, options->accepted, memory_order_relaxed);
    atomic_store_explicit(&shared->requests, options->requests, memory_order_relaxed);
    atomic_store_explicit(&shared->is_full, 0, memory_order_relaxed);
}

bool shard_is_watched(unsigned slot, unsigned by, unsigned slots)
{
    unsigned size = placement_group_size(slots);

    return slots > 1 && slot % slots / size == by / size;
}

void shard_slot_joined(unsigned slot)
{
    atomic_fetch_add_explicit(&shard_slot(slot)->joined, 1, memory_order_relaxed);
}

void shard_slot_left(unsigned slot)
{
    atomic_fetch_add_explicit(&shard_slot(slot)->left, 1, memory_order_relaxed);
}

void shard_slot_gave(unsigned slot, unsigned n)
{
    atomic_fetch_add_explicit(&shard_slot(slot)->gave, n, memory_order_relaxed);
}

/* The current value of a counter that another process writes; 0 if there is none. */
static uint64_t read_counter(const uint64_t *_Atomic *counter)
{
    const uint64_t *at = atomic_load_explicit(counter, memory_order_relaxed);

    return at == NULL ? 0 : *(const volatile uint64_t *) at;
}

static uint64_t load_of(unsigned slot)
{
    return read_counter(&shard_slot(slot)->load);
}

uint64_t shard_slots_work(unsigned slots)
{
    uint64_t sum = 0;

    for (unsigned slot = 0; slot < slots; slot++) {
        struct shard_slot *shared = shard_slot(slot);

        sum += read_counter(&shared->accepted) + read_counter(&shared->requests);
    }
    return sum;
}

bool shard_slot_is_ahead(unsigned slot, unsigned slots)
{
    uint64_t sum = 0;

    for (unsigned other = 0; other < slots; other++) {
        sum += load_of(other);
    }
    uint64_t mean = sum / slots;
    return load_of(slot) > mean + mean / 4 + AHEAD_LEAST;
}

unsigned shard_slot_free(unsigned slot, unsigned limit)
{
    uint64_t used = load_of(slot);
    bool is_full = atomic_load_explicit(&shard_slot(slot)->is_full, memory_order_relaxed) != 0;

    return is_full || used + limit / 16 >= limit ? 0 : (unsigned) (limit - limit / 16 - used);
}

bool shard_slot_sibling_has_room(unsigned slot, unsigned slots)
{
    for (unsigned other = 0; other < slots; other++) {
        if (other != slot && shard_is_watched(slot, other, slots) &&
            atomic_load_explicit(&shard_slot(other)->is_full, memory_order_relaxed) == 0) {
            return true;
        }
    }
    return false;
}

void shard_counts(unsigned slot, struct shard_counts *counts)
{
    const struct shard_slot *shared = shard_slot(slot);

    counts->own = atomic_load_explicit(&shared->own, memory_order_relaxed);
    counts->taken = atomic_load_explicit(&shared->taken, memory_order_relaxed);
    counts->adopted = atomic_load_explicit(&shared->adopted, memory_order_relaxed);
    counts->joined = atomic_load_explicit(&shared->joined, memory_order_relaxed);
    counts->left = atomic_load_explicit(&shared->left, memory_order_relaxed);
    counts->gave = atomic_load_explicit(&shared->gave, memory_order_relaxed);
    counts->in_vain = atomic_load_explicit(&shared->in_vain, memory_order_relaxed);
}

void shard_reader_set(unsigned slot, uint32_t reader)
{
    atomic_store_explicit(&shard_slot(slot)->reader, reader, memory_order_relaxed);
}

uint32_t shard_reader(unsigned slot)
{
    return atomic_load_explicit(&shard_slot(slot)->reader, memory_order_relaxed);
}

void shard_steered(void)
{
    atomic_fetch_add_explicit(&shared_slots->steerings, 1, memory_order_relaxed);
}

uint64_t shard_steerings(void)
{
    return atomic_load_explicit(&shared_slots->steerings, memory_order_relaxed);
}
