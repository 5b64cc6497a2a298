/* Accept-Encoding: how much a client likes a content coding (RFC 9110, 12.5.3). */
#ifndef HTTP_MESSAGE_ACCEPT_ENCODING_H
#define HTTP_MESSAGE_ACCEPT_ENCODING_H

#include "base/str.h"

#define WEIGHT_NONE (-1) /* the coding is not mentioned */

/*
 * The weight of a coding in thousandths, 0 (refused) to 1000, or WEIGHT_NONE. The first mention
 * decides. Blanks part codings, too, as with nginx; a weight that is none ("1.5", "x") asks for
 * nothing. Names are compared in any case;
 * "*" is a name like others.
 */
int accept_encoding_weight(struct str accepted, struct str coding);

/* The parameters after what an Accept or Accept-Encoding names, "q=0.5; level=1": the least weight
 * among them, 1000 without one. */
int accept_parameters_weight(struct str parameters);

#endif
