/* Accept-Encoding: the weight of a content coding (RFC 9110, 12.5.3). */
#ifndef HTTP_MESSAGE_ACCEPT_ENCODING_H
#define HTTP_MESSAGE_ACCEPT_ENCODING_H

#include "base/str.h"

#define WEIGHT_NONE (-1) /* the coding is not listed */

/* The weight of a coding in thousandths, 0 (not acceptable) to 1000, or WEIGHT_NONE. The first
 * occurrence counts. Spaces separate codings as well, as in nginx; a malformed weight ("1.5", "x")
 * counts as 0. Names are case-insensitive; "*" is treated like any name. */
int accept_encoding_weight(struct str accepted, struct str coding);

/* The least weight in the parameters of an item of Accept or Accept-Encoding, "q=0.5; level=1";
 * 1000 if there is none. */
int accept_parameters_weight(struct str parameters);

#endif
