/* Accept coalescing: under many short connections one wakeup serves several; private to this
 * package. */
#ifndef NET_SHARDS_COALESCE_H
#define NET_SHARDS_COALESCE_H

#include <stdbool.h>
#include <stdint.h>

/* When a worker that has emptied its accept queue looks for more connections. */
enum coalesce_level {
    COALESCE_NOT,   /* at once */
    COALESCE_SHORT, /* after about 60 us, if no other event is ready */
    COALESCE_LONG,  /* after about 150 us */
    COALESCE_LEVELS
};

/* Learns which level gives the highest rate of work. Pure: times and counts are arguments. */
struct coalescer {
    enum coalesce_level level; /* of the current window */
    enum coalesce_level best;  /* according to the last trial */
    bool is_in_trial;
    unsigned phase;                /* window of the trial */
    unsigned misses;               /* consecutive windows whose pauses gathered too little */
    uint64_t began_ns;             /* start of the window */
    uint64_t work_began;           /* work done until then */
    uint64_t accepts;              /* in the window */
    uint64_t pauses_began;         /* pauses made until then */
    uint64_t next_trial_ns;        /* the next trial is not before */
    uint64_t period_ns;            /* time between trials */
    double rates[COALESCE_LEVELS]; /* sums over the windows of a trial */
};

/* A turn accepted n connections; `pauses` have been made so far. True: call coalescer_judge. */
bool coalescer_accepted(struct coalescer *coalescer, uint64_t now_ns, unsigned n, uint64_t pauses);

/*
 * Ends a window. work: a count of requests and connections of this worker and of those that share
 * its listening sockets.
 */
void coalescer_judge(struct coalescer *coalescer, uint64_t now_ns, uint64_t work, uint64_t pauses);

/* This worker, one of `slots`, starts to accept; drops what was learned. */
void coalesce_begin(unsigned slots);

/* This worker accepts again after standby: uses what the others have learned since. */
void coalesce_resume(void);

/* Should the accept queue be emptied at once, so that a pause can follow? */
bool coalesce_is_on(void);

/* A turn accepted n connections; is_drained: the accept queue is empty. May pause the loop. */
void coalesce_after(unsigned n, bool is_drained);

#endif
