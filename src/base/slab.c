/*
 * The allocator in shared memory. Pages of 4096 bytes; a page is cut into equal chunks of 16 to
 * 2048 bytes, or belongs to a run of whole pages. The kind of a page and its bits alone define what
 * is allocated: lists and counters are derived from them, and are rebuilt when a process died while
 * it held the lock.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "base/log.h"
#include "base/shm.h"

enum {
    PAGE_SIZE = 4096,
    PAGES_MIN = 8,
    CHUNK_SHIFT_MIN = 4,  /* 16 bytes */
    CHUNK_SHIFT_MAX = 11, /* half a page */
    CHUNK_CLASSES = CHUNK_SHIFT_MAX - CHUNK_SHIFT_MIN + 1,
    CHUNKS_MAX = PAGE_SIZE >> CHUNK_SHIFT_MIN,
    RUN_CLASSES = 32,
    RUN_SEARCH_MAX = 64, /* runs that are examined in the class where only some are long enough */
    NO_PAGE = UINT32_MAX,
};

enum page_kind {
    PAGE_FREE,   /* in a free run, or inside an allocated one */
    PAGE_RUN,    /* first of an allocated run; with length 0, its last */
    PAGE_CHUNKS, /* cut into chunks */
};

/* The state of a page. */
struct page {
    uint32_t
        next; /* next page in the list of free runs of its class, or of pages with free chunks */
    uint32_t prev;                  /* previous page; NO_PAGE for the first */
    uint32_t length;                /* pages of the run; also set in the last page of a free run */
    uint16_t used;                  /* chunks in use */
    uint8_t kind;                   /* enum page_kind */
    uint8_t shift;                  /* log2 of the chunk size */
    uint64_t bits[CHUNKS_MAX / 64]; /* chunks in use */
};

struct slab {
    struct shm_lock lock;
    uint32_t pages_count;
    uint32_t free_count;        /* pages in free runs */
    uint32_t runs[RUN_CLASSES]; /* free runs of 2^n to 2^(n+1)-1 pages; the first page of the first
                                   of them */
    uint32_t partial[CHUNK_CLASSES]; /* pages with a free chunk; the first of them */
    uint64_t requests[CHUNK_CLASSES], failed[CHUNK_CLASSES]; /* allocations per class so far */
    char *memory; /* first page; the mapping has the same address in all processes */
    struct page pages[];
};

static void list_add(struct slab *slab, uint32_t *head, uint32_t index)
{
    slab->pages[index].prev = NO_PAGE;
    slab->pages[index].next = *head;
    if (*head != NO_PAGE) {
        slab->pages[*head].prev = index;
    }
    *head = index;
}

static void list_drop(struct slab *slab, uint32_t *head, uint32_t index)
{
    const struct page *page = &slab->pages[index];

    if (page->prev == NO_PAGE) {
        *head = page->next;
    } else {
        slab->pages[page->prev].next = page->next;
    }
    if (page->next != NO_PAGE) {
        slab->pages[page->next].prev = page->prev;
    }
}

static unsigned run_class(uint32_t length)
{
    return 31U - (unsigned) __builtin_clz(length);
}

static void run_add(struct slab *slab, uint32_t index, uint32_t length)
{
    slab->pages[index].length = length;
    slab->pages[index + length - 1].length = length;
    list_add(slab, &slab->runs[run_class(length)], index);
    slab->free_count += length;
}

static void run_drop(struct slab *slab, uint32_t index)
{
    uint32_t length = slab->pages[index].length;

    list_drop(slab, &slab->runs[run_class(length)], index);
    slab->free_count -= length;
}

/* A free run of at least `length` pages, or NO_PAGE. */
static uint32_t run_find(const struct slab *slab, uint32_t length)
{
    unsigned row = run_class(length);
    uint32_t index = slab->runs[row];

    for (int i = 0; index != NO_PAGE && i < RUN_SEARCH_MAX; i++) {
        if (slab->pages[index].length >= length) {
            return index;
        }
        index = slab->pages[index].next;
    }
    for (row++; row < RUN_CLASSES; row++) {
        if (slab->runs[row] != NO_PAGE) {
            return slab->runs[row];
        }
    }
    return NO_PAGE;
}

/* This store decides the state of a page if the process dies: all earlier stores come before it. */
static void set_kind(struct page *page, enum page_kind kind)
{
    atomic_signal_fence(memory_order_seq_cst);
    page->kind = (uint8_t) kind;
    atomic_signal_fence(memory_order_seq_cst);
}

/* Takes a run of pages; the first one gets the kind. NO_PAGE when no run is long enough. */
static uint32_t pages_take(struct slab *slab, uint32_t length, enum page_kind kind)
{
    uint32_t index = run_find(slab, length);

    if (index == NO_PAGE) {
        return NO_PAGE;
    }
    uint32_t whole = slab->pages[index].length;
    run_drop(slab, index);
    if (whole > length) {
        run_add(slab, index + length, whole - length);
    }
    struct page *page = &slab->pages[index];
    page->length = length;
    page->used = 0;
    memset(page->bits, 0, sizeof(page->bits));
    if (length > 1) {
        /* When the run to the right is freed, it checks this last page, which must not look
           free. */
        slab->pages[index + length - 1].kind = PAGE_RUN;
        slab->pages[index + length - 1].length = 0;
    }
    set_kind(page, kind);
    return index;
}

/* Frees pages and joins them with free neighbours. */
static void pages_give(struct slab *slab, uint32_t index, uint32_t length)
{
    set_kind(&slab->pages[index], PAGE_FREE);
    slab->pages[index + length - 1].kind = PAGE_FREE;
    uint32_t after = index + length;
    if (after < slab->pages_count && slab->pages[after].kind == PAGE_FREE) {
        uint32_t more = slab->pages[after].length;
        run_drop(slab, after);
        length += more;
    }
    if (index > 0 && slab->pages[index - 1].kind == PAGE_FREE) {
        uint32_t more = slab->pages[index - 1].length;
        run_drop(slab, index - more);
        index -= more;
        length += more;
    }
    run_add(slab, index, length);
}

static unsigned count_bits(const struct page *page)
{
    unsigned count = 0;

    for (size_t i = 0; i < CHUNKS_MAX / 64; i++) {
        count += (unsigned) __builtin_popcountll(page->bits[i]);
    }
    return count;
}

static unsigned chunks_of(const struct page *page)
{
    return PAGE_SIZE >> page->shift;
}

/* Number of pages allocated from this page on: a run, a page of chunks, or none (0). */
static uint32_t allocated_at(struct slab *slab, uint32_t index)
{
    struct page *page = &slab->pages[index];

    if (page->kind == PAGE_RUN && page->length <= slab->pages_count - index) {
        return page->length;
    }
    if (page->kind != PAGE_CHUNKS) {
        return 0;
    }
    page->used = (uint16_t) count_bits(page);
    return page->used == 0 ? 0 : 1;
}

/* Rebuilds lists and counters from kinds, lengths and bits. */
static void rebuild(struct slab *slab)
{
    slab->free_count = 0;
    memset(slab->runs, 0xff, sizeof(slab->runs));
    memset(slab->partial, 0xff, sizeof(slab->partial));

    uint32_t free_from = 0;
    for (uint32_t i = 0; i < slab->pages_count;) {
        uint32_t length = allocated_at(slab, i);
        struct page *page = &slab->pages[i];
        if (length == 0) {
            page->kind = PAGE_FREE;
            i++;
            continue;
        }
        if (i > free_from) {
            run_add(slab, free_from, i - free_from);
        }
        if (page->kind == PAGE_CHUNKS && page->used < chunks_of(page)) {
            list_add(slab, &slab->partial[page->shift - CHUNK_SHIFT_MIN], i);
        }
        i += length;
        free_from = i;
    }
    if (slab->pages_count > free_from) {
        run_add(slab, free_from, slab->pages_count - free_from);
    }
}

static void lock_take(struct slab *slab)
{
    if (shm_lock_take(&slab->lock)) {
        rebuild(slab);
        log_alert(
            log_main, 0,
            "a process died while it changed a shared memory allocator; the allocator was repaired");
    }
}

struct slab *slab_init(void *memory, size_t size)
{
    struct slab *slab = memory;
    size_t per_page = PAGE_SIZE + sizeof(struct page);

    if (size / PAGE_SIZE < PAGES_MIN) {
        return NULL;
    }
    size_t count = (size - sizeof(*slab)) / per_page;
    uintptr_t first;
    for (;; count--) {
        first = (uintptr_t) &slab->pages[count];
        first = (first + PAGE_SIZE - 1) & ~(uintptr_t) (PAGE_SIZE - 1);
        if (first + count * PAGE_SIZE <= (uintptr_t) memory + size) {
            break;
        }
    }
    if (count >= NO_PAGE) {
        count = UINT32_MAX - 1;
    }
    memset(slab, 0, sizeof(*slab) + count * sizeof(struct page));
    shm_lock_init(&slab->lock);
    slab->pages_count = (uint32_t) count;
    slab->memory = (char *) first;
    rebuild(slab);
    return slab;
}

static void *take_chunk(struct slab *slab, unsigned shift)
{
    uint32_t *partial = &slab->partial[shift - CHUNK_SHIFT_MIN];

    if (*partial == NO_PAGE) {
        uint32_t index = pages_take(slab, 1, PAGE_FREE);
        if (index == NO_PAGE) {
            return NULL;
        }
        slab->pages[index].shift = (uint8_t) shift;
        set_kind(&slab->pages[index], PAGE_CHUNKS);
        list_add(slab, partial, index);
    }
    uint32_t index = *partial;
    struct page *page = &slab->pages[index];
    size_t word = 0;
    while (page->bits[word] == UINT64_MAX) {
        word++;
    }
    unsigned bit = (unsigned) __builtin_ctzll(~page->bits[word]);
    page->bits[word] |= (uint64_t) 1 << bit;
    if (++page->used == chunks_of(page)) {
        list_drop(slab, partial, index);
    }
    return slab->memory + (size_t) index * PAGE_SIZE + ((word * 64 + bit) << shift);
}

void *slab_alloc(struct slab *slab, size_t size)
{
    void *piece = NULL;

    if (size > (size_t) slab->pages_count * PAGE_SIZE) {
        return NULL;
    }
    lock_take(slab);
    if (size <= (1 << CHUNK_SHIFT_MAX)) {
        unsigned shift = CHUNK_SHIFT_MIN;
        while (size > (size_t) 1 << shift) {
            shift++;
        }
        size = (size_t) 1 << shift;
        piece = take_chunk(slab, shift);
        slab->requests[shift - CHUNK_SHIFT_MIN]++;
        slab->failed[shift - CHUNK_SHIFT_MIN] += piece == NULL;
    } else {
        uint32_t length = (uint32_t) ((size + PAGE_SIZE - 1) / PAGE_SIZE);
        uint32_t index = pages_take(slab, length, PAGE_RUN);
        if (index != NO_PAGE) {
            piece = slab->memory + (size_t) index * PAGE_SIZE;
        }
    }
    shm_lock_release(&slab->lock);
    return piece == NULL ? NULL : memset(piece, 0, size);
}

/* False when the piece is not allocated. */
static bool give_chunk(struct slab *slab, uint32_t index, size_t offset)
{
    struct page *page = &slab->pages[index];
    size_t chunk = offset >> page->shift;
    uint64_t mask = (uint64_t) 1 << (chunk % 64);

    if (chunk << page->shift != offset || (page->bits[chunk / 64] & mask) == 0) {
        return false;
    }
    page->bits[chunk / 64] &= ~mask;
    uint32_t *partial = &slab->partial[page->shift - CHUNK_SHIFT_MIN];
    if (page->used-- == chunks_of(page)) {
        list_add(slab, partial, index);
    }
    if (page->used == 0) {
        list_drop(slab, partial, index);
        pages_give(slab, index, 1);
    }
    return true;
}

void slab_free(struct slab *slab, void *piece)
{
    if (piece == NULL) {
        return;
    }
    size_t offset = (size_t) ((char *) piece - slab->memory);
    size_t index = offset / PAGE_SIZE;
    bool is_good = false;

    lock_take(slab);
    if (index < slab->pages_count) {
        struct page *page = &slab->pages[index];
        if (page->kind == PAGE_CHUNKS) {
            is_good = give_chunk(slab, (uint32_t) index, offset % PAGE_SIZE);
        } else if (page->kind == PAGE_RUN && page->length != 0 && offset % PAGE_SIZE == 0) {
            pages_give(slab, (uint32_t) index, page->length);
            is_good = true;
        }
    }
    shm_lock_release(&slab->lock);
    if (!is_good) {
        log_alert(log_main, 0, "slab_free(%p): no piece of this zone", piece);
    }
}

size_t slab_available(struct slab *slab)
{
    lock_take(slab);
    size_t bytes = (size_t) slab->free_count * PAGE_SIZE;
    shm_lock_release(&slab->lock);
    return bytes;
}

/* Frees the chunks of a page that are not in use. */
static void keep_chunks(struct slab *slab, uint32_t index, bool (*is_used)(void *, const void *),
                        void *arg)
{
    struct page *page = &slab->pages[index];

    for (size_t i = 0; i < chunks_of(page); i++) {
        const char *chunk = slab->memory + (size_t) index * PAGE_SIZE + (i << page->shift);
        uint64_t mask = (uint64_t) 1 << (i % 64);

        if ((page->bits[i / 64] & mask) != 0 && !is_used(arg, chunk)) {
            page->bits[i / 64] &= ~mask;
        }
    }
}

void slab_keep(struct slab *slab, bool (*is_used)(void *arg, const void *piece), void *arg)
{
    lock_take(slab);
    for (uint32_t i = 0; i < slab->pages_count; i++) {
        struct page *page = &slab->pages[i];

        if (page->kind == PAGE_CHUNKS) {
            keep_chunks(slab, i, is_used, arg);
        } else if (page->kind == PAGE_RUN && page->length != 0 &&
                   !is_used(arg, slab->memory + (size_t) i * PAGE_SIZE)) {
            page->kind = PAGE_FREE;
        }
    }
    rebuild(slab);
    shm_lock_release(&slab->lock);
}

_Static_assert(SLAB_CLASSES == CHUNK_CLASSES, "the face tells of each class");

void slab_stats_reset(struct slab *slab)
{
    lock_take(slab);
    memset(slab->requests, 0, sizeof(slab->requests));
    memset(slab->failed, 0, sizeof(slab->failed));
    shm_lock_release(&slab->lock);
}

void slab_stats_of(const struct slab *slab, struct slab_stats *out)
{
    *out = (struct slab_stats){.page_size = PAGE_SIZE,
                               .pages = slab->pages_count,
                               .free_pages = slab->free_count,
                               .start = (size_t) (slab->memory - (const char *) slab)};
    out->end = out->start + out->pages * PAGE_SIZE;
    for (unsigned i = 0; i < CHUNK_CLASSES; i++) {
        out->classes[i].size = (size_t) 1 << (i + CHUNK_SHIFT_MIN);
        out->classes[i].requests = slab->requests[i];
        out->classes[i].failed = slab->failed[i];
    }
    for (uint32_t i = 0; i < slab->pages_count; i++) {
        const struct page *page = &slab->pages[i];
        unsigned class = (unsigned) page->shift - CHUNK_SHIFT_MIN;

        if (page->kind == PAGE_CHUNKS && class < CHUNK_CLASSES) {
            out->classes[class].total += PAGE_SIZE >> (class + CHUNK_SHIFT_MIN);
            out->classes[class].used += page->used;
        }
    }
}
