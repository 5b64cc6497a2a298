/* Work of a request that blocks, or costs much: on threads, while its fiber waits. */
#ifndef HTTP_REQUEST_OFFLOAD_H
#define HTTP_REQUEST_OFFLOAD_H

#include "base/str.h"
#include "event/loop.h"
#include "http/message/handler_result.h"

struct request;

/* What clients have at work in one pool, by a hash: those that meet there share. A client of IPv6
 * is its /64. */
#define OFFLOAD_BUCKETS 1024
struct offload_shares {
    struct offload_share {
        uint32_t inside;  /* jobs that are with the pool */
        uint32_t waiting; /* requests that wait for a place */
    } clients[OFFLOAD_BUCKETS];
    uint32_t inside;             /* of all */
    struct list waiters;         /* first come first; all zero: none ever was */
    struct offload_shares *next; /* of another target of the same pool */
    char *target;                /* owned; NULL: of work that has none */
};

/* The threads for one kind of work; `thread_pool NAME …` of the configuration comes before these
 * numbers. */
struct offload_pool {
    struct str name;     /* as in thread_pool */
    const char *waiting; /* what waits, for the log: "passwords wait to be verified" */
    unsigned threads;    /* where nothing is configured */
    unsigned queue;      /* jobs that may wait, there */
    /* Places are given out by shares: of those who wait the one whose client has the fewest is
     * next. As many may wait of each client as the pool has room for. */
    struct offload_shares *shares;
    /* Work may wait for others, for as long as these like: then a client has no more threads than
     * it leaves idle. One has half of them, two that stall have three quarters; there is always one
     * for another. */
    bool may_stall;
};

/*
 * thread_pool_call for a request: work(arg) runs on a thread, where there is no arena, no log and
 * no request. MAY WAIT. THREAD_CALL_REFUSED, when too many wait, is logged and counted. arg may not
 * stand on the caller's stack, but in the arena.
 */
enum thread_called offload_run(const struct offload_pool *pool, struct request *request,
                               void (*work)(void *arg), void *arg);

/* The same where the work waits for somebody else, who is one of a few: each of these targets has
 * threads and a queue of its own. */
enum thread_called offload_run_for(const struct offload_pool *pool, struct request *request,
                                   const char *target, void (*work)(void *arg), void *arg);

/* What that means for a handler: HANDLER_NEXT: it was done; else what it returns, a 503 where too
 * many wait. */
enum handler_result offload_result(struct request *request, enum thread_called called);

#endif
