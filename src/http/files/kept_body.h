/* Sends bodies from the cache. Implemented in file.c. */
#ifndef HTTP_FILES_KEPT_BODY_H
#define HTTP_FILES_KEPT_BODY_H

#include "cache/cache.h"
#include "http/request/request.h"

/* The whole body if it is in memory, else empty: for response.whole. */
struct str kept_body_whole(const struct cache_access *access);
/* Sends the body found for this access, after response_start. MAY WAIT. False: the client is
 * gone. */
bool response_send_kept(struct request *request, const struct cache_access *access, bool is_last);

#endif
