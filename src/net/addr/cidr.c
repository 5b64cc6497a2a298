/* Networks: "10.0.0.0/8", "::/0", "unix:", "all". */
#include "net/addr/addr.h"

#include <string.h>

#include "base/parse.h"

bool cidr_parse(struct str text, struct cidr *out)
{
    struct str address = text;
    struct str bits_text = STR_NONE;
    const char *slash = str_find_char(text, '/');
    struct addr addr;
    uint64_t bits;

    memset(out, 0, sizeof(*out));
    if (str_is(text, "all")) {
        return true;
    }
    if (str_is(text, "unix:")) {
        out->family = AF_UNIX;
        return true;
    }
    if (slash != NULL) {
        address = str_from(text.data, slash);
        bits_text = str_from(slash + 1, text.data + text.len);
    }
    if (!addr_parse_ip(address, &addr)) {
        return false;
    }
    out->family = addr.any.sa_family;
    size_t size = out->family == AF_INET ? 4 : 16;
    if (out->family == AF_INET) {
        memcpy(out->address, &addr.v4.sin_addr, size);
    } else {
        memcpy(out->address, &addr.v6.sin6_addr, size);
    }
    bits = size * 8;
    if (slash != NULL && (!parse_uint(bits_text, &bits) || bits > size * 8)) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        unsigned in_byte = bits > i * 8 ? (unsigned) (bits - i * 8) : 0;

        out->mask[i] = in_byte >= 8 ? 0xff : (unsigned char) (0xff00 >> in_byte);
        if (out->address[i] & ~out->mask[i]) {
            out->has_low_bits = true;
            out->address[i] &= out->mask[i];
        }
    }
    return true;
}

static bool matches(const struct cidr *cidr, const unsigned char *address, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if ((address[i] & cidr->mask[i]) != cidr->address[i]) {
            return false;
        }
    }
    return true;
}

bool cidr_contains(const struct cidr *cidr, const struct addr *addr)
{
    if (cidr->family == 0) {
        return true;
    }
    if (addr->len == 0) {
        return false;
    }
    int family = addr->any.sa_family;
    if (family == AF_INET6 && cidr->family == AF_INET &&
        IN6_IS_ADDR_V4MAPPED(&addr->v6.sin6_addr)) {
        return matches(cidr, addr->v6.sin6_addr.s6_addr + 12, 4);
    }
    if (family != cidr->family) {
        return false;
    }
    if (family == AF_INET) {
        return matches(cidr, (const unsigned char *) &addr->v4.sin_addr, 4);
    }
    return family == AF_UNIX || matches(cidr, addr->v6.sin6_addr.s6_addr, 16);
}
