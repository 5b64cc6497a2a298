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

/* An address of one of the families IPv4, IPv6 and unix. */
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
 * Writes "1.2.3.4", "1.2.3.4:80", "[::1]:80" or "unix:/path" ("unix:" for a socket without a name)
 * to out, which has ADDR_TEXT_MAX bytes. Gives the number of bytes written; there is no NUL at the
 * end.
 */
size_t addr_format(const struct addr *addr, bool with_port, char *out);
/* Writes the four bytes of an IPv4 address in dotted form and gives the end of the text. May
 * overwrite up to 16 bytes from `at`. */
char *addr_put_v4(char *at, const unsigned char *bytes);
uint16_t addr_port(const struct addr *addr);
void addr_set_port(struct addr *addr, uint16_t port);
bool addr_equal(const struct addr *a, const struct addr *b);
/*
 * The path of a unix socket without its NUL; empty for a socket without a name. The path of an
 * abstract socket starts with NUL.
 */
struct str addr_unix_path(const struct addr *addr);
bool addr_is_wildcard(const struct addr *addr);
bool addr_is_loopback(const struct addr *addr);

/* Numeric IPv4 or IPv6 (brackets optional) without a port. */
bool addr_parse_ip(struct str text, struct addr *out);

/*
 * Splits "host:port" or "[::1]:port" into the host and the port. Without a port, and for text that
 * begins with "unix:", *host is the whole text and *port is unchanged. False: the text after the
 * colon is not a port.
 */
bool addr_split_port(struct str text, struct str *host, uint16_t *port);

/*
 * Parses the addresses that `listen`, `server` of upstream and `resolver` accept:
 * [host|ip|*][:port], [ipv6][:port], a port alone (with allow_port_only), unix:path. Host names are
 * resolved by getaddrinfo, which blocks: call it only while the configuration is read. Gives all
 * addresses of a name. On failure false, and out->error is a phrase for the message `<error> in
 * "x"`: "invalid port", "invalid port range", "no host", "host not found", "invalid host", "invalid
 * IPv6 address", "no path in the unix domain socket", "too long path in the unix domain socket".
 * With allow_port_only (`listen`) the port may be a range "8000-8010", which gives one address for
 * each port. The path of a unix socket extends to the end of the text.
 */
struct addr_list {
    struct addr *items;
    size_t count;
    struct str host;   /* as written, without port */
    const char *error; /* set after a failure, else NULL */
};
bool addr_parse(struct arena *arena, struct str text, uint16_t default_port, bool allow_port_only,
                struct addr_list *out);

/* A network: "10.0.0.0/8", "::/0", a single address, "unix:", "all". */
struct cidr {
    int family; /* AF_INET, AF_INET6, AF_UNIX; 0 = all */
    unsigned char address[16];
    unsigned char mask[16];
    bool has_low_bits; /* bits beyond the mask were set in the text; they are cleared and ignored */
};
bool cidr_parse(struct str text, struct cidr *out);
/* Rules for IPv4 also match IPv4-mapped IPv6 addresses. */
bool cidr_contains(const struct cidr *cidr, const struct addr *addr);

#endif
