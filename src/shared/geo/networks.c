/* Sorts networks, and computes which line holds for each address. */
#include "shared/geo/networks.h"

#include <stdlib.h>

void geo_networks_add(struct geo_networks *networks, const struct geo_network *line)
{
    *vec_add(&networks->lines, networks->arena, struct geo_network) = *line;
}

/* Order: by first address, outer networks before inner ones, lines of the same network in file
   order. */
static int compare_networks(const void *a, const void *b)
{
    const struct geo_network *one = a;
    const struct geo_network *other = b;
    int order = geo_address_compare(one->first, other->first);

    if (order == 0) {
        order = (int) one->bits - (int) other->bits;
    }
    if (order == 0) {
        order = one->node->order < other->node->order ? -1 : 1;
    }
    return order;
}

static bool networks_is_same(const struct geo_network *a, const struct geo_network *b)
{
    return a->bits == b->bits && geo_address_compare(a->first, b->first) == 0;
}

static struct str written(const struct geo_network *line)
{
    return line->node->args[line->is_deleted ? 1 : 0];
}

/* Goes through the lines of one network, and gives the one that is in effect, or NULL. */
static const struct geo_network *settle_network(struct conf *conf, const struct geo_network *line,
                                                const struct geo_network *end,
                                                const struct str *values)
{
    const struct geo_network *holds = NULL;

    for (; line < end; line++) {
        if (line->is_deleted && holds == NULL) {
            conf_warn(conf, line->node, "no network \"%.*s\" to delete", STR_ARG(written(line)));
        } else if (!line->is_deleted && holds != NULL) {
            conf_warn(conf, line->node,
                      "duplicate network \"%.*s\", value: \"%.*s\", old value: \"%.*s\"",
                      STR_ARG(written(line)), STR_ARG(values[line->value]),
                      STR_ARG(values[holds->value]));
        }
        holds = line->is_deleted ? NULL : line;
    }
    return holds;
}

/* Removes lines that are not in effect. */
static size_t settle_all(struct geo_networks *networks, struct conf *conf, const struct str *values)
{
    struct geo_network *lines = networks->lines.items;
    size_t count = networks->lines.count;
    size_t kept = 0;

    for (size_t i = 0, end; i < count; i = end) {
        end = i + 1;
        while (end < count && networks_is_same(&lines[i], &lines[end])) {
            end++;
        }
        const struct geo_network *holds = settle_network(conf, &lines[i], &lines[end], values);
        if (holds != NULL) {
            lines[kept++] = *holds;
        }
    }
    return kept;
}

/* The first address after a network; false when there is none. */
static bool address_behind(const struct geo_network *network, unsigned width,
                           struct geo_address *out)
{
    unsigned host_bits = width - network->bits;

    *out = network->first;
    if (host_bits >= 64) {
        if (host_bits == 128) {
            return false;
        }
        out->high += (uint64_t) 1 << (host_bits - 64);
        return out->high != 0;
    }
    out->low += (uint64_t) 1 << host_bits;
    if (width == 32) {
        return out->low <= UINT32_MAX;
    }
    out->high += out->low == 0;
    return out->low != 0 || out->high != 0;
}

/* The spans so far, and the networks that contain the current address, outer ones first. */
struct sweep {
    struct geo_span *spans;
    size_t count;
    unsigned width;
    unsigned depth;
    const struct geo_network *open[129]; /* each with a different prefix length */
};

/* Starts a span with this value; replaces one that starts at the same address. */
static void begin_span(struct sweep *sweep, struct geo_address first, uint32_t value)
{
    if (sweep->count != 0 &&
        geo_address_compare(sweep->spans[sweep->count - 1].first, first) == 0) {
        sweep->count--;
    }
    sweep->spans[sweep->count++] = (struct geo_span){first, value};
}

/* Closes the networks that end at this address or before; all when it is NULL. */
static void close_until(struct sweep *sweep, const struct geo_address *address)
{
    struct geo_address behind;

    while (sweep->depth != 0) {
        bool ends = address_behind(sweep->open[sweep->depth - 1], sweep->width, &behind);

        if (address != NULL && (!ends || geo_address_compare(behind, *address) > 0)) {
            return;
        }
        sweep->depth--;
        if (ends) {
            begin_span(sweep, behind, sweep->depth == 0 ? 0 : sweep->open[sweep->depth - 1]->value);
        }
    }
}

struct geo_span *geo_networks_spans(struct geo_networks *networks, struct conf *conf,
                                    const struct str *values, size_t *count)
{
    const struct geo_network *lines = networks->lines.items;
    struct sweep sweep = {.width = networks->width};

    if (networks->lines.count != 0) {
        qsort(networks->lines.items, networks->lines.count, sizeof(*lines), compare_networks);
    }
    size_t kept = settle_all(networks, conf, values);
    sweep.spans = arena_array(networks->arena, 2 * kept + 1, sizeof(struct geo_span));
    begin_span(&sweep, (struct geo_address){0, 0}, 0);
    for (size_t i = 0; i < kept; i++) {
        close_until(&sweep, &lines[i].first);
        begin_span(&sweep, lines[i].first, lines[i].value);
        sweep.open[sweep.depth++] = &lines[i];
    }
    close_until(&sweep, NULL);
    *count = sweep.count;
    return sweep.spans;
}
