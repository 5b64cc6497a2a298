/* DNS messages: names, questions and the answers to them. Pure functions on slices (RFC 1035, 2181,
 * 2308, 2782, 3596). */
#ifndef NET_RESOLVER_DNS_H
#define NET_RESOLVER_DNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/str.h"

/* Types of records. */
enum {
    DNS_A = 1,
    DNS_CNAME = 5,
    DNS_SOA = 6,
    DNS_PTR = 12,
    DNS_AAAA = 28,
    DNS_SRV = 33,
};

enum {
    DNS_NAME_MAX = 255,                    /* bytes of a name in a message, with its final zero */
    DNS_LABEL_MAX = 63,                    /* bytes of a label */
    DNS_QUERY_MAX = 12 + DNS_NAME_MAX + 4, /* bytes of a message with one question */
    DNS_MESSAGE_MAX = 65535,               /* bytes of any message */
    DNS_ALIASES_MAX = 16,                  /* aliases followed for one question */
    DNS_RECORDS_MAX = 256,    /* records taken from one answer; further ones are dropped */
    DNS_LOOKED_AT_MAX = 1024, /* records examined in one message */
};

/* A name in wire format, uncompressed and in lower case: labels, each after its length. */
struct dns_name {
    uint8_t len;                      /* bytes in use, with the final zero; 0 = no name */
    unsigned char wire[DNS_NAME_MAX]; /* labels */
};

/*
 * Parses a name: labels separated by dots, optionally with a final dot. Converts to lower case.
 * False: a label is empty or longer than 63 bytes, the name is longer than 255, or a byte is a
 * space or a control character.
 */
bool dns_name_parse(struct str text, struct dns_name *out);

/*
 * The text of a name, without a final dot, in the arena. False: a label contains a byte that the
 * text form cannot represent unambiguously (a dot, a space, a control character, a backslash).
 */
bool dns_name_format(const struct dns_name *name, struct arena *arena, struct str *out);

bool dns_name_equal(const struct dns_name *a, const struct dns_name *b);

/* Writes a query for a name server, with recursion desired (RFC 1035, 4.1). Gives the number of
 * bytes written to out. */
size_t dns_query_write(const struct dns_name *name, uint16_t type, uint16_t id,
                       unsigned char out[DNS_QUERY_MAX]);

/* The name of an rcode, as the log shows it: "Server failure". */
const char *dns_rcode_text(unsigned rcode);

/* The result of a message for a question. */
enum dns_verdict {
    DNS_FOREIGN,   /* not an answer to this question: another id, name or type, or not a DNS message
                    */
    DNS_TRUNCATED, /* the answer did not fit: send the query again over TCP */
    DNS_FOUND,     /* records */
    DNS_ALIAS,     /* the name is an alias whose target has to be queried: see name */
    DNS_NO_DATA,   /* the name has no record of this type */
    DNS_NO_NAME,   /* there is no such name (NXDOMAIN) */
    DNS_REFUSAL,   /* the server cannot or does not answer: see rcode */
    DNS_MALFORMED, /* it answers the question, but is malformed */
};

/* A record of the type of the question. */
struct dns_record {
    uint16_t type;
    unsigned char address[16]; /* A: the first four bytes; AAAA: all */
    uint16_t priority;         /* of SRV */
    uint16_t weight;           /* of SRV */
    uint16_t port;             /* of SRV */
    struct str target;         /* SRV, PTR: a name without a final dot; else empty */
};

struct dns_answer {
    uint8_t rcode;      /* of the message (RFC 1035, 4.1.1) */
    struct vec records; /* struct dns_record, in the order of the message; with DNS_FOUND */
    uint32_t ttl_s; /* FOUND, ALIAS: the least of all records used; NO_DATA, NO_NAME: how long that
                       holds (RFC 2308, 5), if has_ttl */
    bool has_ttl;   /* ttl_s is known */
    unsigned aliases;     /* followed in this message */
    struct dns_name name; /* with DNS_ALIAS: the name to query next */
};

/* A question sent to a name server. */
struct dns_question {
    const struct dns_name *name;
    uint16_t type;
    uint16_t id;
};

/*
 * Parses a message as the answer to a question. Records and strings are allocated in the arena.
 * Never waits. A truncated record, or a name whose pointers lead forward or loop, gives
 * DNS_MALFORMED; a loop of aliases DNS_NO_NAME. An SRV record whose target is "." or not a valid
 * name is skipped.
 */
enum dns_verdict dns_answer_read(struct str message, const struct dns_question *question,
                                 struct arena *arena, struct dns_answer *out);

#endif
