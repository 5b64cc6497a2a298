/* The connection request that a client of RDP begins with: TPKT (RFC 1006, 6), X.224 (13.3), and
 * the cookie or the routing token in it (MS-RDPBCGR, 2.2.1.1). */
#ifndef STREAM_MODULES_RDP_PREREAD_REQUEST_H
#define STREAM_MODULES_RDP_PREREAD_REQUEST_H

#include <stdbool.h>

#include "base/str.h"

enum rdp_result {
    RDP_MORE, /* it is not whole */
    RDP_DONE, /* the cookie is known */
    RDP_NONE, /* this is no connection request, or a broken one */
};

/*
 * Looks at all that has come so far; asked again with more of the same input, it looks at a few
 * bytes until the request is whole. The cookie is a slice of the input: the line without "Cookie: "
 * and its end, as "mstshash=name"; empty where there is none.
 */
enum rdp_result rdp_request_read(struct str input, struct str *cookie);

/* What a cookie has after "name=", if it has this name, in whatever case; false if it has another,
 * or none. */
bool rdp_cookie_value(struct str cookie, struct str name, struct str *out);

#endif
