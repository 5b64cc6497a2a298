/*
 * Accept coalescing, as network cards coalesce interrupts. With thousands of short connections a
 * second each new one wakes a sleeping worker, and the side that connects pays for the wakeup: the
 * kernel's receive path, or a client on the same machine. A worker that has emptied its accept
 * queue therefore pauses for the time of a few connections, and then accepts all that have arrived.
 *
 * A pause must not delay clients that have nothing else to do. The number of clients is unknown
 * here, so the worker measures: it runs some windows with pauses and some without, and keeps what
 * serves more. docs/decisions.md has the figures.
 */
#include "net/shards/coalesce.h"

#include "base/clock.h"
#include "event/loop.h"
#include "net/shards/slots.h"

#define MS UINT64_C(1000000)
#define WINDOW_NS (10 * MS)
#define ACCEPTS_PER_MS 2    /* below this rate there are no pauses */
#define ACCEPTS_PER_PAUSE 2 /* with fewer a pause is not worth its own wakeup */
#define PAUSES_TO_JUDGE 8   /* pauses of a window before ACCEPTS_PER_PAUSE is checked */
#define MISSES_MOST 3       /* consecutive windows below ACCEPTS_PER_PAUSE, outside a trial */
#define PERIOD_LEAST_NS (100 * MS) /* between trials; doubled while they give the same result */
#define PERIOD_MOST_NS (8000 * MS)
/* Share of the best rate that a longer pause must reach: it saves CPU time as well. */
#define LOSS_MOST 0.98

/* The kernel adds 50 us to each pause. */
static const struct loop_pause pauses[COALESCE_LEVELS] = {
    [COALESCE_SHORT] = {.us = 10, .is_last_resort = true},
    [COALESCE_LONG] = {.us = 100},
};

/* The level of each window of a trial. The order is symmetric, so that a steadily growing or
 * shrinking load favours none. */
static const enum coalesce_level phases[] = {COALESCE_LONG, COALESCE_SHORT, COALESCE_NOT,
                                             COALESCE_NOT,  COALESCE_SHORT, COALESCE_LONG};
#define PHASES (sizeof(phases) / sizeof(*phases))

static struct coalescer own;
static unsigned slots; /* workers that share the load */

static void begin_trial(struct coalescer *coalescer)
{
    coalescer->is_in_trial = true;
    coalescer->phase = 0;
    for (unsigned level = 0; level < COALESCE_LEVELS; level++) {
        coalescer->rates[level] = 0;
    }
}

static void end_trial(struct coalescer *coalescer, uint64_t now_ns, enum coalesce_level best)
{
    bool is_same = best == coalescer->best && coalescer->period_ns != 0;

    coalescer->period_ns = is_same ? coalescer->period_ns * 2 : PERIOD_LEAST_NS;
    if (coalescer->period_ns > PERIOD_MOST_NS) {
        coalescer->period_ns = PERIOD_MOST_NS;
    }
    coalescer->is_in_trial = false;
    coalescer->misses = 0;
    coalescer->best = best;
    coalescer->next_trial_ns = now_ns + coalescer->period_ns;
}

/* The longest pause that costs next to nothing. */
static enum coalesce_level best_level(const struct coalescer *coalescer)
{
    double most = 0;
    enum coalesce_level best = COALESCE_LONG;

    for (unsigned level = 0; level < COALESCE_LEVELS; level++) {
        most = coalescer->rates[level] > most ? coalescer->rates[level] : most;
    }
    while (coalescer->rates[best] < most * LOSS_MOST) {
        best--;
    }
    return best;
}

/* Records a window of a trial. */
static void judge_phase(struct coalescer *coalescer, uint64_t now_ns, double rate)
{
    coalescer->rates[phases[coalescer->phase]] += rate;
    if (++coalescer->phase == PHASES) {
        end_trial(coalescer, now_ns, best_level(coalescer));
    }
}

static bool pauses_gather_too_little(const struct coalescer *coalescer, uint64_t pauses)
{
    uint64_t made = pauses - coalescer->pauses_began;

    return made >= PAUSES_TO_JUDGE && coalescer->accepts < made * ACCEPTS_PER_PAUSE;
}

static void end_window(struct coalescer *coalescer, uint64_t now_ns, uint64_t work)
{
    uint64_t took_ns = now_ns - coalescer->began_ns;
    bool is_busy = coalescer->accepts * MS >= took_ns * ACCEPTS_PER_MS;

    if (coalescer->level != COALESCE_NOT) {
        coalescer->misses = 0;
    }
    if (!is_busy) {
        coalescer->is_in_trial = false;
    } else if (coalescer->is_in_trial) {
        judge_phase(coalescer, now_ns, (double) (work - coalescer->work_began) / (double) took_ns);
    } else if (now_ns >= coalescer->next_trial_ns) {
        begin_trial(coalescer);
    }
    if (!is_busy) {
        coalescer->level = COALESCE_NOT;
    } else {
        coalescer->level = coalescer->is_in_trial ? phases[coalescer->phase] : coalescer->best;
    }
}

bool coalescer_accepted(struct coalescer *coalescer, uint64_t now_ns, unsigned n, uint64_t pauses)
{
    coalescer->accepts += n;
    return now_ns - coalescer->began_ns >= WINDOW_NS || pauses_gather_too_little(coalescer, pauses);
}

/* The pauses of this window gathered too little: leaves them out for now, as another worker may
 * have joined, or until the next trial. */
static void skip_pauses(struct coalescer *coalescer, uint64_t now_ns)
{
    if (coalescer->is_in_trial || ++coalescer->misses == MISSES_MOST) {
        end_trial(coalescer, now_ns, COALESCE_NOT);
    }
    coalescer->level = COALESCE_NOT;
}

void coalescer_judge(struct coalescer *coalescer, uint64_t now_ns, uint64_t work, uint64_t pauses)
{
    if (pauses_gather_too_little(coalescer, pauses)) {
        skip_pauses(coalescer, now_ns);
    } else {
        end_window(coalescer, now_ns, work);
    }
    coalescer->began_ns = now_ns;
    coalescer->work_began = work;
    coalescer->pauses_began = pauses;
    coalescer->accepts = 0;
}

void coalesce_begin(unsigned count)
{
    own = (struct coalescer){.began_ns = clock_now.now_ns};
    slots = count;
}

/* The best level + 1, shared by the workers; 0 = no trial has ended yet. */
static _Atomic uint32_t *shared_best(void)
{
    return &shard_slot(0)->coalesce;
}

void coalesce_resume(void)
{
    uint32_t best = atomic_load_explicit(shared_best(), memory_order_relaxed);

    coalesce_begin(slots);
    if (best != 0 && best <= COALESCE_LEVELS) {
        own.best = (enum coalesce_level)(best - 1);
        own.next_trial_ns = clock_now.now_ns + PERIOD_LEAST_NS;
    }
}

bool coalesce_is_on(void)
{
    return own.level != COALESCE_NOT;
}

void coalesce_after(unsigned n, bool is_drained)
{
    uint64_t now_ns = clock_now.now_ns;

    if (coalescer_accepted(&own, now_ns, n, loop_pauses())) {
        bool was_in_trial = own.is_in_trial;

        coalescer_judge(&own, now_ns, shard_slots_work(slots), loop_pauses());
        if (was_in_trial && !own.is_in_trial) {
            atomic_store_explicit(shared_best(), own.best + 1, memory_order_relaxed);
        }
    }
    if (own.level != COALESCE_NOT && is_drained) {
        loop_pause(&pauses[own.level]);
    }
}
