/* The pool of stacks: the interface for fiber.c and crash.c. */
#ifndef FIBER_STACK_H
#define FIBER_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fiber/internal.h"

#if defined(__GNUC__)
#define likely_true(condition) __builtin_expect(!!(condition), 1)
#define likely_false(condition) __builtin_expect(!!(condition), 0)
#endif

/* One mapping, cut into stacks from the bottom up as they are needed. Each begins with its
 * guard. */
struct stack_pool {
    struct fiber **free; /* free stacks, as pointers to their fiber objects; last in, first out */
    size_t free_count;   /* entries in free */
    size_t free_least;   /* lowest free_count since the last trim: stacks below it were not used */
    size_t cold_count;   /* number of stacks at the start of free without memory; only those below
                            free_least count */
    bool has_checks;     /* some stacks have canaries or are painted */
    bool is_painted;     /* all stacks are painted */
    char *region;        /* the mapping */
    size_t stack_size;   /* bytes per stack, guard included */
    size_t guard_size;   /* bytes of the guard: one page */
    size_t most;         /* maximum number of stacks */
    size_t prepared;     /* stacks that are cut so far */
    size_t guarded;      /* of these, those whose guard faults */
    size_t protect_left; /* number of further mprotect guards that are allowed */
    enum fiber_guard guard;           /* method for the next stack */
    size_t high_water;                /* bytes; most that an ended fiber has used, if painted */
    void (*say)(const char *message); /* from the options, or NULL */
};

extern struct stack_pool stack_pool FIBER_HIDDEN;

/* See fiber_pool_init, fiber_pool_destroy. */
int stack_pool_init(const struct fiber_options *options) FIBER_HIDDEN;
void stack_pool_destroy(void) FIBER_HIDDEN;

/* Cuts more stacks and adds them to free. False with errno. */
bool stack_pool_grow(void) FIBER_HIDDEN __attribute__((cold, noinline));

/* Number of the stack that the address is in; the address must be in the region. */
static inline size_t stack_index(const void *address)
{
    return (size_t) ((const char *) address - stack_pool.region) / stack_pool.stack_size;
}

/* Lowest usable byte of a stack, above its guard. */
static inline char *stack_low(size_t index)
{
    return stack_pool.region + index * stack_pool.stack_size + stack_pool.guard_size;
}

/* The fiber object of a stack. */
struct fiber *stack_fiber(size_t index) FIBER_HIDDEN;

/* Writes canary and paint before a fiber starts; only if has_checks. */
void stack_prepare(struct fiber *fiber) FIBER_HIDDEN;
/* Aborts if the fiber has overwritten its canary; only if has_checks. Called at each switch away
   from it. */
void stack_check(struct fiber *fiber) FIBER_HIDDEN;
/* stack_check, and measures the use of the stack, at the fiber's end; only if has_checks. */
void stack_measure(struct fiber *fiber) FIBER_HIDDEN;

/* Takes a free stack; NULL with errno. */
static inline struct fiber *stack_take(void)
{
    struct stack_pool *pool = &stack_pool;

    if (likely_false(pool->free_count == 0) && !stack_pool_grow()) {
        return NULL;
    }
    size_t count = --pool->free_count;

    if (count < pool->free_least) {
        pool->free_least = count;
    }
    return pool->free[count];
}

#endif
