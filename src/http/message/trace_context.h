/* Trace context of requests: the fields traceparent and tracestate (W3C Trace Context). Pure
 * functions. */
#ifndef HTTP_MESSAGE_TRACE_CONTEXT_H
#define HTTP_MESSAGE_TRACE_CONTEXT_H

#include <stdbool.h>

#include "base/str.h"

enum {
    TRACE_ID_SIZE = 16,     /* bytes */
    SPAN_ID_SIZE = 8,       /* bytes */
    TRACEPARENT_SIZE = 55,  /* characters of version 00: 00-TRACE-SPAN-FLAGS */
    TRACE_FLAG_SAMPLED = 1, /* the caller records it */
    TRACESTATE_MOST = 512,  /* characters that have to be passed on */
    TRACESTATE_MEMBERS = 32,
};

struct traceparent {
    unsigned char trace_id[TRACE_ID_SIZE]; /* not all zero */
    unsigned char span_id[SPAN_ID_SIZE];   /* not all zero */
    unsigned char flags;                   /* TRACE_FLAG_SAMPLED; others are not defined */
};

/*
 * Reads a field value (3.2.2). One of a later version is read as far as version 00 has it. False:
 * it is none, and *out is not to be used; the request begins a trace of its own.
 */
bool traceparent_parse(struct str value, struct traceparent *out);
/* Writes TRACEPARENT_SIZE characters of version 00; gives the place after them. */
char *traceparent_put(char *at, const struct traceparent *context);

/* Is the value a list of vendors' members (3.3.1), within what has to be passed on? */
bool tracestate_is_valid(struct str value);

#endif
