/* Ordered ranges of IPv4 addresses, in chunks of a fixed size, so that an insertion moves few of
 * them. */
#include "shared/geo/ranges.h"

#define CHUNK_SIZE 256

struct chunk {
    unsigned count;
    struct geo_range items[CHUNK_SIZE];
};

/* A position between two ranges: after `item` - 1 of the chunk. */
struct range_position {
    size_t chunk;
    unsigned item;
};

static struct chunk *chunk_at(const struct geo_ranges *ranges, size_t index)
{
    return *vec_at(&ranges->chunks, struct chunk *, index);
}

/* The range before a position, or NULL. */
static struct geo_range *range_before(const struct geo_ranges *ranges,
                                      struct range_position position)
{
    return position.item == 0 ? NULL : &chunk_at(ranges, position.chunk)->items[position.item - 1];
}

/* The position after the last range that begins at or before the address; item is 0 only before all
   ranges. */
static struct range_position find_position(const struct geo_ranges *ranges, uint32_t address)
{
    size_t from = 0;
    size_t to = ranges->chunks.count;

    while (to - from > 1) {
        size_t middle = (from + to) / 2;
        if (chunk_at(ranges, middle)->items[0].first <= address) {
            from = middle;
        } else {
            to = middle;
        }
    }
    struct range_position position = {.chunk = from, .item = 0};
    if (to == 0) {
        return position;
    }
    const struct chunk *chunk = chunk_at(ranges, from);
    unsigned end = chunk->count;
    while (position.item < end) {
        unsigned middle = (position.item + end) / 2;
        if (chunk->items[middle].first <= address) {
            position.item = middle + 1;
        } else {
            end = middle;
        }
    }
    return position;
}

static struct chunk *add_chunk(struct geo_ranges *ranges, size_t index)
{
    struct chunk *chunk = arena_alloc(ranges->arena, sizeof(*chunk));

    chunk->count = 0;
    vec_add(&ranges->chunks, ranges->arena, struct chunk *);
    struct chunk **at = vec_at(&ranges->chunks, struct chunk *, index);
    memmove(at + 1, at, (ranges->chunks.count - 1 - index) * sizeof(*at));
    *at = chunk;
    return chunk;
}

/* Makes space for one more range at the position. A full chunk is split in two: in the middle, or
 * before its last range if one is appended. */
static void chunk_make_room(struct geo_ranges *ranges, struct range_position *position)
{
    if (ranges->chunks.count == 0) {
        add_chunk(ranges, 0);
    }
    struct chunk *chunk = chunk_at(ranges, position->chunk);
    if (chunk->count < CHUNK_SIZE) {
        return;
    }
    unsigned kept = position->item == CHUNK_SIZE ? CHUNK_SIZE - 1 : CHUNK_SIZE / 2;
    struct chunk *next = add_chunk(ranges, position->chunk + 1);
    next->count = CHUNK_SIZE - kept;
    memcpy(next->items, chunk->items + kept, next->count * sizeof(*next->items));
    chunk->count = kept;
    if (position->item > kept) {
        position->chunk++;
        position->item -= kept;
    }
}

/* Inserts a range; the position is after it then. */
static void range_insert(struct geo_ranges *ranges, struct range_position *position,
                         struct geo_range range)
{
    chunk_make_room(ranges, position);
    struct chunk *chunk = chunk_at(ranges, position->chunk);
    struct geo_range *at = chunk->items + position->item;

    memmove(at + 1, at, (chunk->count - position->item) * sizeof(*at));
    *at = range;
    chunk->count++;
    position->item++;
    ranges->count++;
}

static void take_out(struct geo_ranges *ranges, struct range_position position)
{
    struct chunk *chunk = chunk_at(ranges, position.chunk);
    struct geo_range *at = chunk->items + position.item - 1;

    memmove(at, at + 1, (chunk->count - position.item) * sizeof(*at));
    chunk->count--;
    ranges->count--;
    if (chunk->count == 0) {
        struct chunk **chunks = vec_at(&ranges->chunks, struct chunk *, position.chunk);
        memmove(chunks, chunks + 1, (ranges->chunks.count - 1 - position.chunk) * sizeof(*chunks));
        ranges->chunks.count--;
    }
}

/* Cuts `inner` out of `outer`, the range before the position; with is_kept, `inner` replaces the
 * part that was cut. */
static void range_cut(struct geo_ranges *ranges, struct range_position position,
                      const struct geo_range *inner, bool is_kept)
{
    struct geo_range outer = *range_before(ranges, position);
    struct geo_range head = {outer.first, inner->first - 1, outer.value};
    struct geo_range tail = {inner->last + 1, outer.last, outer.value};

    if (outer.first < inner->first) {
        *range_before(ranges, position) = head;
    } else if (is_kept) {
        *range_before(ranges, position) = *inner;
        is_kept = false;
    } else if (inner->last < outer.last) {
        *range_before(ranges, position) = tail;
        return;
    } else {
        take_out(ranges, position);
        return;
    }
    if (is_kept) {
        range_insert(ranges, &position, *inner);
    }
    if (inner->last < outer.last) {
        range_insert(ranges, &position, tail);
    }
}

enum geo_put geo_ranges_put(struct geo_ranges *ranges, struct geo_range range,
                            struct geo_range *other)
{
    struct range_position position = find_position(ranges, range.last);
    struct geo_range *before = range_before(ranges, position);

    if (before == NULL || before->last < range.first) {
        range_insert(ranges, &position, range);
        return GEO_PUT;
    }
    *other = *before;
    if (before->first == range.first && before->last == range.last) {
        before->value = range.value;
        return GEO_REPLACED;
    }
    if (range.first < before->first || before->last < range.last) {
        return GEO_OVERLAPS;
    }
    range_cut(ranges, position, &range, true);
    return GEO_PUT;
}

bool geo_ranges_delete(struct geo_ranges *ranges, uint32_t first, uint32_t last)
{
    struct range_position position = find_position(ranges, last);
    const struct geo_range *before = range_before(ranges, position);
    struct geo_range range = {first, last, 0};

    if (before == NULL || first < before->first || before->last < last ||
        (first != before->first && (first & 0xffff) != 0) ||
        (last != before->last && (last & 0xffff) != 0xffff)) {
        return false;
    }
    range_cut(ranges, position, &range, false);
    return true;
}

static void add_span(struct geo_span *spans, size_t *count, uint32_t first, uint32_t value)
{
    spans[(*count)++] = (struct geo_span){.first = {0, first}, .value = value};
}

struct geo_span *geo_ranges_spans(const struct geo_ranges *ranges, uint32_t between, size_t *count)
{
    struct geo_span *spans =
        arena_array(ranges->arena, 2 * ranges->count + 1, sizeof(struct geo_span));
    uint64_t next = 0; /* the address after the previous range */

    *count = 0;
    vec_each(struct chunk *, chunk, &ranges->chunks) {
        for (unsigned i = 0; i < (*chunk)->count; i++) {
            const struct geo_range *range = &(*chunk)->items[i];
            if (next < range->first) {
                add_span(spans, count, (uint32_t) next, between);
            }
            add_span(spans, count, range->first, range->value);
            next = (uint64_t) range->last + 1;
        }
    }
    if (next <= UINT32_MAX) {
        add_span(spans, count, (uint32_t) next, between);
    }
    return spans;
}
