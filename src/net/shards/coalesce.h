/* Accept coalescing: under many short connections one wake-up serves several; private to this
 * package. */
#ifndef NET_SHARDS_COALESCE_H
#define NET_SHARDS_COALESCE_H

#include <stdbool.h>
#include <stdint.h>

/* How a worker looks for more when it has emptied its accept queue. */
enum coalesce_level {
    COALESCE_NOT,   /* at once */
    COALESCE_SHORT, /* after some 60 us, where nothing at all is ready */
    COALESCE_LONG,  /* after some 150 us */
    COALESCE_LEVELS
};

/*
 * The level in force, learned from what each does to the rate of work. Pure: times and counts are
 * handed in.
 */
struct coalescer {
    enum coalesce_level level; /* of the window under way */
    enum coalesce_level best;  /* by the last trial */
    bool is_in_trial;
    unsigned phase;                /* of the trial */
    unsigned misses;               /* windows running whose pauses found too little */
    uint64_t began_ns;             /* of the window */
    uint64_t work_began;           /* work done until then */
    uint64_t accepts;              /* in the window */
    uint64_t pauses_began;         /* pauses made until then */
    uint64_t next_trial_ns;        /* not before */
    uint64_t period_ns;            /* from one trial to the next */
    double rates[COALESCE_LEVELS]; /* sums over the phases of a trial */
};

/* A turn accepted n connections; `pauses` were made until now. True: coalescer_judge is to be
 * called. */
bool coalescer_accepted(struct coalescer *coalescer, uint64_t now_ns, unsigned n, uint64_t pauses);

/*
 * The end of a window. work: a counter of requests and connections of this worker and of those that
 * share its listening sockets.
 */
void coalescer_judge(struct coalescer *coalescer, uint64_t now_ns, uint64_t work, uint64_t pauses);

/* This worker, one of `slots`, starts to accept; forgets what was learned. */
void coalesce_begin(unsigned slots);

/* This worker accepts again after it had stood by: takes over what the others have learned since.
 */
void coalesce_resume(void);

/* Is the accept queue to be emptied in one go, so that a pause can follow? */
bool coalesce_is_on(void);

/* A turn accepted n connections; is_drained: and nothing was left in the accept queue. May pause
 * the loop. */
void coalesce_after(unsigned n, bool is_drained);

#endif
