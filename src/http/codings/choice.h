/* The content coding of a response: one choice among all that are configured in the location, by
 * the client's preference (Accept-Encoding, RFC 9110, 12.5.3). */
#ifndef HTTP_CODINGS_CHOICE_H
#define HTTP_CODINGS_CHOICE_H

#include <stdbool.h>

#include "http/routing/hooks.h"

struct request;

/* All codings. With equal weights brotli precedes zstd, and zstd precedes gzip: smaller responses
 * first. */
extern const struct content_coding coding_brotli, coding_zstd, coding_gzip;

/* The client's weight for a coding, in thousandths; 0: it does not accept it, prefers identity, or
 * the rules of the location forbid it. "*" stands for codings that are not named if the client
 * rejects identity; otherwise it is ignored, as in nginx. Always 0 for subrequests, which are parts
 * of a response. */
int request_coding_weight(struct request *request, const struct content_coding *coding);

/* The coding with which filters must encode the body, or NULL. Decided when the first filter calls
 * it, after status, type, length and fields of the response are known. Adds Vary if the choice
 * depends on the client. A response with a content coding, from a backend or a module, keeps it; a
 * partial response is not encoded. */
const struct content_coding *response_coding(struct request *request);

#endif
