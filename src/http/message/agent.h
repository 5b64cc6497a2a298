/* Old browsers, by their User-Agent: what several directives do differently for them. Pure
 * functions. */
#ifndef HTTP_MESSAGE_AGENT_H
#define HTTP_MESSAGE_AGENT_H

#include <stdbool.h>

#include "base/str.h"

/* Microsoft's Internet Explorer; not an Opera that gives its name. */
bool agent_is_msie(struct str agent);
/* Version 4 to 6 of it; not version 6 with the service pack that names itself SV1. */
bool agent_is_msie6(struct str agent);

#endif
