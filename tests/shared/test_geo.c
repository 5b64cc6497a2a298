/* Tests of geo's tables: networks and ranges against a search line by line. */
#include "base/unit.h"

#include <stdlib.h>

#include "shared/geo/networks.h"
#include "shared/geo/ranges.h"

static struct arena arena;
static struct conf conf;
static struct conf_node nodes[3000];

static int set_up(void **state)
{
    arena_init(&arena);
    conf = (struct conf){.arena = &arena};
    srandom(7);
    return 0;
}

static int tear_down(void **state)
{
    arena_free(&arena);
    return 0;
}

static struct geo_address masked(struct geo_address address, unsigned bits, unsigned width)
{
    unsigned host_bits = width - bits;

    if (host_bits >= 64) {
        address.low = 0;
        address.high = host_bits == 128 ? 0 : address.high >> (host_bits - 64) << (host_bits - 64);
    } else {
        address.low = address.low >> host_bits << host_bits;
    }
    return address;
}

/* Few upper bits differ, so that networks lie within each other. */
static struct geo_address random_address(unsigned width)
{
    struct geo_address address = {0, (uint32_t) random() & 0x8c00ff0fu};

    if (width == 128) {
        address.high = (uint64_t) (random() & 0xf) << 60 | (uint64_t) (random() & 1);
        address.low |= (uint64_t) (random() & 1) << 63;
    }
    return address;
}

static uint32_t look(const struct geo_network *lines, size_t count, struct geo_address address,
                     unsigned width)
{
    int best = -1;
    uint32_t value = 0;

    for (size_t i = 0; i < count; i++) {
        if (geo_address_compare(masked(address, lines[i].bits, width), lines[i].first) == 0 &&
            (int) lines[i].bits >= best) {
            best = lines[i].bits;
            value = lines[i].value;
        }
    }
    return value;
}

static uint32_t find(const struct geo_tree *tree, struct geo_address address, unsigned width)
{
    return width == 32 ? geo_tree_find_v4(tree, (uint32_t) address.low)
                       : geo_tree_find_v6(tree, address);
}

static void try_networks(unsigned width, size_t count)
{
    struct geo_networks networks = {.arena = &arena, .width = width};
    struct geo_tree tree;
    struct geo_network *lines = arena_array(&arena, count, sizeof(*lines));
    struct str *values = arena_array(&arena, count + 1, sizeof(*values));
    static struct str word = STR_INIT("net");
    size_t span_count;

    for (size_t i = 0; i < count; i++) {
        unsigned bits = (unsigned) random() % (width + 1);

        nodes[i] = (struct conf_node){.args = &word, .count = 1, .order = (unsigned) i};
        lines[i] = (struct geo_network){.first = masked(random_address(width), bits, width),
                                        .node = &nodes[i],
                                        .value = (uint32_t) i + 1,
                                        .bits = (uint8_t) bits};
        geo_networks_add(&networks, &lines[i]);
    }
    struct geo_span *spans = geo_networks_spans(&networks, &conf, values, &span_count);
    assert_in_range(span_count, 1, 2 * count + 1);
    geo_tree_make(&tree, &arena, spans, span_count, width == 128);
    for (size_t i = 0; i < 2000; i++) {
        struct geo_address address = random_address(width);
        assert_int_equal(find(&tree, address, width), look(lines, count, address, width));
    }
    for (size_t i = 0; i < count; i++) { /* both ends of each network */
        struct geo_address last = lines[i].first;
        struct geo_address host = masked((struct geo_address){-1, -1}, lines[i].bits, width);
        last.high |= width == 128 ? ~host.high : 0;
        last.low |= width == 128 ? ~host.low : (uint32_t) ~host.low;
        assert_int_equal(find(&tree, lines[i].first, width),
                         look(lines, count, lines[i].first, width));
        assert_int_equal(find(&tree, last, width), look(lines, count, last, width));
    }
}

static void the_longest_prefix_wins(void **state)
{
    for (size_t count = 0; count < 40; count++) {
        try_networks(32, count);
        try_networks(128, count);
    }
    try_networks(32, 3000);
    try_networks(128, 3000);
}

/* Ranges of a small world, against an array of it. */
#define WORLD 4096

static void ranges_cut_each_other_as_an_array_says(void **state)
{
    static uint32_t world[WORLD];
    struct geo_ranges ranges = {.arena = &arena};
    struct geo_tree tree;
    size_t count;
    unsigned outcomes[3] = {0};

    memset(world, 0, sizeof(world));
    for (uint32_t n = 1; n < 20000; n++) {
        uint32_t first = (uint32_t) random() % WORLD;
        uint32_t last = first + (uint32_t) random() % (n % 16 == 0 ? 1000 : 3);
        struct geo_range range = {first, last < WORLD ? last : WORLD - 1, n};
        struct geo_range other;
        bool is_one = true; /* one range has all of it, or none any of it */

        for (uint32_t at = range.first; at <= range.last; at++) {
            is_one &= world[at] == world[range.first];
        }
        enum geo_put outcome = geo_ranges_put(&ranges, range, &other);
        outcomes[outcome]++;
        if (outcome == GEO_OVERLAPS) {
            assert_true(other.first <= range.last && range.first <= other.last);
            assert_false(is_one && world[range.first] == 0);
            continue;
        }
        assert_true(is_one);
        for (uint32_t at = range.first; at <= range.last; at++) {
            world[at] = n;
        }
        if (n % 5 == 0) {
            assert_true(geo_ranges_delete(&ranges, range.first, range.last));
            memset(&world[range.first], 0, (range.last - range.first + 1) * sizeof(*world));
        }
    }
    assert_true(outcomes[GEO_PUT] > 0 && outcomes[GEO_REPLACED] > 0 && outcomes[GEO_OVERLAPS] > 0);
    struct geo_span *spans = geo_ranges_spans(&ranges, 0, &count);
    geo_tree_make(&tree, &arena, spans, count, false);
    for (uint32_t at = 0; at < WORLD; at++) {
        assert_int_equal(geo_tree_find_v4(&tree, at), world[at]);
    }
    assert_int_equal(geo_tree_find_v4(&tree, WORLD), 0);
    assert_int_equal(geo_tree_find_v4(&tree, UINT32_MAX), 0);
}

static void only_ranges_that_are_there_are_deleted(void **state)
{
    struct geo_ranges ranges = {.arena = &arena};
    struct geo_range other;

    assert_false(geo_ranges_delete(&ranges, 0, UINT32_MAX));
    geo_ranges_put(&ranges, (struct geo_range){10, 0x3ffff, 1}, &other);
    assert_false(geo_ranges_delete(&ranges, 11, 20));
    assert_false(geo_ranges_delete(&ranges, 10, 0x40000));
    assert_true(geo_ranges_delete(&ranges, 0x10000, 0x1ffff)); /* a piece as nginx keeps them */
    assert_int_equal(ranges.count, 2);
    assert_true(geo_ranges_delete(&ranges, 10, 0xffff));
    assert_true(geo_ranges_delete(&ranges, 0x20000, 0x3ffff));
    assert_int_equal(ranges.count, 0);
}

static void the_ends_of_all_addresses(void **state)
{
    struct geo_ranges ranges = {.arena = &arena};
    struct geo_range other;
    struct geo_tree tree;
    size_t count;

    geo_ranges_put(&ranges, (struct geo_range){0, UINT32_MAX, 1}, &other);
    geo_ranges_put(&ranges, (struct geo_range){UINT32_MAX, UINT32_MAX, 2}, &other);
    geo_ranges_put(&ranges, (struct geo_range){0, 0, 3}, &other);
    struct geo_span *spans = geo_ranges_spans(&ranges, 9, &count);
    geo_tree_make(&tree, &arena, spans, count, false);
    assert_int_equal(geo_tree_find_v4(&tree, 0), 3);
    assert_int_equal(geo_tree_find_v4(&tree, 1), 1);
    assert_int_equal(geo_tree_find_v4(&tree, UINT32_MAX - 1), 1);
    assert_int_equal(geo_tree_find_v4(&tree, UINT32_MAX), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_longest_prefix_wins, set_up, tear_down),
        cmocka_unit_test_setup_teardown(ranges_cut_each_other_as_an_array_says, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_ranges_that_are_there_are_deleted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_ends_of_all_addresses, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
