/* Sets of numbers as sorted ranges. */
#include "net/quic/ranges.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"

static struct quic_range *ranges_items(struct quic_ranges *ranges)
{
    return ranges->capacity == QUIC_RANGES_FEW ? ranges->few : ranges->items;
}

void quic_ranges_init(struct quic_ranges *ranges, uint32_t most)
{
    ranges->count = 0;
    ranges->capacity = QUIC_RANGES_FEW;
    ranges->most = most;
}

void quic_ranges_free(struct quic_ranges *ranges)
{
    if (ranges->capacity != QUIC_RANGES_FEW) {
        free(ranges->items);
    }
    quic_ranges_init(ranges, ranges->most);
}

/* Doubles the memory, up to `most`. */
static void ranges_grow(struct quic_ranges *ranges)
{
    size_t capacity = 2 * (size_t) ranges->capacity;

    if (capacity > ranges->most) {
        capacity = ranges->most;
    }
    bool has_few = ranges->capacity == QUIC_RANGES_FEW;
    struct quic_range *items = realloc(has_few ? NULL : ranges->items, capacity * sizeof(*items));
    if (items == NULL) {
        fatal_no_memory(capacity * sizeof(*items));
    }
    if (has_few) {
        memcpy(items, ranges->few, sizeof(ranges->few));
    }
    ranges->items = items;
    ranges->capacity = (uint32_t) capacity;
}

/* The first range that ends at `number` or later: it has the number, touches it or lies above it.
 * count: none. */
static uint32_t ranges_first_ending_at(const struct quic_ranges *ranges, uint64_t number)
{
    uint32_t low = 0, high = ranges->count;

    if (high != 0 && quic_ranges_at(ranges, high - 1).end < number) {
        return high;
    }
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (quic_ranges_at(ranges, middle).end < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Makes room for one range more at a position. */
static bool ranges_open(struct quic_ranges *ranges, uint32_t position)
{
    if (ranges->count >= ranges->most) {
        return false;
    }
    if (ranges->count == ranges->capacity) {
        ranges_grow(ranges);
    }
    struct quic_range *items = ranges_items(ranges);
    memmove(items + position + 1, items + position, (ranges->count - position) * sizeof(*items));
    ranges->count++;
    return true;
}

/* Takes the ranges from one position up to another out. */
static void ranges_close(struct quic_ranges *ranges, uint32_t from, uint32_t to)
{
    struct quic_range *items = ranges_items(ranges);

    if (from != to) {
        memmove(items + from, items + to, (ranges->count - to) * sizeof(*items));
        ranges->count -= to - from;
    }
}

bool quic_ranges_add(struct quic_ranges *ranges, uint64_t start, uint64_t end)
{
    if (start >= end) {
        return true;
    }
    uint32_t first = ranges_first_ending_at(ranges, start);
    uint32_t after = first;
    while (after < ranges->count && quic_ranges_at(ranges, after).start <= end) {
        after++;
    }
    if (first == after) { /* it touches none */
        if (!ranges_open(ranges, first)) {
            return false;
        }
        ranges_items(ranges)[first] = (struct quic_range){start, end};
        return true;
    }
    struct quic_range *items = ranges_items(ranges);
    items[first].start = start < items[first].start ? start : items[first].start;
    items[first].end = end > items[after - 1].end ? end : items[after - 1].end;
    ranges_close(ranges, first + 1, after);
    return true;
}

bool quic_ranges_remove(struct quic_ranges *ranges, uint64_t start, uint64_t end)
{
    if (start >= end) {
        return true;
    }
    uint32_t first = ranges_first_ending_at(ranges, start + 1);
    struct quic_range *items = ranges_items(ranges);
    if (first < ranges->count && items[first].start < start && items[first].end > end) {
        struct quic_range whole = items[first];
        if (!ranges_open(ranges, first)) {
            return false;
        }
        items = ranges_items(ranges);
        items[first] = (struct quic_range){whole.start, start};
        items[first + 1] = (struct quic_range){end, whole.end};
        return true;
    }
    if (first < ranges->count && items[first].start < start) {
        items[first++].end = start;
    }
    uint32_t after = first;
    while (after < ranges->count && items[after].end <= end) {
        after++;
    }
    if (after < ranges->count && items[after].start < end) {
        items[after].start = end;
    }
    ranges_close(ranges, first, after);
    return true;
}

void quic_ranges_drop_below(struct quic_ranges *ranges, uint64_t number)
{
    if (ranges->count != 0 && quic_ranges_at(ranges, 0).start < number) {
        quic_ranges_remove(ranges, quic_ranges_at(ranges, 0).start, number);
    }
}

void quic_ranges_drop_first(struct quic_ranges *ranges)
{
    if (ranges->count != 0) {
        ranges_close(ranges, 0, 1);
    }
}

bool quic_ranges_has(const struct quic_ranges *ranges, uint64_t number)
{
    uint32_t at = ranges_first_ending_at(ranges, number + 1);

    return at < ranges->count && quic_ranges_at(ranges, at).start <= number;
}

uint64_t quic_ranges_gap(const struct quic_ranges *ranges, uint64_t number)
{
    uint32_t at = ranges_first_ending_at(ranges, number + 1);

    return at < ranges->count && quic_ranges_at(ranges, at).start <= number
               ? quic_ranges_at(ranges, at).end
               : number;
}

uint64_t quic_ranges_next(const struct quic_ranges *ranges, uint64_t number)
{
    uint32_t at = ranges_first_ending_at(ranges, number + 1);

    if (at == ranges->count) {
        return UINT64_MAX;
    }
    uint64_t start = quic_ranges_at(ranges, at).start;
    return start < number ? number : start;
}

void quic_received_init(struct quic_received *received, uint32_t most)
{
    quic_ranges_init(&received->ranges, most);
    received->below = 0;
}

void quic_received_free(struct quic_received *received)
{
    quic_ranges_free(&received->ranges);
}

bool quic_received_has(const struct quic_received *received, uint64_t number)
{
    return number < received->below || quic_ranges_has(&received->ranges, number);
}

void quic_received_add(struct quic_received *received, uint64_t number)
{
    if (number < received->below) {
        return;
    }
    while (!quic_ranges_add(&received->ranges, number, number + 1)) {
        uint64_t lowest_end = quic_ranges_at(&received->ranges, 0).end;
        if (number < lowest_end) { /* lower than all that are kept: it takes the place of none */
            received->below = number + 1;
            return;
        }
        received->below = lowest_end;
        quic_ranges_drop_first(&received->ranges);
    }
}

void quic_received_reported(struct quic_received *received, uint64_t number)
{
    if (number >= received->below) {
        received->below = number + 1;
        quic_ranges_drop_below(&received->ranges, number + 1);
    }
}
