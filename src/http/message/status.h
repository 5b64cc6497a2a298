/* Status codes: reason phrases, and titles of the built-in pages. */
#ifndef HTTP_MESSAGE_STATUS_H
#define HTTP_MESSAGE_STATUS_H

#include "base/str.h"

/* "Not Found"; empty if there is none. */
struct str status_phrase(unsigned status);

/* "404 Not Found", the title of the built-in page; empty if there is none. */
struct str status_title(unsigned status);

#endif
