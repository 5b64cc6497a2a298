/* Filters of response bodies. Implemented in response.c. */
#ifndef HTTP_REQUEST_BODY_FILTER_H
#define HTTP_REQUEST_BODY_FILTER_H

#include "event/loop.h"
#include "http/request/request.h"
#include "http/request/wire.h"

/* A filter of response bodies. It calls next when it has something; next takes all it is given (or
 * is dead), so nothing has to be kept. */
struct body_filter {
    struct body_filter *next; /* NULL: the wire */
    /* The next piece; MAY WAIT. False: the client is gone, stop. */
    bool (*send)(struct body_filter *filter, struct request *request,
                 const struct body_piece *piece, bool is_last);
    bool takes_files; /* it cuts pieces of files by their offsets: filters that read them come after
                         it */
};

/* The piece goes nowhere: the request is over its memory. Gives false. */
bool response_drop(const struct body_piece *piece);

/*
 * The end of all filters. As many bytes go to the wire as the head has announced: what is more, or
 * the end before that, ends the connection, or the stream, in place of the response (RFC
 * 9112, 6.3). Logged. MAY WAIT.
 */
bool response_to_wire(struct request *request, const struct body_piece *piece, bool is_last);

/*
 * A filter of the response, or the wire, did not take a piece: a part of the body is gone, so that
 * nothing more of it is sent, and the connection or the stream ends without an end of the body. Not
 * where a filter has withdrawn the response. Gives false.
 */
bool response_break(struct request *request);

/* What a filter calls with its output: the next filter, or the wire. MAY WAIT. */
static inline bool body_filter_next(struct body_filter *filter, struct request *request,
                                    const struct body_piece *piece, bool is_last)
{
    if (request->main->is_over_memory || request->response.is_broken) {
        return response_drop(piece);
    }
    bool is_sound = filter->next != NULL ? filter->next->send(filter->next, request, piece, is_last)
                                         : response_to_wire(request, piece, is_last);
    return is_sound || response_break(request);
}

/* Puts a filter before those that are there: it sees what the handler gives (ranges, copies of
 * files). */
static inline void response_add_filter(struct request *request, struct body_filter *filter)
{
    filter->next = request->response.filters;
    request->response.filters = filter;
}

/*
 * Behind a piece: filters work, and may leave so little of a body that the client is never waited
 * for. Other requests get their turn. MAY WAIT. False: stop.
 */
static inline bool response_goes_on(const struct request *request)
{
    return !request->response.needs_memory || loop_share();
}

/*
 * Puts a filter after those that are there, next to the wire: for filters that change the body, so
 * that bytes pass them in the order in which the header filters ran (sub, ssi, gzip).
 */
static inline void response_append_filter(struct request *request, struct body_filter *filter)
{
    struct body_filter **at = &request->response.filters;

    while (*at != NULL) {
        at = &(*at)->next;
    }
    filter->next = NULL;
    *at = filter;
}

#endif
