/* Socket addresses: parsing, printing, comparing, CIDR networks. Implemented in addr.c and cidr.c.
 */
#ifndef NET_ADDR_ADDR_H
#define NET_ADDR_ADDR_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/arena.h"
#include "base/str.h"

/* An address of one of three families. */
struct addr {
    socklen_t len; /* bytes of the union in use; 0 = none */
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un un;
    };
};

#define ADDR_TEXT_MAX (sizeof("unix:") + sizeof(((struct sockaddr_un *) 0)->sun_path))

/*
 * "1.2.3.4", "1.2.3.4:80", "[::1]:80", "unix:/path" ("unix:" for a nameless one). Gives bytes
 * written to out (ADDR_TEXT_MAX).
 */
size_t addr_format(const struct addr *addr, bool with_port, char *out);
/* Writes the four bytes of an IPv4 address, 16 characters at most of which the end that is given
 * are meant. */
char *addr_put_v4(char *at, const unsigned char *bytes);
uint16_t addr_port(const struct addr *addr);
void addr_set_port(struct addr *addr, uint16_t port);
bool addr_equal(const struct addr *a, const struct addr *b);
/*
 * The path of a unix socket without its NUL; empty for a nameless one. An abstract one starts with
 * NUL.
 */
struct str addr_unix_path(const struct addr *addr);
bool addr_is_wildcard(const struct addr *addr);
bool addr_is_loopback(const struct addr *addr);

/* Numeric IPv4 or IPv6 (brackets optional) without a port. */
bool addr_parse_ip(struct str text, struct addr *out);

/*
 * "host:port", "[::1]:port": the part before the port, and the port; *port stays as it is where
 * none is written. Text that begins with "unix:" has none. False: what stands for the port is none.
 */
bool addr_split_port(struct str text, struct str *host, uint16_t *port);

/*
 * What `listen`, `server` of upstream, `resolver` take: [host|ip|*][:port], [ipv6][:port], port
 * alone (when allow_port_only), unix:path. Names are resolved by getaddrinfo: only while the
 * configuration is read (may wait). Gives all addresses. On failure false, and out->error is one of
 * the phrases that go before ` in "x"`: "invalid port", "no host", "host not found", "invalid
 * host", "invalid IPv6 address", "no path in the unix domain socket", "too long path in the unix
 * domain socket". With allow_port_only (`listen`) a port may be a range "8000-8010", which gives an
 * address for each; the text of a unix socket is its path to the end.
 */
struct addr_list {
    struct addr *items;
    size_t count;
    struct str host;   /* as written, without port */
    const char *error; /* why not, after a failure */
};
bool addr_parse(struct arena *arena, struct str text, uint16_t default_port, bool allow_port_only,
                struct addr_list *out);

/* A network: "10.0.0.0/8", "::/0", a single address, "unix:", "all". */
struct cidr {
    int family; /* AF_INET, AF_INET6, AF_UNIX; 0 = all */
    unsigned char address[16];
    unsigned char mask[16];
    bool has_low_bits; /* bits beyond the mask were written, which mean nothing */
};
bool cidr_parse(struct str text, struct cidr *out);
/* IPv4 rules match v4-mapped IPv6 addresses, too. */
bool cidr_contains(const struct cidr *cidr, const struct addr *addr);

#endif
