/* Status codes: phrases of the status line and titles of the built-in pages. */
#ifndef HTTP_MESSAGE_STATUS_H
#define HTTP_MESSAGE_STATUS_H

#include "base/str.h"

/* "Not Found"; empty for a code without a phrase. */
struct str status_phrase(unsigned status);

/* "404 Not Found", the title of the built-in page; empty when the code has no page. */
struct str status_title(unsigned status);

#endif
