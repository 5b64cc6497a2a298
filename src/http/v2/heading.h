/* A header block on its way to a request, or to its trailers. */
#ifndef HTTP_V2_HEADING_H
#define HTTP_V2_HEADING_H

#include "http/request/stream_head.h"
#include "http/v2/v2.h"

/* All fields of the block (heading.c). False: the connection has failed. */
bool heading_decode(struct v2_connection *c, struct stream_head *head, struct str block);

#endif
