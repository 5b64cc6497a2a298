/*
 * Lists of regular expressions of which the first match is wanted. Two cheap tests find the
 * candidates: a table of the literal strings that patterns require and, for patterns that require
 * none, one scan by vectorscan where it is built in. PCRE2 confirms the candidates, in order.
 */
#include "config.h"

#include <stdlib.h>
#include <time.h>
#ifdef HAVE_VECTORSCAN
#include <hs/hs.h>
#endif

#include "base/fatal.h"
#include "conf/internal.h"
#include "conf/regex_internal.h"

#define SET_MAX 4096 /* patterns; those after this number are always tried */
#define GRAM 3       /* bytes that are the key of the table */
#define SAME_TEXT_MAX                                                                              \
    8              /* patterns with the same string; vectorscan distinguishes more of them better */
#define SCAN_MIN 6 /* patterns without a string for which a database is worth building */
#define SCAN_MAX 500 /* patterns of one database, since the time to build it grows with them */
#define SCAN_BUDGET_MS 1000 /* time per reading for building databases */

/* One string that a pattern requires. */
struct needle {
    struct str text;  /* in lower case */
    uint16_t pattern; /* index in the list */
    uint16_t gram_at; /* offset of the bytes that are its key */
    uint16_t next;    /* the next one of the same slot, plus one; 0 = last */
};

struct regex_set {
    struct regex *const *items; /* in order */
    unsigned count;
    unsigned words;   /* size of a bitmap of patterns */
    uint64_t *always; /* bitmap: patterns that may match any subject */
    struct needle *needles;
    unsigned needle_count;
    uint16_t *slots;     /* by hash of GRAM bytes: first needle plus one */
    unsigned slot_shift; /* 32 minus log2 of the number of slots */
#ifdef HAVE_VECTORSCAN
    hs_database_t *database; /* of patterns without a string; NULL = none */
#endif
};

/* Candidates of the current match, with space for the longest list. A match never waits. */
static uint64_t *candidates;
static unsigned candidate_words;

static inline void set_bit(uint64_t *bits, unsigned index)
{
    bits[index / 64] |= (uint64_t) 1 << index % 64;
}

static inline unsigned slot_of(const struct regex_set *set, uint32_t gram)
{
    return (gram * 0x9e3779b1u) >> set->slot_shift;
}

static uint32_t gram_at(struct str text, size_t at)
{
    return (uint32_t) (unsigned char) text.data[at] << 16 |
           (uint32_t) (unsigned char) text.data[at + 1] << 8 | (unsigned char) text.data[at + 2];
}

/* ---- the table of strings */

static unsigned slot_load(const struct regex_set *set, unsigned slot)
{
    unsigned load = 0;

    for (unsigned i = set->slots[slot]; i != 0; i = set->needles[i - 1].next) {
        load++;
    }
    return load;
}

/* Puts the string into the table under that part of it whose slot has the fewest entries. */
static void add_needle(struct regex_set *set, unsigned pattern, struct str text)
{
    struct needle *needle = &set->needles[set->needle_count++];
    unsigned best = UINT32_MAX;

    needle->text = text;
    needle->pattern = (uint16_t) pattern;
    for (size_t at = 0; at + GRAM <= text.len && best != 0; at++) {
        unsigned load = slot_load(set, slot_of(set, gram_at(text, at)));
        if (load < best) {
            best = load;
            needle->gram_at = (uint16_t) at;
        }
    }
    uint16_t *slot = &set->slots[slot_of(set, gram_at(text, needle->gram_at))];
    needle->next = *slot;
    *slot = (uint16_t) set->needle_count;
}

/* Marks the patterns whose strings occur in the subject. */
static void find_needles(const struct regex_set *set, struct str subject, uint64_t *marks)
{
    const unsigned char *text = (const unsigned char *) subject.data;
    uint32_t gram = 0;

    for (size_t i = 0; i < subject.len; i++) {
        gram = (gram << 8 | ascii_lower(text[i])) & 0xffffff;
        unsigned next = set->slots[slot_of(set, gram)];
        if (next == 0 || i + 1 < GRAM) {
            continue;
        }
        size_t gram_start = i + 1 - GRAM;
        for (; next != 0; next = set->needles[next - 1].next) {
            const struct needle *needle = &set->needles[next - 1];
            if (needle->gram_at > gram_start) {
                continue;
            }
            struct str rest = str_skip(subject, gram_start - needle->gram_at);
            if (str_starts_nocase(rest, needle->text)) {
                set_bit(marks, needle->pattern);
            }
        }
    }
}

/* How many of the patterns before this one require the same single string? */
static unsigned count_same(const struct literals *all, unsigned index)
{
    unsigned same = 0;

    for (unsigned i = 0; i < index; i++) {
        same += all[i].count == 1 && all[index].count == 1 &&
                str_equal(all[i].items[0], all[index].items[0]);
    }
    return same;
}

/* Fills the table; patterns that are not in the table are marked in `always`. */
static void build_table(struct conf *conf, struct regex_set *set)
{
    unsigned count = set->count < SET_MAX ? set->count : SET_MAX;
    struct literals *all = calloc(count, sizeof(*all));
    unsigned total = 0;
    unsigned bits = 6;

    if (all == NULL) {
        fatal_no_memory(count * sizeof(*all));
    }
    for (unsigned i = 0; i < count; i++) {
        literals_of_pattern(conf->arena, regex_pattern(set->items[i]), &all[i]);
        total += all[i].count;
    }
    while (bits < 16 && 1u << bits < 4 * total) {
        bits++;
    }
    set->slot_shift = 32 - bits;
    set->slots = arena_array(conf->arena, (size_t) 1 << bits, sizeof(*set->slots));
    set->needles = arena_array(conf->arena, total + 1, sizeof(*set->needles));
    for (unsigned i = 0; i < set->count; i++) {
        bool has_slot = i < count && all[i].count != 0 &&
                        set->needle_count + all[i].count < UINT16_MAX &&
                        count_same(all, i) < SAME_TEXT_MAX;
        for (unsigned j = 0; has_slot && j < all[i].count; j++) {
            add_needle(set, i, all[i].items[j]);
        }
        if (!has_slot) {
            set_bit(set->always, i);
        }
    }
    free(all);
}

/* ---- vectorscan */

#ifdef HAVE_VECTORSCAN

#define SCAN_FLAGS (HS_FLAG_SINGLEMATCH | HS_FLAG_PREFILTER | HS_FLAG_ALLOWEMPTY)

/* State while one configuration is read. */
struct scan_state {
    uint64_t spent_ms;    /* on building databases */
    struct map databases; /* hs_database_t * by their patterns: many servers have the same list */
};

static hs_scratch_t *scratch; /* of this process; fits every database */

static void free_database(void *database)
{
    hs_free_database(database);
}

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

static unsigned scan_flags(const struct regex *regex)
{
    return SCAN_FLAGS | (regex_is_nocase(regex) ? HS_FLAG_CASELESS : 0);
}

/*
 * Does vectorscan accept this pattern? With an option for UTF-8 it would interpret it differently.
 */
static bool is_scannable(const struct regex *regex)
{
    hs_expr_info_t *info = NULL;
    hs_compile_error_t *error = NULL;
    struct str pattern = regex_pattern(regex);

    if (str_find(pattern, STR("(*")) != NULL || memchr(pattern.data, '\0', pattern.len) != NULL) {
        return false;
    }
    hs_error_t result = hs_expression_info(pattern.data, scan_flags(regex), &info, &error);
    free(info);
    if (error != NULL) {
        hs_free_compile_error(error);
    }
    return result == HS_SUCCESS;
}

/* A key of the list: patterns with their flags, so that equal lists share a database. */
static struct str list_key(struct conf *conf, const struct regex_set *set, const unsigned *ids,
                           unsigned count)
{
    struct buf key = {0};

    for (unsigned i = 0; i < count; i++) {
        const struct regex *regex = set->items[ids[i]];
        buf_printf(&key, "%u:%d:%.*s\n", ids[i], regex_is_nocase(regex),
                   STR_ARG(regex_pattern(regex)));
    }
    struct str copy = arena_dup(conf->arena, buf_str(&key));
    buf_free(&key);
    return copy;
}

static hs_database_t *compile_database(const struct regex_set *set, const unsigned *ids,
                                       unsigned count)
{
    const char **patterns = calloc(count, sizeof(*patterns));
    unsigned *flags = calloc(count, sizeof(*flags));
    hs_database_t *database = NULL;
    hs_compile_error_t *error = NULL;

    if (patterns == NULL || flags == NULL) {
        fatal_no_memory(count * sizeof(*patterns));
    }
    for (unsigned i = 0; i < count; i++) {
        patterns[i] = regex_pattern(set->items[ids[i]]).data;
        flags[i] = scan_flags(set->items[ids[i]]);
    }
    if (hs_compile_multi(patterns, flags, ids, count, HS_MODE_BLOCK, NULL, &database, &error) !=
        HS_SUCCESS) {
        hs_free_compile_error(error);
        database = NULL;
    } else if (hs_alloc_scratch(database, &scratch) != HS_SUCCESS) {
        hs_free_database(database);
        database = NULL;
    }
    free(patterns);
    free(flags);
    return database;
}

/* Moves patterns from `always` into a database. */
static void build_database(struct conf *conf, struct regex_set *set)
{
    struct scan_state *state = conf_state(conf, "conf.regex_set", sizeof(*state));
    unsigned *ids = calloc(set->count + 1, sizeof(*ids));
    unsigned count = 0;

    if (ids == NULL) {
        fatal_no_memory(set->count * sizeof(*ids));
    }
    for (unsigned i = 0; i < set->count && count < SCAN_MAX; i++) {
        if ((set->always[i / 64] >> i % 64 & 1) != 0 && is_scannable(set->items[i])) {
            ids[count++] = i;
        }
    }
    if (count >= SCAN_MIN) {
        struct str key = list_key(conf, set, ids, count);
        set->database = map_get(&state->databases, key);
        if (set->database == NULL && state->spent_ms < SCAN_BUDGET_MS) {
            uint64_t start = now_ms();
            set->database = compile_database(set, ids, count);
            state->spent_ms += now_ms() - start;
            if (set->database != NULL) {
                map_put(&state->databases, conf->arena, key, set->database);
                arena_on_free(conf->arena, free_database, set->database);
            }
        }
    }
    for (unsigned i = 0; set->database != NULL && i < count; i++) {
        set->always[ids[i] / 64] &= ~((uint64_t) 1 << ids[i] % 64);
    }
    free(ids);
}

static int on_scan_match(unsigned id, unsigned long long from, unsigned long long to,
                         unsigned flags, void *marks)
{
    set_bit(marks, id);
    return 0;
}

static void scan(const struct regex_set *set, struct str subject, uint64_t *marks)
{
    if (set->database == NULL) {
        return;
    }
    hs_error_t result = subject.len > UINT32_MAX
                            ? HS_INVALID
                            : hs_scan(set->database, subject.data == NULL ? "" : subject.data,
                                      (unsigned) subject.len, 0, scratch, on_scan_match, marks);
    if (result != HS_SUCCESS) {
        memset(marks, 0xff, set->words * sizeof(*marks));
    }
}

#else

static void build_database(struct conf *conf, struct regex_set *set)
{
}

static void scan(const struct regex_set *set, struct str subject, uint64_t *marks)
{
}

#endif

/* ---- the list */

struct regex_set *regex_set_new(struct conf *conf, struct regex *const *items, unsigned count)
{
    struct regex_set *set = arena_new(conf->arena, struct regex_set);
    struct regex **copy = arena_array(conf->arena, count + 1, sizeof(*copy));

    if (count != 0) {
        memcpy(copy, items, count * sizeof(*copy));
    }
    set->items = copy;
    set->count = count;
    set->words = count / 64 + 1;
    set->always = arena_array(conf->arena, set->words, sizeof(*set->always));
    if (set->words > candidate_words) {
        free(candidates);
        candidates = calloc(set->words, sizeof(*candidates));
        if (candidates == NULL) {
            fatal_no_memory(set->words * sizeof(*candidates));
        }
        candidate_words = set->words;
    }
    build_table(conf, set);
    build_database(conf, set);
    return set;
}

int regex_set_first(const struct regex_set *set, struct str subject, struct variable_env *env,
                    const struct log *log)
{
    uint64_t *marks = candidates;

    memcpy(marks, set->always, set->words * sizeof(*marks));
    if (set->needle_count != 0) {
        find_needles(set, subject, marks);
    }
    scan(set, subject, marks);
    for (unsigned word = 0; word < set->words; word++) {
        for (uint64_t bits = marks[word]; bits != 0; bits &= bits - 1) {
            unsigned index = word * 64 + (unsigned) __builtin_ctzll(bits);
            if (index < set->count && regex_match(set->items[index], subject, env, log)) {
                return (int) index;
            }
        }
    }
    return -1;
}
