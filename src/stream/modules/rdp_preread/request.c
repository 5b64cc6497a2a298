/* Parses the connection request of RDP. */
#include "stream/modules/rdp_preread/request.h"

enum {
    TPKT_HEAD = 4, /* version, reserved, total length */
    TPKT_VERSION = 3,
    REQUEST_HEAD = 7,    /* length of the remainder, type, two references, class */
    REQUEST_TYPE = 0xe0, /* the lower half is the credit */
    PARTS_AT = TPKT_HEAD + REQUEST_HEAD,
};

static unsigned byte_at(struct str s, size_t at)
{
    return (unsigned char) s.data[at];
}

/* The first line after the head; empty if it is not text: the negotiation structure begins with its
 * type, 1. */
static struct str first_line(struct str parts)
{
    for (size_t i = 0; i + 1 < parts.len && byte_at(parts, i) >= ' '; i++) {
        if (parts.data[i + 1] == '\r') {
            return i + 2 < parts.len && parts.data[i + 2] == '\n' ? str_head(parts, i + 1)
                                                                  : STR_NONE;
        }
    }
    return STR_NONE;
}

enum rdp_result rdp_request_read(struct str input, struct str *cookie)
{
    static const struct str prefix = STR_INIT("Cookie:");

    *cookie = STR_NONE;
    if (input.len > 0 && byte_at(input, 0) != TPKT_VERSION) {
        return RDP_NONE;
    }
    if (input.len < PARTS_AT) {
        return RDP_MORE;
    }
    size_t all = byte_at(input, 2) << 8 | byte_at(input, 3);
    size_t size = TPKT_HEAD + 1 + byte_at(input, TPKT_HEAD);
    if (size < PARTS_AT || size > all || (byte_at(input, TPKT_HEAD + 1) & 0xf0) != REQUEST_TYPE) {
        return RDP_NONE;
    }
    if (input.len < size) {
        return RDP_MORE;
    }
    struct str line = first_line(str_skip(str_head(input, size), PARTS_AT));
    if (line.len >= prefix.len && str_starts_nocase(line, prefix)) {
        line = str_skip(line, prefix.len);
        while (line.len != 0 && line.data[0] == ' ') {
            line = str_skip(line, 1);
        }
    }
    *cookie = line;
    return RDP_DONE;
}

bool rdp_cookie_value(struct str cookie, struct str name, struct str *out)
{
    if (cookie.len <= name.len || cookie.data[name.len] != '=' ||
        !str_starts_nocase(cookie, name)) {
        return false;
    }
    *out = str_skip(cookie, name.len + 1);
    return true;
}
