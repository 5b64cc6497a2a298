/* The tree of spans: building and searching it. */
#include "shared/geo/table.h"

struct geo_address geo_address_of(const unsigned char *bytes, size_t size)
{
    struct geo_address address = {0, 0};

    for (size_t i = 0; i < size; i++) {
        address.high = address.high << 8 | address.low >> 56;
        address.low = address.low << 8 | bytes[i];
    }
    return address;
}

/* ---- building ---- */

static size_t join_equal(struct geo_span *spans, size_t count)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || spans[kept - 1].value != spans[i].value) {
            spans[kept++] = spans[i];
        }
    }
    return kept;
}

/* Allocates whole nodes, aligned to cache lines. Keys after the last one of a level are never
 * read. */
static void *new_keys(struct arena *arena, size_t count, size_t key_size)
{
    char *memory = arena_alloc(arena, count * key_size + 63);

    return memory + (-(uintptr_t) memory & 63);
}

/* Every step-th span. */
struct span_steps {
    const struct geo_span *spans;
    size_t step;
    size_t count; /* number of these */
};

static void make_level(struct geo_tree *tree, struct arena *arena, struct span_steps steps,
                       bool is_v6)
{
    const struct geo_span *spans = steps.spans;
    size_t step = steps.step;
    size_t count = steps.count;
    void *keys = new_keys(arena, count, is_v6 ? sizeof(struct geo_address) : sizeof(uint32_t));

    for (size_t i = 0; i < count; i++) {
        if (is_v6) {
            ((struct geo_address *) keys)[i] = spans[i * step].first;
        } else {
            ((uint32_t *) keys)[i] = (uint32_t) spans[i * step].first.low;
        }
    }
    tree->levels[tree->depth] = keys;
    tree->counts[tree->depth++] = count;
}

void geo_tree_make(struct geo_tree *tree, struct arena *arena, struct geo_span *spans, size_t count,
                   bool is_v6)
{
    size_t step = 1;

    count = join_equal(spans, count);
    tree->depth = 0;
    if (count == 0) {
        return;
    }
    uint32_t *values = arena_array(arena, count, sizeof(*values));
    for (size_t i = 0; i < count; i++) {
        values[i] = spans[i].value;
    }
    tree->values = values;
    make_level(tree, arena, (struct span_steps){spans, step, count}, is_v6);
    while (tree->counts[tree->depth - 1] > GEO_FAN_OUT && tree->depth < GEO_LEVELS_MAX) {
        step *= GEO_FAN_OUT;
        make_level(tree, arena, (struct span_steps){spans, step, (count + step - 1) / step}, is_v6);
    }
}

/* ---- searching ---- */

/* Number of keys in a node: the last node of a level may have fewer. */
static size_t node_size(const struct geo_tree *tree, unsigned level, size_t start)
{
    size_t left = tree->counts[level] - start;

    return left < GEO_FAN_OUT ? left : GEO_FAN_OUT;
}

/* Counts the keys of a full node that are not above the address; the compiler vectorises the
 * loop. */
static size_t count_whole(const uint32_t *keys, uint32_t address)
{
    uint32_t below = 0;

    for (unsigned i = 0; i < GEO_FAN_OUT; i++) {
        below += keys[i] <= address;
    }
    return below;
}

static size_t count_some(const uint32_t *keys, size_t count, uint32_t address)
{
    size_t below = 0;

    for (size_t i = 0; i < count; i++) {
        below += keys[i] <= address;
    }
    return below;
}

/* Takes the last key of each node that is not above the address. The first key never is above it,
 * because of the node on the level above. */
uint32_t geo_tree_find_v4(const struct geo_tree *tree, uint32_t address)
{
    size_t at = 0;

    if (tree->depth == 0) {
        return 0;
    }
    for (unsigned level = tree->depth; level-- > 0;) {
        const uint32_t *keys = (const uint32_t *) tree->levels[level] + at * GEO_FAN_OUT;
        size_t count = node_size(tree, level, at * GEO_FAN_OUT);
        size_t below =
            count == GEO_FAN_OUT ? count_whole(keys, address) : count_some(keys, count, address);

        at = at * GEO_FAN_OUT + below - 1;
    }
    return tree->values[at];
}

uint32_t geo_tree_find_v6(const struct geo_tree *tree, struct geo_address address)
{
    size_t at = 0;

    if (tree->depth == 0) {
        return 0;
    }
    for (unsigned level = tree->depth; level-- > 0;) {
        const struct geo_address *keys =
            (const struct geo_address *) tree->levels[level] + at * GEO_FAN_OUT;
        size_t from = 0;
        size_t to = node_size(tree, level, at * GEO_FAN_OUT);

        while (to - from > 1) {
            size_t middle = (from + to) / 2;
            if (geo_address_compare(keys[middle], address) <= 0) {
                from = middle;
            } else {
                to = middle;
            }
        }
        at = at * GEO_FAN_OUT + from;
    }
    return tree->values[at];
}
