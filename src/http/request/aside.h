/* Work of a request that blocks, or costs much: on threads, while its fiber waits. */
#ifndef HTTP_REQUEST_ASIDE_H
#define HTTP_REQUEST_ASIDE_H

#include "base/str.h"
#include "event/loop.h"
#include "http/request/request.h"

/* What clients have at work in one pool, by a hash of their addresses: those that meet there share. */
#define ASIDE_CLIENTS 1024
struct aside_shares {
    struct aside_share {
        uint32_t inside;     /* jobs that are with the pool */
        uint32_t waiting;    /* requests that wait for a place of their client */
        struct list waiters; /* … first come, first served; all zero: none ever was */
    } of[ASIDE_CLIENTS];
};

/* The threads for one kind of work; `thread_pool NAME …` of the configuration comes before these numbers. */
struct aside_pool {
    struct str name;     /* as in thread_pool */
    const char *waiting; /* what waits, for the log: "passwords wait to be verified" */
    unsigned threads;    /* where nothing is configured */
    unsigned queue;      /* jobs that may wait, there */
    /* Where a client decides how long work takes: it has half of the threads at a time, and further requests of its wait
     * outside, as many as the pool has room for. NULL: who comes first has all. */
    struct aside_shares *shares;
};

/*
 * thread_pool_call for a request: work(arg) runs on a thread, where there is no arena, no log and no request. MAY WAIT.
 * THREAD_CALL_REFUSED, when too many wait, is logged and counted. arg may not stand on the caller's stack, but in the arena.
 */
enum thread_called aside_run(const struct aside_pool *pool, struct request *request,
                             void (*work)(void *arg), void *arg);

/* What that means for a handler: FLOW_NEXT: it was done; else what it returns, a 503 where too many wait. */
enum flow aside_flow(struct request *request, enum thread_called called);

#endif
