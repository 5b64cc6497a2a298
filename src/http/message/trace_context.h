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
    TRACE_FLAG_SAMPLED = 1, /* the caller records the trace */
    TRACESTATE_MOST = 512,  /* length that must be passed on */
    TRACESTATE_MEMBERS = 32,
};

struct traceparent {
    unsigned char trace_id[TRACE_ID_SIZE]; /* not all zero */
    unsigned char span_id[SPAN_ID_SIZE];   /* not all zero */
    unsigned char flags;                   /* TRACE_FLAG_SAMPLED; others are undefined */
};

/* Parses a field value (3.2.2). One of a later version is parsed as far as it has the format of
 * version 00. False: malformed, and *out is undefined; the request starts a new trace. */
bool traceparent_parse(struct str value, struct traceparent *out);
/* Writes TRACEPARENT_SIZE characters of version 00; returns the end. */
char *traceparent_put(char *at, const struct traceparent *context);

/* Is the value a valid list of members (3.3.1), not longer than what must be passed on? */
bool tracestate_is_valid(struct str value);

#endif
