/*
 * Which content coding a response gets: one choice among all that are configured at its place, by
 * what the client likes (Accept-Encoding, RFC 9110, 12.5.3).
 */
#ifndef HTTP_CODINGS_CHOICE_H
#define HTTP_CODINGS_CHOICE_H

#include <stdbool.h>

#include "http/routing/hooks.h"

struct request;

/* Those that there are. At equal weight brotli goes before zstd, and zstd before gzip: smaller
 * answers first. */
extern const struct content_coding coding_brotli, coding_zstd, coding_gzip;

/*
 * How much the client likes a coding, in thousandths; 0: it does not take it, likes the body as it
 * is better, or the rules of the place are against it. "*" stands for codings that are not named
 * where the client refuses bodies as they are; elsewhere it asks for nothing, as with nginx. Never
 * anything for subrequests: theirs are parts of a response.
 */
int request_coding_weight(struct request *request, const struct content_coding *coding);

/*
 * The coding that the filters shall give the body, or NULL. Asked first by the first of the
 * filters, when status, type, length and fields of the response are known; then it is kept. Sets
 * Vary where it depends on the client. One that has a coding keeps it, whether a backend or a
 * module gave it, and so does one that is a part of a body.
 */
const struct content_coding *response_coding(struct request *request);

#endif
