/* The PROXY protocol, versions 1 and 2: who is behind the proxy in front of us. */
#ifndef NET_CONN_PROXY_PROTOCOL_H
#define NET_CONN_PROXY_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "net/addr/addr.h"

/* A header that was read. One malloc'ed piece, freed with free(). */
struct proxy_header {
    struct addr source;      /* the client; len 0 = unknown (v1 UNKNOWN, v2 LOCAL) */
    struct addr destination; /* the address that the client had connected to */
    struct str tlvs;         /* v2 type-length-values, raw; inside this piece */
    /* result of the check of the client's certificate, decimal; inside this piece, or empty */
    struct str ssl_verify;
};

enum proxy_header_result { PROXY_HEADER_MORE, PROXY_HEADER_DONE, PROXY_HEADER_BAD };

#define PROXY_HEADER_MAX 4096 /* bytes; a longer one is bad */

/*
 * Parses from the first byte of input; *used gets the header's size. PROXY_HEADER_DONE: *out is the
 * caller's.
 */
enum proxy_header_result proxy_header_parse(struct str input, struct proxy_header **out,
                                            size_t *used);

/*
 * The value of a TLV: by number, or by name ("alpn", "authority", "unique_id", "ssl", "netns",
 * "ssl_version", "ssl_cn", "ssl_cipher", "ssl_sig_alg", "ssl_key_alg", "ssl_verify", "0xNN",
 * "ssl_0xNN"). False = absent.
 */
bool proxy_header_tlv(const struct proxy_header *header, struct str name, struct str *out);

#define PROXY_HEADER_V1_MAX 107 /* bytes of the longest header of version 1 */

/*
 * Writes a header of version 1 at `at` (PROXY_HEADER_V1_MAX bytes of room): source and destination.
 * If only one is of IPv4, it is written as IPv6 (::ffff:). Addresses that are not of IP become
 * UNKNOWN. Gives its length.
 */
size_t proxy_header_write(const struct addr *source, const struct addr *destination, char *at);

#define PROXY_HEADER_V2_MAX                                                                        \
    52 /* bytes of one of version 2 with addresses of IP, and nothing else */

/* The same of version 2: addresses that are not of IP become LOCAL. */
size_t proxy_header_write_v2(const struct addr *source, const struct addr *destination, char *at);

#endif
