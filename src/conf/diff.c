/* The differences between two configurations, for users. */
#include <stdlib.h>

#include "base/map.h"
#include "conf/conf.h"

enum {
    LEVELS = 3,      /* ways to find the counterpart of a node, from exact to loose */
    TEXT_MOST = 120, /* bytes of a directive that are shown */
};

/* The kinds that the summary counts. */
enum kind { KIND_LISTENER, KIND_SERVER, KIND_LOCATION, KIND_UPSTREAM, KIND_OTHER, KINDS };
static const char *const kind_names[] = {"listeners", "servers", "locations", "upstreams",
                                         "others"};

enum difference { ADDED, REMOVED, CHANGED, DIFFERENCES };

struct diff {
    struct arena arena;
    struct buf *out;
    unsigned counts[KINDS][DIFFERENCES];
    unsigned count;
};

/* A node of one side, and its counterpart on the other. */
struct side {
    const struct conf_node *node;
    struct side *other;
    struct side *next_same; /* the next one with the same key in the block */
    unsigned index;
    bool is_exact; /* the counterpart has the same arguments */
};

/* The nodes of a block. */
struct sides {
    struct side *items;
    unsigned count;
};

static bool is_named(const struct conf_node *node, const char *name)
{
    return node->count != 0 && str_is(node->args[0], name);
}

/* A `server` without arguments: its names and addresses identify it. */
static bool is_server(const struct conf_node *node)
{
    return node->is_block && node->count == 1 && is_named(node, "server");
}

static enum kind kind_of(const struct conf_node *node)
{
    return !node->is_block              ? KIND_OTHER
           : is_server(node)            ? KIND_SERVER
           : is_named(node, "location") ? KIND_LOCATION
           : is_named(node, "upstream") ? KIND_UPSTREAM
                                        : KIND_OTHER;
}

/* ---- keys */

static void put_args(struct buf *out, const struct conf_node *node, unsigned from, unsigned count)
{
    for (unsigned i = from; i < node->count && i < from + count; i++) {
        buf_append(out, node->args[i]);
        buf_append_char(out, '\0');
    }
}

/* Appends the arguments of all directives with this name in a block. */
static void put_inner(struct buf *out, const struct conf_node *block, const char *name)
{
    for (const struct conf_node *node = block->children; node != NULL; node = node->next) {
        if (is_named(node, name)) {
            put_args(out, node, 0, is_named(node, "listen") ? 2 : node->count);
        }
    }
}

/* The key of a node at this level; empty: it has none. */
static struct str key_of(struct diff *diff, const struct conf_node *node, unsigned level)
{
    struct buf text = {0};

    if (is_server(node)) {
        put_args(&text, node, 0, 1);
        if (level != 2) {
            put_inner(&text, node, "server_name");
        }
        if (level != 1) {
            put_inner(&text, node, "listen");
        }
    } else if (level == 0) {
        put_args(&text, node, 0, node->count);
    } else if (!node->is_block && (level == 2 || node->count > 2)) {
        put_args(&text, node, 0, level == 2 ? 1 : 2);
    }
    struct str key = arena_dup(&diff->arena, buf_str(&text));

    buf_free(&text);
    return key;
}

/* ---- counterparts */

static struct sides sides_of(struct diff *diff, const struct conf_node *block)
{
    struct sides sides = {0};
    const struct conf_node *node;
    unsigned index = 0;

    for (node = block->children; node != NULL; node = node->next) {
        sides.count++;
    }
    sides.items = arena_array(&diff->arena, sides.count + 1, sizeof(*sides.items));
    for (node = block->children; node != NULL; node = node->next, index++) {
        sides.items[index] = (struct side){.node = node, .index = index};
    }
    return sides;
}

static void pair_level(struct diff *diff, const struct sides *old, const struct sides *next,
                       unsigned level)
{
    struct map by_key = {0};

    for (unsigned i = old->count; i-- != 0;) {
        struct side *side = &old->items[i];
        struct str key = side->other == NULL ? key_of(diff, side->node, level) : STR_NONE;

        if (key.len != 0) {
            side->next_same = map_put(&by_key, &diff->arena, key, side);
        }
    }
    for (unsigned i = 0; i < next->count; i++) {
        struct side *side = &next->items[i];
        struct str key = side->other == NULL ? key_of(diff, side->node, level) : STR_NONE;
        struct side *found = key.len == 0 ? NULL : map_get(&by_key, key);

        while (found != NULL &&
               (found->other != NULL || found->node->is_block != side->node->is_block)) {
            found = found->next_same;
        }
        if (found != NULL) {
            found->other = side;
            side->other = found;
            side->is_exact = level == 0;
            if (found->next_same != NULL) {
                map_put(&by_key, &diff->arena, key, found->next_same);
            }
        }
    }
}

/* ---- lines */

static void put_indent(struct diff *diff, unsigned depth)
{
    for (unsigned i = 0; i < depth; i++) {
        buf_append(diff->out, STR("    "));
    }
}

/* Writes a directive on one line, without the contents of its braces. */
static void put_text(struct buf *out, const struct conf_node *node, unsigned from)
{
    size_t start = out->len;

    for (unsigned i = from; i < node->count; i++) {
        bool is_code = node->is_code && i + 1 == node->count;
        bool has_quotes =
            !is_code && (node->args[i].len == 0 || str_find_char(node->args[i], ' ') != NULL);

        buf_append(out, i == from ? STR("") : STR(" "));
        buf_append(out, has_quotes ? STR("\"") : STR(""));
        buf_append(out, is_code ? STR("{...}") : node->args[i]);
        buf_append(out, has_quotes ? STR("\"") : STR(""));
    }
    if (out->len - start > TEXT_MOST) {
        out->len = start + TEXT_MOST;
        buf_append(out, STR("..."));
    }
    for (size_t i = start; i < out->len; i++) {
        if ((unsigned char) out->data[i] < ' ' || out->data[i] == 127) {
            out->data[i] = ' ';
        }
    }
}

static void put_names(struct buf *out, const struct conf_node *server)
{
    for (const struct conf_node *node = server->children; node != NULL; node = node->next) {
        if (is_named(node, "listen") || is_named(node, "server_name")) {
            buf_append(out, STR("; "));
            put_text(out, node, 0);
        }
    }
}

static void put_line(struct diff *diff, unsigned depth, char sign, const struct conf_node *node)
{
    put_indent(diff, depth);
    buf_printf(diff->out, "%c ", sign);
    put_text(diff->out, node, 0);
    if (is_server(node)) {
        put_names(diff->out, node);
    }
    buf_printf(diff->out, " (%.*s:%u)\n", STR_ARG(node->file->name), node->line);
}

static void put_changed(struct diff *diff, unsigned depth, const struct conf_node *old,
                        const struct conf_node *next)
{
    put_indent(diff, depth);
    buf_append(diff->out, STR("~ "));
    put_text(diff->out, old, 0);
    buf_append(diff->out, STR(" -> "));
    put_text(diff->out, next, next->count > 1 ? 1 : 0);
    buf_printf(diff->out, " (%.*s:%u)\n", STR_ARG(next->file->name), next->line);
}

/* Counts a block that was added or removed, with the blocks in it. */
static void count_all(struct diff *diff, const struct conf_node *node, enum difference difference)
{
    diff->counts[kind_of(node)][difference]++;
    for (const struct conf_node *child = node->children; child != NULL; child = child->next) {
        if (child->is_block) {
            count_all(diff, child, difference);
        }
    }
}

static void put_one(struct diff *diff, unsigned depth, const struct conf_node *node,
                    enum difference difference)
{
    put_line(diff, depth, difference == ADDED ? '+' : '-', node);
    count_all(diff, node, difference);
    diff->count++;
}

/* ---- blocks */

/* Reports directives of one name that are equal on both sides, but in another order. */
static void put_order(struct diff *diff, unsigned depth, const struct sides *sides)
{
    struct map last = {0};

    for (unsigned i = 0; i < sides->count; i++) {
        const struct side *side = &sides->items[i];

        if (side->other == NULL || !side->is_exact) {
            continue;
        }
        struct str name = side->node->args[0];
        const struct side *before = map_put(&last, &diff->arena, name, side->other);

        if (before != NULL && before->index > side->other->index) {
            put_indent(diff, depth);
            buf_printf(diff->out, "~ another order of \"%.*s\" (%.*s:%u)\n", STR_ARG(name),
                       STR_ARG(side->node->file->name), side->node->line);
            diff->counts[KIND_OTHER][CHANGED]++;
            diff->count++;
            return;
        }
    }
}

static void compare_blocks(struct diff *diff, const struct conf_node *old,
                           const struct conf_node *next, unsigned depth);

static void compare_pair(struct diff *diff, const struct side *next, unsigned depth)
{
    const struct conf_node *former = next->other->node;

    if (!next->node->is_block) {
        if (!next->is_exact) {
            put_changed(diff, depth, former, next->node);
            diff->counts[KIND_OTHER][CHANGED]++;
            diff->count++;
        }
        return;
    }
    unsigned count = diff->count;
    size_t start = diff->out->len;

    put_line(diff, depth, '~', next->node);
    compare_blocks(diff, former, next->node, depth + 1);
    if (diff->count == count) {
        diff->out->len = start;
    } else if (kind_of(next->node) != KIND_OTHER) {
        diff->counts[kind_of(next->node)][CHANGED]++;
    }
}

static void compare_blocks(struct diff *diff, const struct conf_node *old,
                           const struct conf_node *next, unsigned depth)
{
    const struct sides before = sides_of(diff, old), after = sides_of(diff, next);

    for (unsigned level = 0; level < LEVELS; level++) {
        pair_level(diff, &before, &after, level);
    }
    for (unsigned i = 0; i < after.count; i++) {
        if (after.items[i].other == NULL) {
            put_one(diff, depth, after.items[i].node, ADDED);
        } else {
            compare_pair(diff, &after.items[i], depth);
        }
    }
    for (unsigned i = 0; i < before.count; i++) {
        if (before.items[i].other == NULL) {
            put_one(diff, depth, before.items[i].node, REMOVED);
        }
    }
    put_order(diff, depth, &after);
}

/* ---- listeners */

/* "80" is "*:80". */
static struct str address_of(struct diff *diff, struct str word)
{
    for (size_t i = 0; i < word.len; i++) {
        if (!ascii_is_digit((unsigned char) word.data[i])) {
            return word;
        }
    }
    return arena_printf(&diff->arena, "*:%.*s", STR_ARG(word));
}

static void add_listener(struct diff *diff, struct map *found, const struct conf_node *node)
{
    struct str address = address_of(diff, node->args[1]);
    const struct conf_node *known = map_get(found, address);

    if (known == NULL ||
        known->count < node->count) { /* of several `listen` lines, the one with most parameters */
        map_put(found, &diff->arena, address, (void *) node);
    }
}

static void find_listeners(struct diff *diff, struct map *found, const struct conf_node *block)
{
    for (const struct conf_node *node = block->children; node != NULL; node = node->next) {
        if (node->is_block && !is_named(node, "location")) {
            find_listeners(diff, found, node);
        } else if (is_named(node, "listen") && node->count > 1 && is_server(block)) {
            add_listener(diff, found, node);
        }
    }
}

static int compare_keys(const void *a, const void *b)
{
    return str_compare(*(const struct str *) a, *(const struct str *) b);
}

static bool has_same_options(const struct conf_node *a, const struct conf_node *b)
{
    bool is_same = a->count == b->count;

    for (unsigned i = 2; is_same && i < a->count; i++) {
        is_same = str_equal(a->args[i], b->args[i]);
    }
    return is_same;
}

/* Reports the listeners of one map that the other does not have, or has with other parameters. */
static void put_listeners(struct diff *diff, const struct map *of, const struct map *other,
                          enum difference difference)
{
    struct vec keys = {0};

    map_each(slot, of) {
        *vec_add(&keys, &diff->arena, struct str) = slot->key;
    }
    if (keys.count != 0) {
        qsort(keys.items, keys.count, sizeof(struct str), compare_keys);
    }
    for (size_t i = 0; i < keys.count; i++) {
        struct str key = *vec_at(&keys, struct str, i);
        const struct conf_node *node = map_get(of, key), *former = map_get(other, key);
        bool is_shown = difference == CHANGED ? former != NULL && !has_same_options(node, former)
                                              : former == NULL;

        if (is_shown) {
            buf_printf(diff->out, "    %c ", "+-~"[difference]);
            put_text(diff->out, node, 1);
            buf_append_char(diff->out, '\n');
            diff->counts[KIND_LISTENER][difference]++;
            diff->count++;
        }
    }
}

static void compare_listeners(struct diff *diff, const struct conf *old, const struct conf *next)
{
    struct map before = {0}, after = {0};
    size_t start = diff->out->len;
    unsigned count = diff->count;

    find_listeners(diff, &before, old->root);
    find_listeners(diff, &after, next->root);
    buf_append(diff->out, STR("listeners:\n"));
    put_listeners(diff, &after, &before, ADDED);
    put_listeners(diff, &before, &after, REMOVED);
    put_listeners(diff, &after, &before, CHANGED);
    if (diff->count == count) {
        diff->out->len = start;
    }
}

unsigned conf_diff(const struct conf *old, const struct conf *next, struct buf *out)
{
    struct diff diff = {.out = out};

    arena_init(&diff.arena);
    compare_listeners(&diff, old, next);
    size_t start = out->len;
    unsigned count = diff.count;

    buf_append(out, STR("directives:\n"));
    compare_blocks(&diff, old->root, next->root, 1);
    if (diff.count == count) {
        out->len = start;
    }
    if (diff.count != 0) {
        buf_append(out, STR("summary:"));
        for (unsigned kind = 0; kind < KINDS; kind++) {
            const unsigned *counts = diff.counts[kind];

            buf_printf(out, "%s %s +%u -%u ~%u", kind == 0 ? "" : ",", kind_names[kind],
                       counts[ADDED], counts[REMOVED], counts[CHANGED]);
        }
        buf_append_char(out, '\n');
    }
    arena_free(&diff.arena);
    return diff.count;
}
