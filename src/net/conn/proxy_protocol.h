/* The PROXY protocol, versions 1 and 2: the client's address as the proxy in front of this server
 * reports it. */
#ifndef NET_CONN_PROXY_PROTOCOL_H
#define NET_CONN_PROXY_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"
#include "net/addr/addr.h"

/* A parsed header. One malloc'ed block; free it with free(). */
struct proxy_header {
    struct addr source;      /* the client; len 0 = unknown (v1 UNKNOWN, v2 LOCAL) */
    struct addr destination; /* the address that the client connected to */
    struct str tlvs;         /* type-length-values of version 2, raw; inside this block */
    /* The result of the verification of the client's certificate, decimal; inside this block, or
     * empty. */
    struct str ssl_verify;
};

enum proxy_header_result { PROXY_HEADER_MORE, PROXY_HEADER_DONE, PROXY_HEADER_BAD };

#define PROXY_HEADER_MAX 4096 /* bytes; a longer header is invalid */

/*
 * Parses from the first byte of input. PROXY_HEADER_DONE: *out belongs to the caller, *used is the
 * header's size.
 */
enum proxy_header_result proxy_header_parse(struct str input, struct proxy_header **out,
                                            size_t *used);

/*
 * The value of a TLV by name or number ("alpn", "authority", "unique_id", "ssl", "netns",
 * "ssl_version", "ssl_cn", "ssl_cipher", "ssl_sig_alg", "ssl_key_alg", "ssl_verify", "0xNN",
 * "ssl_0xNN"). False: absent.
 */
bool proxy_header_tlv(const struct proxy_header *header, struct str name, struct str *out);

#define PROXY_HEADER_V1_MAX 107 /* bytes of the longest header of version 1 */

/*
 * Writes a header of version 1 for source and destination to `at` (PROXY_HEADER_V1_MAX bytes). If
 * only one of them is IPv4, it is written as IPv6 (::ffff:). Other families become UNKNOWN. Gives
 * the length.
 */
size_t proxy_header_write(const struct addr *source, const struct addr *destination, char *at);

#define PROXY_HEADER_V2_MAX 52 /* bytes of a header of version 2 with IP addresses and no TLV */

/* The same in version 2: families other than IP become LOCAL. */
size_t proxy_header_write_v2(const struct addr *source, const struct addr *destination, char *at);

#endif
