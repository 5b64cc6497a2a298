/* The pool of stacks: one mapping, cut into stacks as needed, with guards; trimmed; painted for
   tests. */
#include "fiber/stack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "fiber/watch.h"

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

enum {
    GROW_BY = 16,        /* stacks cut at a time */
    TRIM_AT_MOST = 1024, /* stacks per call: bounds its duration */
    DEFAULT_MOST = 262144,
    DEFAULT_MAX_MAPS = 65530, /* the kernel's default, if /proc does not have it */
    COLORS = 8,               /* number of different offsets of fiber objects in their page */
    COLOR_STEP = 128,  /* bytes between these offsets, so that the objects do not compete for the
                          same cache sets */
    CANARY_WORDS = 64, /* half a KB, since a frame may skip a few words */
};

#define CANARY 0x5afe57ac4ca9a41eull
#define PAINT 0xf1f1f1f1f1f1f1f1ull

struct stack_pool stack_pool;

static void pool_say(const char *message)
{
    if (stack_pool.say != NULL) {
        stack_pool.say(message);
    }
}

struct fiber *stack_fiber(size_t index)
{
    char *end = stack_pool.region + (index + 1) * stack_pool.stack_size;

    return (struct fiber *) (void *) (end - (index % COLORS) * COLOR_STEP - sizeof(struct fiber));
}

/* Reads vm.max_map_count. */
static size_t read_max_map_count(void)
{
    char text[32];
    int fd = open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        return DEFAULT_MAX_MAPS;
    }
    ssize_t length = read(fd, text, sizeof(text) - 1);

    close(fd);
    if (length <= 0) {
        return DEFAULT_MAX_MAPS;
    }
    text[length] = '\0';
    return (size_t) strtoul(text, NULL, 10);
}

static size_t default_stack_size(void)
{
#if defined(FIBER_ASAN)
    return 256 * 1024;
#else
    return 128 * 1024;
#endif
}

/* Reserves address space for the requested number of stacks, or as many as possible. */
static char *reserve(size_t *most, size_t stack_size)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK;

    for (size_t count = *most; count > 0; count /= 2) {
        size_t size;

        if (__builtin_mul_overflow(count, stack_size, &size)) {
            continue;
        }
        char *region = mmap(NULL, size, PROT_NONE, flags, -1, 0);

        if (region != MAP_FAILED) {
            *most = count;
            return region;
        }
    }
    errno = ENOMEM;
    return NULL;
}

int stack_pool_init(const struct fiber_options *options)
{
    struct stack_pool *pool = &stack_pool;
    size_t page = (size_t) sysconf(_SC_PAGESIZE);
    size_t stack_size = options->stack_size != 0 ? options->stack_size : default_stack_size();
    size_t wished = options->max_fibers != 0 ? options->max_fibers : DEFAULT_MOST;

    if (pool->region != NULL) {
        errno = EBUSY;
        return -1;
    }
    if (stack_size > SIZE_MAX / 4 || stack_size < 2 * page) {
        errno = EINVAL;
        return -1;
    }
    stack_size = (stack_size + page - 1) / page * page;
    *pool = (struct stack_pool){
        .stack_size = stack_size,
        .guard_size = page,
        .most = wished,
        .guard = options->guard,
        .protect_left = read_max_map_count() / 4,
        .is_painted = options->paint_stacks,
        .has_checks = options->paint_stacks,
        .say = options->say,
    };
    char *region = reserve(&pool->most, stack_size);

    if (region == NULL) {
        return -1;
    }
    if (pool->most < wished) {
        pool_say("address space for fewer fibers than wished");
    }
    madvise(region, pool->most * stack_size, MADV_NOHUGEPAGE);
    struct fiber **free_list = mmap(NULL, pool->most * sizeof(*free_list), PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (free_list == MAP_FAILED) {
        munmap(region, pool->most * stack_size);
        return -1;
    }
    pool->free = free_list;
    pool->region = region;
    return 0;
}

void stack_pool_destroy(void)
{
    struct stack_pool *pool = &stack_pool;

    if (pool->region == NULL) {
        return;
    }
    for (size_t i = 0; i < pool->prepared; i++) {
        watch_stack_gone(stack_low(i), pool->stack_size - pool->guard_size);
    }
    munmap(pool->region, pool->most * pool->stack_size);
    munmap(pool->free, pool->most * sizeof(*pool->free));
    *pool = (struct stack_pool){.region = NULL};
}

/* Some emulators accept any advice. If the guard works, the kernel's own write to it fails. */
static bool is_guard_real(char *guard)
{
    return syscall(SYS_clock_gettime, CLOCK_MONOTONIC, guard) != 0 && errno == EFAULT;
}

/* Installs the best available guard of a stack that is completely writable. */
static void guard_install(char *guard)
{
    struct stack_pool *pool = &stack_pool;

    if (pool->guard == FIBER_GUARD_INSTALL) {
        if (madvise(guard, pool->guard_size, MADV_GUARD_INSTALL) == 0 &&
            (pool->guarded > 0 || is_guard_real(guard))) {
            pool->guarded++;
            return;
        }
        pool->guard = FIBER_GUARD_PROTECT;
        pool_say("the kernel has no MADV_GUARD_INSTALL here: fiber stacks are guarded by mprotect");
    }
    if (pool->guard == FIBER_GUARD_PROTECT) {
        if (pool->protect_left > 0 && mprotect(guard, pool->guard_size, PROT_NONE) == 0) {
            pool->protect_left--;
            pool->guarded++;
            return;
        }
        pool->guard = FIBER_GUARD_CANARY;
        pool_say("a quarter of vm.max_map_count is used for guards of fiber stacks: "
                 "further stacks have a canary only");
    }
    pool->has_checks = true;
}

bool stack_pool_grow(void)
{
    struct stack_pool *pool = &stack_pool;
    size_t count = pool->most - pool->prepared;

    if (count > GROW_BY) {
        count = GROW_BY;
    }
    if (count == 0) {
        errno = EAGAIN;
        return false;
    }
    char *first = pool->region + pool->prepared * pool->stack_size;

    if (mprotect(first, count * pool->stack_size, PROT_READ | PROT_WRITE) != 0) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        guard_install(first + i * pool->stack_size);
        watch_stack_new(first + i * pool->stack_size + pool->guard_size,
                        pool->stack_size - pool->guard_size);
    }
    /* The lowest is used first. No stack was free before, so the new ones are the only cold
       ones. */
    for (size_t i = count; i > 0; i--) {
        pool->free[pool->free_count++] = stack_fiber(pool->prepared + i - 1);
    }
    pool->prepared += count;
    pool->free_least = pool->free_count;
    pool->cold_count = pool->free_count;
    return true;
}

size_t fiber_pool_trim(void)
{
    struct stack_pool *pool = &stack_pool;
    size_t end = pool->free_least;
    size_t trimmed = 0;

    if (pool->cold_count > end) {
        pool->cold_count = end;
    }
    if (end - pool->cold_count > TRIM_AT_MOST) {
        end = pool->cold_count + TRIM_AT_MOST;
    }
    while (pool->cold_count < end) {
        size_t index = stack_index(pool->free[pool->cold_count++]);

        madvise(stack_low(index), pool->stack_size - pool->guard_size, MADV_DONTNEED);
        trimmed++;
    }
    pool->free_least = pool->free_count;
    return trimmed;
}

void fiber_pool_stats(struct fiber_pool_stats *stats)
{
    const struct stack_pool *pool = &stack_pool;
    size_t cold = pool->cold_count < pool->free_least ? pool->cold_count : pool->free_least;

    *stats = (struct fiber_pool_stats){
        .in_use = pool->prepared - pool->free_count,
        .free = pool->free_count,
        .cold = cold,
        .most = pool->most,
        .guarded = pool->guarded,
        .canaries = pool->prepared - pool->guarded,
    };
}

size_t fiber_pool_left(void)
{
    return stack_pool.most - (stack_pool.prepared - stack_pool.free_count);
}

/* Stacks with a guard come before those with canaries, since a pool never returns to a better
   method. */
static bool has_canary(size_t index)
{
    return index >= stack_pool.guarded;
}

/* The canary is in the page where a guard would be. */
static volatile uint64_t *canary_of(size_t index)
{
    return (volatile uint64_t *) (void *) (stack_low(index) - stack_pool.guard_size);
}

FIBER_NO_ASAN void stack_prepare(struct fiber *fiber)
{
    size_t index = stack_index(fiber);

    if (has_canary(index)) {
        volatile uint64_t *canary = canary_of(index);

        for (size_t i = 0; i < CANARY_WORDS; i++) {
            canary[i] = CANARY;
        }
    }
    if (stack_pool.is_painted) {
        volatile uint64_t *word = (volatile uint64_t *) (void *) stack_low(index);
        volatile uint64_t *end = (volatile uint64_t *) (void *) fiber;

        while (word < end) {
            *word++ = PAINT;
        }
    }
}

FIBER_NO_ASAN void stack_check(struct fiber *fiber)
{
    size_t index = stack_index(fiber);

    if (!has_canary(index)) {
        return;
    }
    volatile uint64_t *canary = canary_of(index);

    for (size_t i = 0; i < CANARY_WORDS; i++) {
        if (canary[i] != CANARY) {
            char message[128];

            snprintf(message, sizeof(message), "fiber stack %zu has overflowed (function %p)",
                     index, (void *) (uintptr_t) fiber->run);
            fiber_panic(message);
        }
    }
}

FIBER_NO_ASAN void stack_measure(struct fiber *fiber)
{
    stack_check(fiber);
    if (!stack_pool.is_painted) {
        return;
    }
    volatile uint64_t *word = (volatile uint64_t *) (void *) stack_low(stack_index(fiber));
    volatile uint64_t *end = (volatile uint64_t *) (void *) fiber;

    while (word < end && *word == PAINT) {
        word++;
    }
    size_t used = (size_t) ((volatile char *) end - (volatile char *) word);

    if (used > stack_pool.high_water) {
        stack_pool.high_water = used;
    }
}

size_t fiber_stack_high_water(void)
{
    return stack_pool.high_water;
}
