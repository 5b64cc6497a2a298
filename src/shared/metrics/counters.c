/* Counters of requests in shared memory: see counters.h. */
#include "shared/metrics/counters.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/checksum.h"

/* clang-format off */
const uint16_t metrics_codes[METRICS_CODES] = {
    200, 201, 202, 204, 206, 207, 301, 302, 303, 304, 307, 308, 400, 401, 402, 403, 404, 405, 406, 408, 409, 410,
    411, 412, 413, 414, 415, 416, 421, 422, 423, 426, 429, 431, 444, 494, 499, 500, 501, 502, 503, 504, 507, 0,
};
/* clang-format on */

/* Number of cells that are allocated together: with few series few pages are used. */
enum { BLOCK_CELLS = 16, BLOCKS = SERIES_MOST / BLOCK_CELLS, SHEETS = 512 };

struct block {
    struct metrics_cell cells[BLOCK_CELLS];
};

/* The cells of one worker at a time; a later worker continues the counts of an earlier one. */
struct sheet {
    _Atomic pid_t owner;              /* 0 = none */
    _Atomic uintptr_t blocks[BLOCKS]; /* offsets in the zone; 0 = not allocated */
};

struct series {
    uint8_t kind;
    uint8_t length;
    char label[SERIES_LABEL];
};

struct root {
    struct shm_lock lock;          /* protects adding series, taking sheets, resets */
    _Atomic uint32_t series_count; /* raised when a series is complete */
    _Atomic uint32_t sheet_count;  /* sheets that were ever used */
    _Atomic uint64_t lost;
    uint64_t began_ms; /* when the counters were created, milliseconds since the epoch */
    struct series series[SERIES_MOST];
    struct sheet base; /* the sums at their last reset */
    struct sheet sheets[SHEETS];
};

static struct zone *zone;
static struct root *root;

/* The state of this worker. */
static struct sheet *my_sheet;
struct metrics_cell *metrics_cells[SERIES_MOST + 1];
bool metrics_is_on;

/* ---- series ---- */

bool metrics_use(struct zone *wanted)
{
    if (wanted->root == NULL) {
        struct root *made = slab_alloc(wanted->slab, sizeof(*made));

        if (made == NULL) {
            return false;
        }
        struct timespec now; /* the loop's clock may not be set yet */

        clock_gettime(CLOCK_REALTIME, &now);
        made->began_ms = (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
        shm_lock_init(&made->lock);
        wanted->root = made;
    }
    times_init();
    zone = wanted;
    root = wanted->root;
    return true;
}

static bool is_series(unsigned number, enum series_kind kind, struct str label)
{
    const struct series *series = &root->series[number];

    return series->kind == kind && series->length == label.len &&
           memcmp(series->label, label.data, label.len) == 0;
}

/* Where series with these hashes of labels were last found: a peer is looked up for each
   attempt. */
static uint16_t found_last[256];

static unsigned find_series(enum series_kind kind, struct str label, unsigned count)
{
    uint16_t *last = &found_last[str_hash(label) % 256];

    if (*last < count && is_series(*last, kind, label)) {
        return *last;
    }
    for (unsigned i = 0; i < count; i++) {
        if (is_series(i, kind, label)) {
            *last = (uint16_t) i;
            return i;
        }
    }
    return SERIES_NONE;
}

#define LABEL_END 17 /* bytes at the end of a shortened label: "~" and a hash */

/* A label that is too long is shortened, and ends with a hash of the whole label: no two share a
   series. */
static char *put_label(char *at, struct str label, size_t most)
{
    static const uint64_t key[2] = {0};
    char hash[LABEL_END + 1];

    if (label.len <= most) {
        return str_put(at, label);
    }
    snprintf(hash, sizeof(hash), "~%016llx", (unsigned long long) siphash_1_3(label, key));
    return str_put(str_put(at, str_head(label, most - LABEL_END)), (struct str){hash, LABEL_END});
}

/* The label itself, or a shortened one in `text`, which has SERIES_LABEL bytes. */
static struct str fit_label(char *text, struct str label)
{
    return label.len <= SERIES_LABEL ? label : str_from(text, put_label(text, label, SERIES_LABEL));
}

unsigned metrics_series(enum series_kind kind, struct str label)
{
    char text[SERIES_LABEL];

    label = fit_label(text, label);
    unsigned found =
        find_series(kind, label, atomic_load_explicit(&root->series_count, memory_order_acquire));
    if (found != SERIES_NONE) {
        return found;
    }
    shm_lock_take(&root->lock); /* if a process died here, its unfinished series is not included in
                                   the count */
    unsigned count = root->series_count;
    found = find_series(kind, label, count);
    if (found == SERIES_NONE && count < SERIES_MOST) {
        struct series *series = &root->series[count];

        series->kind = (uint8_t) kind;
        series->length = (uint8_t) label.len;
        memcpy(series->label, label.data, label.len);
        atomic_store_explicit(&root->series_count, count + 1, memory_order_release);
        found = count;
    }
    shm_lock_release(&root->lock);
    if (found == SERIES_NONE) {
        atomic_fetch_add_explicit(&root->lost, 1, memory_order_relaxed);
    }
    return found;
}

/* ---- a worker's cells ---- */

static bool is_free(const struct sheet *sheet)
{
    pid_t owner = sheet->owner;

    return owner == 0 || owner == getpid() || (kill(owner, 0) == -1 && errno == ESRCH);
}

static struct block *block_of(const struct sheet *sheet, unsigned number)
{
    uintptr_t offset = atomic_load_explicit(&sheet->blocks[number], memory_order_acquire);

    return offset == 0 ? NULL : (struct block *) (void *) ((char *) zone->memory + offset);
}

/* Ends the requests that the previous owner had in progress when it ended. */
static void end_all(const struct sheet *sheet)
{
    for (unsigned i = 0; i < BLOCKS; i++) {
        struct block *block = block_of(sheet, i);

        for (unsigned n = 0; block != NULL && n < BLOCK_CELLS; n++) {
            block->cells[n].ended = block->cells[n].began;
        }
    }
}

void metrics_worker_start(void)
{
    memset(metrics_cells, 0, sizeof(metrics_cells));
    my_sheet = NULL;
    shm_lock_take(&root->lock); /* every change in here is a single store */
    for (unsigned i = 0; i < SHEETS && my_sheet == NULL; i++) {
        if (is_free(&root->sheets[i])) {
            my_sheet = &root->sheets[i];
            my_sheet->owner = getpid();
            end_all(my_sheet);
            root->sheet_count = i + 1 > root->sheet_count ? i + 1 : root->sheet_count;
        }
    }
    shm_lock_release(&root->lock);
    metrics_is_on = true;
}

void metrics_worker_end(void)
{
    if (root == NULL) {
        return;
    }
    if (my_sheet != NULL) {
        my_sheet->owner = 0;
        my_sheet = NULL;
    }
    metrics_is_on = false;
}

/* The block that contains a cell; NULL: the zone is full. */
static struct block *make_block(struct sheet *sheet, unsigned number)
{
    struct block *block = sheet == NULL ? NULL : block_of(sheet, number);

    if (block == NULL && sheet != NULL) {
        block = slab_alloc(zone->slab, sizeof(*block));
        if (block != NULL) {
            atomic_store_explicit(&sheet->blocks[number],
                                  (uintptr_t) ((char *) block - (char *) zone->memory),
                                  memory_order_release);
        }
    }
    return block;
}

struct metrics_cell *metrics_make_cell(unsigned series)
{
    if (series == SERIES_NONE) {
        return NULL; /* counted by metrics_series already */
    }
    struct block *block = make_block(my_sheet, series / BLOCK_CELLS);
    if (block == NULL) {
        atomic_fetch_add_explicit(&root->lost, 1, memory_order_relaxed);
        return NULL;
    }
    metrics_cells[series] = &block->cells[series % BLOCK_CELLS];
    return metrics_cells[series];
}

unsigned metrics_begin_peer(enum series_kind kind, struct str group, struct str peer)
{
    char text[SERIES_LABEL];
    unsigned series = metrics_series(kind, metrics_peer_label(text, group, peer));

    metrics_begin(series);
    return series;
}

/* The index of a status: a binary search in the list, which is sorted except for its last entry. */
unsigned metrics_code_index(unsigned status)
{
    unsigned low = 0;
    unsigned high = METRICS_CODES - 1;

    while (low < high) {
        unsigned middle = (low + high) / 2;

        if (metrics_codes[middle] < status) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return metrics_codes[low] == status ? low : METRICS_CODES - 1;
}

/* ---- reading ---- */

unsigned metrics_series_count(void)
{
    return atomic_load_explicit(&root->series_count, memory_order_acquire);
}

enum series_kind metrics_series_label(unsigned series, struct str *label)
{
    *label = (struct str){root->series[series].label, root->series[series].length};
    return root->series[series].kind;
}

void metrics_sum(unsigned series, struct metrics_cell *sum)
{
    uint64_t *to = (uint64_t *) sum;

    memset(sum, 0, sizeof(*sum));
    for (unsigned i = 0; i < root->sheet_count; i++) {
        const struct block *block = block_of(&root->sheets[i], series / BLOCK_CELLS);

        if (block == NULL) {
            continue;
        }
        const volatile uint64_t *from =
            (const volatile uint64_t *) &block->cells[series % BLOCK_CELLS];
        for (unsigned n = 0; n < sizeof(*sum) / sizeof(*to); n++) {
            to[n] += from[n];
        }
    }
    sum->all += sum->began;
}

unsigned metrics_find(enum series_kind kind, struct str label)
{
    char text[SERIES_LABEL];

    return root == NULL ? SERIES_NONE
                        : find_series(kind, fit_label(text, label), metrics_series_count());
}

void metrics_since(unsigned series, struct metrics_cell *sum)
{
    const struct block *base = block_of(&root->base, series / BLOCK_CELLS);
    uint64_t *to = (uint64_t *) sum;

    metrics_sum(series, sum);
    if (base == NULL) {
        return;
    }
    const volatile uint64_t *from = (const volatile uint64_t *) &base->cells[series % BLOCK_CELLS];
    for (unsigned n = 0; n < sizeof(*sum) / sizeof(*to); n++) {
        to[n] -= from[n] < to[n] ? from[n] : to[n];
    }
}

bool metrics_reset(unsigned series)
{
    shm_lock_take(&root->lock);
    struct block *base = make_block(&root->base, series / BLOCK_CELLS);
    if (base != NULL) {
        struct metrics_cell *cell = &base->cells[series % BLOCK_CELLS];

        metrics_sum(series, cell);
        cell->began = cell->ended = 0;
    }
    shm_lock_release(&root->lock);
    return base != NULL;
}

struct str metrics_peer_label(char *text, struct str group, struct str peer)
{
    char *at = put_label(text, group, SERIES_LABEL / 2);

    *at++ = '\0';
    return str_from(text, put_label(at, peer, (size_t) (text + SERIES_LABEL - at)));
}

uint64_t metrics_began_ms(void)
{
    return root->began_ms;
}

uint64_t metrics_lost(void)
{
    return atomic_load_explicit(&root->lost, memory_order_relaxed);
}
