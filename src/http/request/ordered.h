/* What several fibers give at one time, sent in the order of their places in a response. */
#ifndef HTTP_REQUEST_ORDERED_H
#define HTTP_REQUEST_ORDERED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "http/request/body_filter.h"
#include "http/request/request.h"

/* Bytes that a place holds while others come first, and those that all of the owner's hold; who
 * gives more waits. */
#define ORDERED_HELD_MAX 32768
#define ORDERED_OWN_MAX (256 * 1024)

/*
 * The output of a response to which subrequests add beside its owner. The one that adds something,
 * or ends, sends what is due: one fiber at a time, so a filter sees one. Zero but for filter and
 * request at first.
 */
struct ordered {
    struct body_filter *filter; /* after which all of it goes */
    struct request *request;    /* the request in whose response all of it goes */
    struct list slots;          /* struct ordered_slot, the one in turn first */
    struct wait_point progress; /* the owner: a place went */
    size_t own_held;            /* bytes of the owner's that wait */
    bool is_sending;            /* a fiber sends now */
    bool is_dead;               /* the client is gone: what is given is dropped */
};

/* A part of the output that is not all sent. On the heap; goes when it has ended and was sent. */
struct ordered_slot {
    struct list node;
    struct ordered *ordered;
    struct body_filter filter; /* what is given to it takes this place */
    struct buf held;           /* given, not sent */
    struct wait_point room;    /* who gives: it is in turn, or what it held went */
    bool is_flush;             /* what is held shall leave now */
    bool has_ended;            /* no more comes, but from the owner */
    bool is_own;               /* of what the owner gives */
};

void ordered_init(struct ordered *ordered, struct body_filter *filter, struct request *request);
/* A place after all that was given so far; until ordered_end its user has it. */
struct ordered_slot *ordered_slot(struct ordered *ordered);
/* No more comes. Sends what is due. MAY WAIT. */
void ordered_end(struct ordered_slot *slot);
/* What the owner gives, after all places. After the last piece all was sent. MAY WAIT. False: the
 * client is gone, or the wait was cancelled. */
bool ordered_send(struct ordered *ordered, const struct body_piece *piece, bool is_last);
/* Bytes that wait for their turn; more than any limit where the next ones might have to wait. */
uint64_t ordered_backlog(const struct ordered_slot *slot);

#endif
