/* An automaton of patterns, and the search with it: the leftmost match, then the first pattern. */
#include "http/modules/filters/sub/search.h"

#include "base/buf.h"

#define NO_PATTERN SEARCH_PATTERNS_MAX

/* A prefix of one or more patterns. The children of a node are a list; number 0 is the root, and as
 * a child, brother or link it means none. */
struct node {
    uint32_t depth;   /* length in bytes */
    uint32_t child;   /* first of the nodes that are one byte longer */
    uint32_t brother; /* next child of the same parent */
    uint32_t fail;    /* the longest node that is a proper suffix of this one */
    uint32_t
        match; /* the longest node that is a suffix of this one, or itself, and a whole pattern */
    uint8_t byte;    /* its last byte, in lower case */
    uint8_t pattern; /* lowest number of a pattern equal to this prefix, or NO_PATTERN */
    uint8_t below;   /* lowest number of a longer pattern with this prefix, or NO_PATTERN */
};

struct search_set {
    struct node *nodes;
    struct buf buffer;   /* of nodes, during construction: most patterns share prefixes */
    uint32_t count;      /* of nodes */
    uint32_t longest;    /* bytes of the longest pattern */
    unsigned patterns;   /* patterns that are not empty */
    uint64_t empty[4];   /* bit n: pattern n is empty */
    uint32_t roots[256]; /* child of the root by byte, in either case; 0 = none */
    uint8_t next_same[SEARCH_PATTERNS_MAX]; /* the next pattern equal to this one, or NO_PATTERN */
};

/* ---- the automaton ---- */

static uint32_t find_child(const struct search_set *set, uint32_t node, uint8_t byte)
{
    if (node == 0) {
        return set->roots[byte];
    }
    uint32_t child = set->nodes[node].child;
    while (child != 0 && set->nodes[child].byte != byte) {
        child = set->nodes[child].brother;
    }
    return child;
}

static uint32_t add_child(struct search_set *set, uint32_t parent, uint8_t byte)
{
    uint32_t number = set->count++;
    struct node *nodes =
        (struct node *) (void *) (buf_reserve(&set->buffer, sizeof(struct node)) - set->buffer.len);

    set->nodes = nodes;
    set->buffer.len += sizeof(struct node);
    nodes[number] = (struct node){
        .depth = nodes[parent].depth + 1,
        .brother = nodes[parent].child,
        .byte = byte,
        .pattern = NO_PATTERN,
        .below = NO_PATTERN,
    };
    nodes[parent].child = number;
    if (parent == 0) {
        set->roots[byte] = number;
        if (byte >= 'a' && byte <= 'z') {
            set->roots[byte - 'a' + 'A'] = number;
        }
    }
    return number;
}

static void add_pattern(struct search_set *set, struct str text, unsigned number)
{
    uint32_t at = 0;

    set->next_same[number] = NO_PATTERN;
    if (text.len == 0) {
        set->empty[number / 64] |= (uint64_t) 1 << number % 64;
        return;
    }
    set->patterns++;
    for (size_t i = 0; i < text.len; i++) {
        uint8_t byte = ascii_lower((unsigned char) text.data[i]);
        uint32_t child = find_child(set, at, byte);

        if (number < set->nodes[at].below) {
            set->nodes[at].below = (uint8_t) number;
        }
        at = child != 0 ? child : add_child(set, at, byte);
    }
    if (set->nodes[at].depth > set->longest) {
        set->longest = set->nodes[at].depth;
    }
    if (set->nodes[at].pattern == NO_PATTERN) {
        set->nodes[at].pattern = (uint8_t) number;
        return;
    }
    unsigned same = set->nodes[at].pattern;
    while (set->next_same[same] != NO_PATTERN) {
        same = set->next_same[same];
    }
    set->next_same[same] = (uint8_t) number;
}

/* The child of `node` for this byte, or that of its longest suffix that has one. */
static uint32_t search_step(const struct search_set *set, uint32_t node, uint8_t byte)
{
    uint32_t child;

    while ((child = find_child(set, node, byte)) == 0 && node != 0) {
        node = set->nodes[node].fail;
    }
    return child;
}

/* Sets the fail links level by level: those of a node are shorter, so they are known when they are
 * needed. */
static void link_nodes(struct search_set *set, uint32_t *queue)
{
    struct node *nodes = set->nodes;
    uint32_t head = 0;
    uint32_t tail = 0;

    queue[tail++] = 0;
    while (head < tail) {
        uint32_t parent = queue[head++];

        for (uint32_t number = nodes[parent].child; number != 0; number = nodes[number].brother) {
            struct node *node = &nodes[number];

            node->fail = parent == 0 ? 0 : search_step(set, nodes[parent].fail, node->byte);
            node->match = node->pattern != NO_PATTERN ? number : nodes[node->fail].match;
            queue[tail++] = number;
        }
    }
}

struct search_set *search_set_make(struct arena *arena, const struct str *patterns, unsigned count)
{
    struct search_set *set = arena_new(arena, struct search_set);
    const struct node root = {.pattern = NO_PATTERN, .below = NO_PATTERN};
    struct arena scratch;

    buf_append(&set->buffer, (struct str){(const char *) &root, sizeof(root)});
    set->nodes = (struct node *) (void *) set->buffer.data;
    set->count = 1;
    for (unsigned i = 0; i < count; i++) {
        add_pattern(set, patterns[i], i);
    }
    set->nodes = arena_array(arena, set->count, sizeof(struct node));
    memcpy(set->nodes, set->buffer.data, set->buffer.len);
    buf_free(&set->buffer);
    arena_init(&scratch);
    link_nodes(set, arena_array(&scratch, set->count, sizeof(uint32_t)));
    arena_free(&scratch);
    return set;
}

unsigned search_set_count(const struct search_set *set)
{
    return set->patterns;
}

/* ---- the search ---- */

void search_begin(struct search *search, struct arena *arena, const struct search_set *set)
{
    *search = (struct search){.set = set, .left = set->patterns, .best = NO_PATTERN};
    memcpy(search->dropped, set->empty, sizeof(search->dropped));
    search->held = arena_text(arena, set->longest);
}

void search_feed(struct search *search, struct str piece, bool is_last)
{
    search->piece = piece;
    search->is_last = is_last;
}

static bool is_dropped(const struct search *search, unsigned pattern)
{
    return (search->dropped[pattern / 64] & (uint64_t) 1 << pattern % 64) != 0;
}

void search_drop(struct search *search, unsigned pattern)
{
    if (!is_dropped(search, pattern)) {
        search->dropped[pattern / 64] |= (uint64_t) 1 << pattern % 64;
        search->left--;
    }
}

/* Notes the first pattern still searched for that ends at `at`; the longest one begins first. */
static void note_match(struct search *search)
{
    const struct node *nodes = search->set->nodes;

    for (uint32_t node = nodes[search->node].match; node != 0;
         node = nodes[nodes[node].fail].match) {
        unsigned pattern = nodes[node].pattern;
        size_t start = search->at - nodes[node].depth;

        while (pattern != NO_PATTERN && is_dropped(search, pattern)) {
            pattern = search->set->next_same[pattern];
        }
        if (pattern == NO_PATTERN) {
            continue;
        }
        if (search->best == NO_PATTERN || start < search->best_start ||
            (start == search->best_start && pattern < search->best)) {
            search->best = pattern;
            search->best_start = start;
            search->best_end = search->at;
        }
        return;
    }
}

/* Is it certain that no later match begins before the best one, or at the same byte with an earlier
 * pattern? */
static bool is_final(const struct search *search)
{
    const struct node *node = &search->set->nodes[search->node];
    size_t start = search->at - node->depth;

    return search->best_start < start ||
           (search->best_start == start && node->below >= search->best);
}

/* The first byte with which a pattern can begin, or the end. */
static const unsigned char *skip_to_root(const struct search_set *set, const unsigned char *at,
                                         const unsigned char *end)
{
    const uint32_t *roots = set->roots;

    while (end - at >= 8 && (roots[at[0]] | roots[at[1]] | roots[at[2]] | roots[at[3]] |
                             roots[at[4]] | roots[at[5]] | roots[at[6]] | roots[at[7]]) == 0) {
        at += 8;
    }
    while (at < end && roots[*at] == 0) {
        at++;
    }
    return at;
}

/* The first position at which a pattern can begin, judged by two bytes, or the end. */
static const unsigned char *skip(const struct search_set *set, const unsigned char *at,
                                 const unsigned char *end)
{
    for (at = skip_to_root(set, at, end); end - at >= 2; at = skip_to_root(set, at + 1, end)) {
        uint32_t root = set->roots[*at];

        if (set->nodes[root].pattern != NO_PATTERN ||
            find_child(set, root, ascii_lower(at[1])) != 0) {
            return at;
        }
    }
    return at;
}

/* Scans one part of the window, whose first byte is at search->at. */
static void scan_part(struct search *search, struct str part)
{
    const struct search_set *set = search->set;
    const unsigned char *at = (const unsigned char *) part.data;
    const unsigned char *end = at + part.len;

    while (at < end) {
        if (search->node == 0) {
            const unsigned char *start = at;
            at = skip(set, at, end);
            search->at += (size_t) (at - start);
            if (at == end) {
                return;
            }
        }
        search->node = search_step(set, search->node, ascii_lower(*at));
        search->at++;
        at++;
        if (set->nodes[search->node].match != 0) {
            note_match(search);
        }
        if (search->best != NO_PATTERN && is_final(search)) {
            search->is_best_final = true;
            return;
        }
    }
}

static size_t window_length(const struct search *search)
{
    return search->held_len + search->piece.len;
}

/* The bytes of the window from `from` up to `to`, as far as they are contiguous. */
static struct str part_of(const struct search *search, size_t from, size_t to)
{
    if (from < search->held_len) {
        size_t end = to < search->held_len ? to : search->held_len;
        return (struct str){search->held + from, end - from};
    }
    return (struct str){search->piece.data + (from - search->held_len), to - from};
}

/* Scans until a match is final or the window ends. */
static void scan(struct search *search)
{
    size_t end = window_length(search);

    if (search->left == 0) {
        search->at = end;
        search->node = 0;
        return;
    }
    while (search->at < end && !search->is_best_final) {
        scan_part(search, part_of(search, search->at, end));
    }
    if (search->at == end && search->is_last && search->best != NO_PATTERN) {
        search->is_best_final = true;
    }
}

/* Copies the bytes of the piece from `from` on, at most as many as the longest pattern has, because
 * the piece will be gone. */
static void search_hold(struct search *search)
{
    size_t end = window_length(search);
    size_t in_held = search->from < search->held_len ? search->held_len - search->from : 0;
    size_t in_piece = end - search->from - in_held;

    if (in_held != 0) {
        memmove(search->held, search->held + search->from, in_held);
    }
    if (in_piece != 0) {
        memcpy(search->held + in_held, search->piece.data + (search->piece.len - in_piece),
               in_piece);
    }
    search->held_len = in_held + in_piece;
    search->at -= search->from;
    if (search->best != NO_PATTERN) {
        search->best_start -= search->from;
        search->best_end -= search->from;
    }
    search->from = 0;
    search->piece = STR_NONE;
}

/* The bytes before this position certainly belong to no match. */
static size_t decided(const struct search *search)
{
    if (search->is_best_final) {
        return search->best_start;
    }
    return search->is_last ? search->at : search->at - search->set->nodes[search->node].depth;
}

enum search_event search_next(struct search *search, struct str *text, unsigned *pattern)
{
    if (!search->is_best_final) {
        scan(search);
    }
    size_t to = decided(search);
    if (search->from < to) {
        *text = part_of(search, search->from, to);
        search->from += text->len;
        return SEARCH_TEXT;
    }
    if (!search->is_best_final) {
        search_hold(search);
        return SEARCH_MORE;
    }
    *pattern = search->best;
    search->from = search->best_end;
    search->at = search->best_end; /* bytes after the match are scanned again */
    search->node = 0;
    search->best = NO_PATTERN;
    search->is_best_final = false;
    return SEARCH_MATCH;
}
