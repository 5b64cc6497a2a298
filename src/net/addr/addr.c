/* Socket addresses: parsing, formatting, comparing. */
#define _GNU_SOURCE
#include "net/addr/addr.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/parse.h"

#define UNIX_PATH_START offsetof(struct sockaddr_un, sun_path)

/* ---- formatting ---- */

struct str addr_unix_path(const struct addr *addr)
{
    if (addr->len <= UNIX_PATH_START) {
        return STR_NONE;
    }
    size_t len = addr->len - UNIX_PATH_START;
    if (addr->un.sun_path[0] == '\0') {
        return (struct str){addr->un.sun_path, len};
    }
    return (struct str){addr->un.sun_path, strnlen(addr->un.sun_path, len)};
}

/* "0." to "255."; filled at the first use. */
static struct octet {
    char text[4];
    uint32_t len;
} octets[256];

static __attribute__((noinline, cold)) void lay_out_octets(void)
{
    for (unsigned i = 0; i < 256; i++) {
        char text[24];
        char *end = format_uint(text, i);

        *end++ = '.';
        octets[i].len = (uint32_t) (end - text);
        memcpy(octets[i].text, text, octets[i].len);
    }
}

static inline char *put_octet(char *at, unsigned char octet)
{
    memcpy(at, octets[octet].text, 4);
    return at + octets[octet].len;
}

char *addr_put_v4(char *at, const unsigned char *bytes)
{
    if (octets[0].len == 0) {
        lay_out_octets();
    }
    at = put_octet(at, bytes[0]);
    at = put_octet(at, bytes[1]);
    at = put_octet(at, bytes[2]);
    return put_octet(at, bytes[3]) - 1;
}

size_t addr_format(const struct addr *addr, bool with_port, char *out)
{
    char *at = out;

    if (addr->len == 0) {
        return 0;
    }
    switch (addr->any.sa_family) {
    case AF_INET:
        at = addr_put_v4(at, (const unsigned char *) &addr->v4.sin_addr);
        break;
    case AF_INET6: {
        char text[INET6_ADDRSTRLEN];

        inet_ntop(AF_INET6, &addr->v6.sin6_addr, text, sizeof(text));
        if (with_port) {
            *at++ = '[';
        }
        at = stpcpy(at, text);
        if (with_port) {
            *at++ = ']';
        }
        break;
    }
    case AF_UNIX: {
        struct str path = addr_unix_path(addr);

        memcpy(at, "unix:", 5);
        at += 5;
        if (path.len != 0) {
            memcpy(at, path.data, path.len);
            if (*at == '\0') {
                *at = '@'; /* abstract, as ss and netstat show it */
            }
        }
        return (size_t) (at - out) + path.len;
    }
    default:
        return 0;
    }
    if (with_port) {
        *at++ = ':';
        at = format_uint(at, addr_port(addr));
    }
    return (size_t) (at - out);
}

uint16_t addr_port(const struct addr *addr)
{
    if (addr->len == 0) {
        return 0;
    }
    switch (addr->any.sa_family) {
    case AF_INET:
        return ntohs(addr->v4.sin_port);
    case AF_INET6:
        return ntohs(addr->v6.sin6_port);
    default:
        return 0;
    }
}

void addr_set_port(struct addr *addr, uint16_t port)
{
    if (addr->len == 0) {
        return;
    }
    if (addr->any.sa_family == AF_INET) {
        addr->v4.sin_port = htons(port);
    } else if (addr->any.sa_family == AF_INET6) {
        addr->v6.sin6_port = htons(port);
    }
}

bool addr_equal(const struct addr *a, const struct addr *b)
{
    if (a->len == 0 || b->len == 0) {
        return a->len == b->len;
    }
    if (a->any.sa_family != b->any.sa_family) {
        return false;
    }
    switch (a->any.sa_family) {
    case AF_INET:
        return a->v4.sin_port == b->v4.sin_port && a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
    case AF_INET6:
        return a->v6.sin6_port == b->v6.sin6_port && a->v6.sin6_scope_id == b->v6.sin6_scope_id &&
               memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof(a->v6.sin6_addr)) == 0;
    case AF_UNIX:
        return str_equal(addr_unix_path(a), addr_unix_path(b));
    default:
        return false;
    }
}

bool addr_is_wildcard(const struct addr *addr)
{
    if (addr->len == 0) {
        return false;
    }
    if (addr->any.sa_family == AF_INET) {
        return addr->v4.sin_addr.s_addr == htonl(INADDR_ANY);
    }
    return addr->any.sa_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&addr->v6.sin6_addr);
}

bool addr_is_loopback(const struct addr *addr)
{
    if (addr->len == 0) {
        return false;
    }
    if (addr->any.sa_family == AF_INET) {
        return ntohl(addr->v4.sin_addr.s_addr) >> 24 == 127;
    }
    return addr->any.sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&addr->v6.sin6_addr);
}

/* ---- numeric addresses ---- */

static void set_v4(struct addr *out, struct in_addr address)
{
    memset(out, 0, sizeof(*out));
    out->len = sizeof(out->v4);
    out->v4.sin_family = AF_INET;
    out->v4.sin_addr = address;
}

/* Four decimal numbers. A leading zero does not make a number octal, as in nginx. */
static bool parse_v4(struct str text, struct addr *out)
{
    uint32_t address = 0;
    unsigned n = 0, dots = 0;
    bool has_digit = false;

    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char) text.data[i];

        if (ascii_is_digit(c)) {
            n = n * 10 + (unsigned) (c - '0');
            has_digit = true;
            if (n > 255) {
                return false;
            }
        } else if (c == '.' && has_digit && dots < 3) {
            address = address << 8 | n;
            n = 0;
            has_digit = false;
            dots++;
        } else {
            return false;
        }
    }
    if (!has_digit || dots != 3) {
        return false;
    }
    set_v4(out, (struct in_addr){htonl(address << 8 | n)});
    return true;
}

static bool parse_v6(struct str text, struct addr *out)
{
    char copy[INET6_ADDRSTRLEN];
    struct in6_addr address;

    if (text.len == 0 || text.len >= sizeof(copy)) {
        return false;
    }
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    if (memchr(copy, '\0', text.len) != NULL || inet_pton(AF_INET6, copy, &address) != 1) {
        return false;
    }
    memset(out, 0, sizeof(*out));
    out->len = sizeof(out->v6);
    out->v6.sin6_family = AF_INET6;
    out->v6.sin6_addr = address;
    return true;
}

bool addr_parse_ip(struct str text, struct addr *out)
{
    if (text.len >= 2 && text.data[0] == '[') {
        return text.data[text.len - 1] == ']' &&
               parse_v6((struct str){text.data + 1, text.len - 2}, out);
    }
    return parse_v4(text, out) || parse_v6(text, out);
}

/* ---- addresses as directives take them ---- */

/* One port (first and last are equal), or a range where ranges are allowed. */
struct port_range {
    uint16_t first;
    uint16_t last;
};

static bool parse_port(struct str text, uint16_t *port)
{
    uint64_t n;

    if (!parse_uint(text, &n) || n == 0 || n > UINT16_MAX) {
        return false;
    }
    *port = (uint16_t) n;
    return true;
}

bool addr_split_port(struct str text, struct str *host, uint16_t *port)
{
    size_t end = text.len;

    *host = text;
    if (str_starts_nocase(text, STR("unix:"))) {
        return true;
    }
    while (end > 0 && text.data[end - 1] != ':' && text.data[end - 1] != ']') {
        end--;
    }
    if (end == 0 || text.data[end - 1] == ']') {
        return true;
    }
    *host = str_head(text, end - 1);
    return parse_port(str_skip(text, end), port);
}

static bool parse_ports(struct str text, bool is_range_allowed, struct port_range *out)
{
    const char *dash = is_range_allowed ? str_find_char(text, '-') : NULL;

    if (dash == NULL) {
        if (!parse_port(text, &out->first)) {
            return false;
        }
        out->last = out->first;
        return true;
    }
    return parse_port(str_from(text.data, dash), &out->first) &&
           parse_port(str_from(dash + 1, text.data + text.len), &out->last) &&
           out->first <= out->last;
}

/* The error for a text that is no valid port or range: "invalid port range" if both bounds are
 * valid ports in the wrong order. */
static const char *port_error(struct str text, bool is_range_allowed)
{
    const char *dash = is_range_allowed ? str_find_char(text, '-') : NULL;
    uint16_t port;

    return dash != NULL && parse_port(str_from(text.data, dash), &port) &&
                   parse_port(str_from(dash + 1, text.data + text.len), &port)
               ? "invalid port range"
               : "invalid port";
}

/* Combines each of `count` addresses with each port of the range. */
static void give_addrs(struct arena *arena, struct addr_list *out, const struct addr *addrs,
                       size_t count, struct port_range ports)
{
    size_t port_count = (size_t) (ports.last - ports.first) + 1;

    out->items = arena_array(arena, count * port_count, sizeof(*out->items));
    out->count = 0;
    for (size_t i = 0; i < count; i++) {
        for (unsigned port = ports.first; port <= ports.last; port++) {
            struct addr *item = &out->items[out->count++];

            *item = addrs[i];
            addr_set_port(item, (uint16_t) port);
        }
    }
}

static bool parse_unix(struct arena *arena, struct str text, struct addr_list *out)
{
    struct str path = str_skip(text, 5);
    struct addr addr = {.len = sizeof(addr.un)};

    if (path.len == 0) {
        out->error = "no path in the unix domain socket";
        return false;
    }
    if (path.len >= sizeof(addr.un.sun_path)) {
        out->error = "too long path in the unix domain socket";
        return false;
    }
    addr.un.sun_family = AF_UNIX;
    memcpy(addr.un.sun_path, path.data, path.len);
    if (addr.un.sun_path[0] == '@') {
        addr.un.sun_path[0] = '\0';
        addr.len = (socklen_t) (UNIX_PATH_START + path.len);
    }
    out->host = text;
    give_addrs(arena, out, &addr, 1, (struct port_range){0, 0});
    return true;
}

static bool host_resolve(struct arena *arena, struct str host, struct port_range ports,
                         struct addr_list *out)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *found = NULL;
    struct vec addrs = {0};

    if (memchr(host.data, '\0', host.len) != NULL ||
        getaddrinfo(arena_cstr(arena, host), NULL, &hints, &found) != 0) {
        out->error = "host not found";
        return false;
    }
    for (const struct addrinfo *info = found; info != NULL; info = info->ai_next) {
        if (info->ai_family == AF_INET || info->ai_family == AF_INET6) {
            struct addr *addr = vec_add(&addrs, arena, struct addr);

            addr->len = info->ai_addrlen;
            memcpy(&addr->any, info->ai_addr, info->ai_addrlen);
        }
    }
    freeaddrinfo(found);
    if (addrs.count == 0) {
        out->error = "host not found";
        return false;
    }
    give_addrs(arena, out, addrs.items, addrs.count, ports);
    return true;
}

/* [ipv6] or [ipv6]:port */
static bool parse_bracketed(struct arena *arena, struct str text, struct port_range ports,
                            bool is_range_allowed, struct addr_list *out)
{
    const char *end = str_find_char(text, ']');
    struct addr addr;

    if (end == NULL) {
        out->error = "invalid host";
        return false;
    }
    struct str rest = str_from(end + 1, text.data + text.len);
    out->host = str_from(text.data, end + 1);
    if (rest.len != 0) {
        if (rest.data[0] != ':') {
            out->error = "invalid host";
            return false;
        }
        if (!parse_ports(str_skip(rest, 1), is_range_allowed, &ports)) {
            out->error = port_error(str_skip(rest, 1), is_range_allowed);
            return false;
        }
    }
    if (out->host.len == 2) {
        out->error = "no host";
        return false;
    }
    if (!addr_parse_ip(out->host, &addr)) {
        out->error = "invalid IPv6 address";
        return false;
    }
    give_addrs(arena, out, &addr, 1, ports);
    return true;
}

bool addr_parse(struct arena *arena, struct str text, uint16_t default_port, bool allow_port_only,
                struct addr_list *out)
{
    struct port_range ports = {default_port, default_port};
    struct addr any;

    *out = (struct addr_list){0};
    set_v4(&any, (struct in_addr){htonl(INADDR_ANY)});
    if (str_starts_nocase(text, STR("unix:"))) {
        return parse_unix(arena, text, out);
    }
    if (text.len != 0 && text.data[0] == '[') {
        return parse_bracketed(arena, text, ports, allow_port_only, out);
    }
    if (str_find_char(text, '/') != NULL) {
        out->error = "invalid host";
        return false;
    }
    const char *colon = str_find_char(text, ':');
    struct str host = colon == NULL ? text : str_from(text.data, colon);
    if (colon != NULL) {
        struct str port = str_from(colon + 1, text.data + text.len);

        if (!parse_ports(port, allow_port_only, &ports)) {
            out->error = port_error(port, allow_port_only);
            return false;
        }
    } else if (allow_port_only && text.len != 0 &&
               strspn(arena_cstr(arena, text), "0123456789-") == text.len) {
        if (!parse_ports(text, true, &ports)) {
            out->error = port_error(text, true);
            return false;
        }
        give_addrs(arena, out, &any, 1, ports);
        return true;
    }
    if (host.len == 0) {
        out->error = "no host";
        return false;
    }
    out->host = host;
    struct addr addr;
    if (allow_port_only && host.len == 1 && host.data[0] == '*') {
        give_addrs(arena, out, &any, 1, ports);
        return true;
    }
    if (parse_v4(host, &addr)) {
        give_addrs(arena, out, &addr, 1, ports);
        return true;
    }
    return host_resolve(arena, host, ports, out);
}
