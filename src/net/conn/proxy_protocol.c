/* The PROXY protocol, versions 1 and 2, strictly by HAProxy's specification. */
#include "net/conn/proxy_protocol.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fatal.h"
#include "base/parse.h"

#define V1_MAX PROXY_HEADER_V1_MAX /* bytes of a line of version 1, with its CRLF */
#define V2_FIXED 16                /* bytes before the addresses */
#define UNIX_PATH 108              /* bytes of each path */
#define VERIFY_SIZE 10             /* decimal digits of a 32-bit number */
#define SSL_FIXED 5                /* bytes before the nested TLVs of an SSL TLV */

enum tlv_type {
    TLV_ALPN = 0x01,
    TLV_AUTHORITY = 0x02,
    TLV_CRC32C = 0x03,
    TLV_UNIQUE_ID = 0x05,
    TLV_SSL = 0x20,
    TLV_SSL_VERSION = 0x21,
    TLV_SSL_CN = 0x22,
    TLV_SSL_CIPHER = 0x23,
    TLV_SSL_SIG_ALG = 0x24,
    TLV_SSL_KEY_ALG = 0x25,
    TLV_NETNS = 0x30,
};

static const struct str v1_start = STR_INIT("PROXY ");
static const struct str v2_start = STR_INIT("\r\n\r\n\0\r\nQUIT\n");

/* Allocates a header with a copy of the TLVs after it. */
static struct proxy_header *header_new(struct str tlvs)
{
    struct proxy_header *header = calloc(1, sizeof(*header) + VERIFY_SIZE + tlvs.len);

    if (header == NULL) {
        fatal_no_memory(sizeof(*header) + tlvs.len);
    }
    char *buffer = (char *) (header + 1) + VERIFY_SIZE;
    if (tlvs.len != 0) {
        memcpy(buffer, tlvs.data, tlvs.len);
    }
    header->tlvs = (struct str){buffer, tlvs.len};
    return header;
}

static uint32_t read_big_endian(const char *at, size_t size)
{
    uint32_t number = 0;

    for (size_t i = 0; i < size; i++) {
        number = number << 8 | (unsigned char) at[i];
    }
    return number;
}

/* ---- version 1 ---- */

/* Decimal, without leading zeros. */
static bool parse_port(struct str text, uint16_t *out)
{
    uint64_t number;

    if (text.len == 0 || text.len > 5 || (text.len > 1 && *text.data == '0') ||
        !parse_uint(text, &number) || number > UINT16_MAX) {
        return false;
    }
    *out = (uint16_t) number;
    return true;
}

/* Parses the address and port of one end, which must be of this family. */
static bool parse_end(struct str address, struct str port_text, int family, struct addr *out)
{
    uint16_t port;

    if (address.len == 0 || *address.data == '[' || !addr_parse_ip(address, out) ||
        out->any.sa_family != family || !parse_port(port_text, &port)) {
        return false;
    }
    addr_set_port(out, port);
    return true;
}

/* Parses what is between "PROXY " and CRLF. */
static bool parse_v1_line(struct str line, struct proxy_header *header)
{
    struct str words[5];
    unsigned count = 0;
    struct str rest = line;

    if (str_is(line, "UNKNOWN") || str_starts(line, STR("UNKNOWN "))) {
        return true;
    }
    while (rest.data != NULL && count < 5) {
        words[count++] = str_cut(&rest, ' ');
    }
    if (count != 5 || rest.data != NULL) {
        return false;
    }
    int family = str_is(words[0], "TCP4") ? AF_INET : str_is(words[0], "TCP6") ? AF_INET6 : 0;
    return family != 0 && parse_end(words[1], words[3], family, &header->source) &&
           parse_end(words[2], words[4], family, &header->destination);
}

/* Can the text after "PROXY " be the beginning of a valid header? */
static bool may_be_v1(struct str rest)
{
    static const struct str beginnings[] = {STR_INIT("TCP4 "), STR_INIT("TCP6 "),
                                            STR_INIT("UNKNOWN")};

    for (unsigned i = 0; i < 3; i++) {
        struct str known = str_head(beginnings[i], rest.len);
        if (str_starts(rest, known)) {
            return true;
        }
    }
    return false;
}

static enum proxy_header_result parse_v1(struct str input, struct proxy_header **out, size_t *used)
{
    struct str head = str_head(input, V1_MAX);
    const char *newline = str_find_char(head, '\n');

    if (newline == NULL) {
        bool may_come = head.len < V1_MAX && may_be_v1(str_skip(head, v1_start.len));
        return may_come ? PROXY_HEADER_MORE : PROXY_HEADER_BAD;
    }
    struct str line = str_from(head.data + v1_start.len, newline);
    if (line.len == 0 || line.data[line.len - 1] != '\r') {
        return PROXY_HEADER_BAD;
    }
    line.len--;
    struct proxy_header *header = header_new(STR_NONE);
    if (!parse_v1_line(line, header)) {
        free(header);
        return PROXY_HEADER_BAD;
    }
    *out = header;
    *used = (size_t) (newline + 1 - input.data);
    return PROXY_HEADER_DONE;
}

/* ---- version 2 ---- */

/* CRC-32C (RFC 3720, B.4), bit by bit: a header is short. */
static uint32_t crc32c_step(uint32_t crc, unsigned char byte)
{
    crc ^= byte;
    for (int i = 0; i < 8; i++) {
        crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
    }
    return crc;
}

/* Removes the first TLV. False: there is none, or it is truncated. */
static bool next_tlv(struct str *rest, unsigned *type, struct str *value)
{
    if (rest->len < 3) {
        return false;
    }
    size_t size = read_big_endian(rest->data + 1, 2);
    if (size > rest->len - 3) {
        return false;
    }
    *type = (unsigned char) rest->data[0];
    *value = (struct str){rest->data + 3, size};
    *rest = str_skip(*rest, 3 + size);
    return true;
}

static bool find_tlv(struct str tlvs, unsigned wanted, struct str *out)
{
    struct str value;
    unsigned type;

    while (next_tlv(&tlvs, &type, &value)) {
        if (type == wanted) {
            *out = value;
            return true;
        }
    }
    return false;
}

/* The checksum covers the header with its own four bytes as zeros. */
static bool check_sum(struct str header, struct str tlvs)
{
    struct str sum;
    uint32_t crc = UINT32_MAX;

    if (!find_tlv(tlvs, TLV_CRC32C, &sum)) {
        return true;
    }
    if (sum.len != 4) {
        return false;
    }
    for (const char *at = header.data; at < header.data + header.len; at++) {
        bool is_sum = at >= sum.data && at < sum.data + 4;
        crc = crc32c_step(crc, is_sum ? 0 : (unsigned char) *at);
    }
    return (crc ^ UINT32_MAX) == read_big_endian(sum.data, 4);
}

static bool check_tlvs(struct str tlvs)
{
    struct str value;
    unsigned type;

    while (next_tlv(&tlvs, &type, &value)) {
    }
    return tlvs.len == 0;
}

static void read_ip4(struct str block, struct proxy_header *header)
{
    const char *at = block.data;

    header->source.len = header->destination.len = sizeof(struct sockaddr_in);
    header->source.v4.sin_family = header->destination.v4.sin_family = AF_INET;
    memcpy(&header->source.v4.sin_addr, at, 4);
    memcpy(&header->destination.v4.sin_addr, at + 4, 4);
    memcpy(&header->source.v4.sin_port, at + 8, 2);
    memcpy(&header->destination.v4.sin_port, at + 10, 2);
}

static void read_ip6(struct str block, struct proxy_header *header)
{
    const char *at = block.data;

    header->source.len = header->destination.len = sizeof(struct sockaddr_in6);
    header->source.v6.sin6_family = header->destination.v6.sin6_family = AF_INET6;
    memcpy(&header->source.v6.sin6_addr, at, 16);
    memcpy(&header->destination.v6.sin6_addr, at + 16, 16);
    memcpy(&header->source.v6.sin6_port, at + 32, 2);
    memcpy(&header->destination.v6.sin6_port, at + 34, 2);
}

/* A socket without a name stays unknown. */
static void read_unix(struct addr *addr, const char *path)
{
    size_t length = strnlen(path, UNIX_PATH);

    if (length == 0) {
        return;
    }
    if (length >= sizeof(addr->un.sun_path)) {
        length = sizeof(addr->un.sun_path) - 1;
    }
    addr->un.sun_family = AF_UNIX;
    memcpy(addr->un.sun_path, path, length);
    addr->len = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + length + 1);
}

/* Bytes of both addresses of a family. */
static size_t address_size(unsigned family)
{
    switch (family) {
    case 0:
        return 0;
    case 1:
        return 12;
    case 2:
        return 36;
    case 3:
        return 2 * UNIX_PATH;
    default:
        return 0;
    }
}

static void read_addresses(unsigned family, struct str block, struct proxy_header *header)
{
    if (family == 1) {
        read_ip4(block, header);
    } else if (family == 2) {
        read_ip6(block, header);
    } else if (family == 3) {
        read_unix(&header->source, block.data);
        read_unix(&header->destination, block.data + UNIX_PATH);
    }
}

/* Formats the result of the certificate's verification, which variables need as text. */
static void lay_out_verify(struct proxy_header *header)
{
    char *buffer = (char *) (header + 1);
    struct str ssl;

    if (find_tlv(header->tlvs, TLV_SSL, &ssl) && ssl.len >= SSL_FIXED) {
        header->ssl_verify =
            str_from(buffer, format_uint(buffer, read_big_endian(ssl.data + 1, 4)));
    }
}

static enum proxy_header_result parse_v2(struct str input, struct proxy_header **out, size_t *used)
{
    if (input.len < V2_FIXED) {
        return PROXY_HEADER_MORE;
    }
    unsigned command = (unsigned char) input.data[12];
    unsigned family = (unsigned char) input.data[13] >> 4;
    unsigned transport = (unsigned char) input.data[13] & 15;
    size_t size = read_big_endian(input.data + 14, 2);
    size_t addresses = address_size(family);

    if ((command != 0x20 && command != 0x21) || transport > 2 ||
        size > PROXY_HEADER_MAX - V2_FIXED) {
        return PROXY_HEADER_BAD;
    }
    bool is_local =
        command == 0x20 || family > 3; /* addresses of unknown families are ignored, as in nginx */
    if (!is_local && addresses > size) {
        return PROXY_HEADER_BAD;
    }
    if (input.len < V2_FIXED + size) {
        return PROXY_HEADER_MORE;
    }
    struct str block = {input.data + V2_FIXED, size};
    struct str tlvs = is_local ? STR_NONE : str_skip(block, addresses);
    if (!check_tlvs(tlvs) || !check_sum(str_head(input, V2_FIXED + size), tlvs)) {
        return PROXY_HEADER_BAD;
    }
    struct proxy_header *header = header_new(tlvs);
    if (!is_local) {
        read_addresses(family, block, header);
        lay_out_verify(header);
    }
    *out = header;
    *used = V2_FIXED + size;
    return PROXY_HEADER_DONE;
}

static bool may_begin(struct str input, struct str start)
{
    return str_starts(start, str_head(input, start.len));
}

enum proxy_header_result proxy_header_parse(struct str input, struct proxy_header **out,
                                            size_t *used)
{
    if (input.len == 0) {
        return PROXY_HEADER_MORE;
    }
    if (may_begin(input, v1_start)) {
        return input.len < v1_start.len ? PROXY_HEADER_MORE : parse_v1(input, out, used);
    }
    if (may_begin(input, v2_start)) {
        return input.len < v2_start.len ? PROXY_HEADER_MORE : parse_v2(input, out, used);
    }
    return PROXY_HEADER_BAD;
}

/* ---- writing ---- */

/* Both ends of a header, in the same family; PROXY cannot mix families. */
struct header_ends {
    const struct addr *ends[2]; /* source, destination */
    struct addr mapped; /* if families differ: the IPv4 address as IPv6 (RFC 4291, 2.5.5.2) */
    bool is_v6;
};

static bool is_family(const struct addr *addr, int family)
{
    return addr->len != 0 && addr->any.sa_family == family;
}

static void map_to_v6(struct addr *out, const struct addr *addr)
{
    *out = (struct addr){.len = sizeof(out->v6)};
    out->v6.sin6_family = AF_INET6;
    out->v6.sin6_port = addr->v4.sin_port;
    out->v6.sin6_addr.s6_addr[10] = out->v6.sin6_addr.s6_addr[11] = 0xff;
    memcpy(&out->v6.sin6_addr.s6_addr[12], &addr->v4.sin_addr, sizeof(addr->v4.sin_addr));
}

/* False: one of them is not an IPv4 or IPv6 address. A mix occurs when a PROXY header or X-Real-IP
 * named an IPv6 source and the client connected to an IPv4 address. */
static bool find_ends(struct header_ends *out, const struct addr *source,
                      const struct addr *destination)
{
    out->ends[0] = source;
    out->ends[1] = destination;
    out->is_v6 = is_family(source, AF_INET6) || is_family(destination, AF_INET6);
    for (unsigned i = 0; i < 2; i++) {
        if (is_family(out->ends[i], out->is_v6 ? AF_INET6 : AF_INET)) {
            continue;
        }
        if (!is_family(out->ends[i], AF_INET)) {
            return false;
        }
        map_to_v6(&out->mapped, out->ends[i]);
        out->ends[i] = &out->mapped;
    }
    return true;
}

static const void *end_bytes(const struct header_ends *ends, unsigned i)
{
    return ends->is_v6 ? (const void *) &ends->ends[i]->v6.sin6_addr
                       : (const void *) &ends->ends[i]->v4.sin_addr;
}

size_t proxy_header_write(const struct addr *source, const struct addr *destination, char *at)
{
    struct writer writer = {at, at + PROXY_HEADER_V1_MAX};
    struct header_ends ends;
    char texts[2][INET6_ADDRSTRLEN];

    if (!find_ends(&ends, source, destination)) {
        writer_put(&writer, STR("PROXY UNKNOWN\r\n"));
        return (size_t) (writer.at - at);
    }
    for (unsigned i = 0; i < 2; i++) {
        inet_ntop(ends.is_v6 ? AF_INET6 : AF_INET, end_bytes(&ends, i), texts[i], sizeof(texts[i]));
    }
    writer_printf(&writer, "PROXY TCP%c %s %s %u %u\r\n", ends.is_v6 ? '6' : '4', texts[0],
                  texts[1], addr_port(source), addr_port(destination));
    return (size_t) (writer.at - at);
}

size_t proxy_header_write_v2(const struct addr *source, const struct addr *destination, char *at)
{
    struct header_ends ends;
    bool is_known = find_ends(&ends, source, destination);
    size_t size = ends.is_v6 ? sizeof(source->v6.sin6_addr) : sizeof(source->v4.sin_addr);
    char *start = at;
    uint16_t ports[2], rest;

    memcpy(at, v2_start.data, v2_start.len);
    at += v2_start.len;
    *at++ = is_known ? 0x21 : 0x20; /* version 2; PROXY or LOCAL */
    *at++ = !is_known ? 0 : ends.is_v6 ? 0x21 : 0x11;
    rest = htons(is_known ? (uint16_t) (2 * size + sizeof(ports)) : 0);
    memcpy(at, &rest, sizeof(rest));
    at += sizeof(rest);
    if (!is_known) {
        return (size_t) (at - start);
    }
    for (unsigned i = 0; i < 2; i++, at += size) {
        memcpy(at, end_bytes(&ends, i), size);
        ports[i] = htons(addr_port(ends.ends[i]));
    }
    memcpy(at, ports, sizeof(ports));
    return (size_t) (at + sizeof(ports) - start);
}

/* ---- TLVs by name ---- */

struct tlv_name {
    struct str name;
    unsigned type;
};

/* clang-format off */
static const struct tlv_name tlv_names[] = {
    {STR_INIT("alpn"), TLV_ALPN},
    {STR_INIT("authority"), TLV_AUTHORITY},
    {STR_INIT("unique_id"), TLV_UNIQUE_ID},
    {STR_INIT("ssl"), TLV_SSL},
    {STR_INIT("netns"), TLV_NETNS},
};

static const struct tlv_name ssl_names[] = {
    {STR_INIT("version"), TLV_SSL_VERSION},
    {STR_INIT("cn"), TLV_SSL_CN},
    {STR_INIT("cipher"), TLV_SSL_CIPHER},
    {STR_INIT("sig_alg"), TLV_SSL_SIG_ALG},
    {STR_INIT("key_alg"), TLV_SSL_KEY_ALG},
};
/* clang-format on */

/* A name of the list, or "0xNN". */
static bool type_of(struct str name, const struct tlv_name *names, size_t count, unsigned *out)
{
    uint64_t number;

    for (size_t i = 0; i < count; i++) {
        if (str_equal(names[i].name, name)) {
            *out = names[i].type;
            return true;
        }
    }
    if (!str_starts(name, STR("0x")) || !parse_hex(str_skip(name, 2), &number) || number > 0xff) {
        return false;
    }
    *out = (unsigned) number;
    return true;
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

bool proxy_header_tlv(const struct proxy_header *header, struct str name, struct str *out)
{
    struct str ssl;
    unsigned type;

    if (!str_starts(name, STR("ssl_"))) {
        return type_of(name, tlv_names, COUNT(tlv_names), &type) &&
               find_tlv(header->tlvs, type, out);
    }
    name = str_skip(name, 4);
    if (str_is(name, "verify")) {
        *out = header->ssl_verify;
        return out->len != 0;
    }
    return type_of(name, ssl_names, COUNT(ssl_names), &type) &&
           find_tlv(header->tlvs, TLV_SSL, &ssl) && ssl.len >= SSL_FIXED &&
           find_tlv(str_skip(ssl, SSL_FIXED), type, out);
}
