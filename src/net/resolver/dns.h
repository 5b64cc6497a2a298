/* DNS messages: names, questions, and the answers to them. Pure functions on bytes with an end (RFC
 * 1035, 2181, 2308, 2782, 3596). */
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
    DNS_NAME_MAX = 255, /* bytes of a name in a message, its last zero included */
    DNS_LABEL_MAX = 63, /* bytes of a label */
    DNS_QUERY_MAX = 12 + DNS_NAME_MAX + 4, /* bytes of a message with one question */
    DNS_MESSAGE_MAX = 65535,               /* bytes of any message */
    DNS_ALIASES_MAX = 16,                  /* aliases followed for one question */
    DNS_RECORDS_MAX = 256,                 /* records taken from one answer, the rest is dropped */
    DNS_LOOKED_AT_MAX = 1024,              /* records of one message that are looked at */
};

/* A name as messages have it, without compression and in lower case: labels, a length before each.
 */
struct dns_name {
    uint8_t len;                      /* bytes in use, the last zero included; 0 = no name */
    unsigned char wire[DNS_NAME_MAX]; /* labels */
};

/*
 * The name that a text means: labels with dots between them, one more dot may be at the end. False
 * when a label is empty or longer than 63 bytes, the whole longer than 255, or a byte is a blank or
 * a control character. Case is dropped.
 */
bool dns_name_parse(struct str text, struct dns_name *out);

/*
 * The text of a name, without a dot at its end, as a piece of the arena. False when a label holds
 * what no text form could be distinguished from another (a dot, a blank, a control character, a
 * backslash).
 */
bool dns_name_format(const struct dns_name *name, struct arena *arena, struct str *out);

bool dns_name_equal(const struct dns_name *a, const struct dns_name *b);

/* A question to the name server, recursion desired; gives the bytes written to out. RFC 1035, 4.1.
 */
size_t dns_query_write(const struct dns_name *name, uint16_t type, uint16_t id,
                       unsigned char out[DNS_QUERY_MAX]);

/* The name of an rcode, as the log shows it: "Server failure". */
const char *dns_rcode_text(unsigned rcode);

/* What a message means for a question. */
enum dns_verdict {
    DNS_FOREIGN,   /* no answer to this question: another id, name, type; not even a message */
    DNS_TRUNCATED, /* the answer did not fit: ask again over TCP */
    DNS_FOUND,     /* records */
    DNS_ALIAS,     /* the name is an alias, and what it stands for has to be asked: see name */
    DNS_NO_DATA,   /* the name has no record of this type */
    DNS_NO_NAME,   /* there is no such name (NXDOMAIN) */
    DNS_REFUSAL,   /* the server cannot or will not say: rcode tells why */
    DNS_MALFORMED, /* it answers the question, but what follows makes no sense */
};

/* A record of the type that was asked for. */
struct dns_record {
    uint16_t type;
    unsigned char address[16]; /* of A the first four bytes, of AAAA all */
    uint16_t priority;         /* of SRV */
    uint16_t weight;           /* of SRV */
    uint16_t port;             /* of SRV */
    struct str target;         /* of SRV, PTR: name without a last dot; else empty */
};

struct dns_answer {
    uint8_t rcode;        /* of the message (RFC 1035, 4.1.1) */
    struct vec records;   /* struct dns_record, in the order of the message; with DNS_FOUND */
    uint32_t ttl_s;       /* FOUND, ALIAS: the least of all records that led here; NO_DATA, NO_NAME:
                               for how long that holds (RFC 2308, 5), with has_ttl */
    bool has_ttl;         /* ttl_s is known */
    unsigned aliases;     /* aliases that were followed in this message */
    struct dns_name name; /* with DNS_ALIAS: what to ask for */
};

/* What was asked of a name server. */
struct dns_question {
    const struct dns_name *name;
    uint16_t type;
    uint16_t id;
};

/*
 * Reads a message as the answer to a question. Records and texts are made in the arena. Never
 * waits. A record that is cut short, or whose name points ahead or in circles, makes it
 * DNS_MALFORMED; aliases without an end, DNS_NO_NAME; an SRV record whose target is no proper name,
 * or ".", is left out.
 */
enum dns_verdict dns_answer_read(struct str message, const struct dns_question *question,
                                 struct arena *arena, struct dns_answer *out);

#endif
