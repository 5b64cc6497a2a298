/* The connection request that an RDP client sends first: TPKT (RFC 1006, 6), X.224 (13.3), and the
 * cookie or routing token in it (MS-RDPBCGR, 2.2.1.1). */
#ifndef STREAM_MODULES_RDP_PREREAD_REQUEST_H
#define STREAM_MODULES_RDP_PREREAD_REQUEST_H

#include <stdbool.h>

#include "base/str.h"

enum rdp_result {
    RDP_MORE, /* the request is not complete */
    RDP_DONE, /* the cookie is known */
    RDP_NONE, /* not a connection request, or malformed */
};

/*
 * Parses all input so far. Until the request is complete, each call looks at a few bytes only. The
 * cookie is a slice of the input: the line without "Cookie: " and CRLF, as "mstshash=name"; empty
 * if there is none.
 */
enum rdp_result rdp_request_read(struct str input, struct str *cookie);

/* The value after "name=" of a cookie with this name, case-insensitive. False: the cookie has
 * another name, or there is none. */
bool rdp_cookie_value(struct str cookie, struct str name, struct str *out);

#endif
