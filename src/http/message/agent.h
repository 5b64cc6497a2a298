/* Recognizes old browsers by User-Agent, for directives that treat them differently. Pure
 * functions. */
#ifndef HTTP_MESSAGE_AGENT_H
#define HTTP_MESSAGE_AGENT_H

#include <stdbool.h>

#include "base/str.h"

/* Microsoft Internet Explorer; not an Opera that contains its name. */
bool agent_is_msie(struct str agent);
/* Versions 4 to 6 of it, except version 6 with SP2, which contains "SV1". */
bool agent_is_msie6(struct str agent);

#endif
