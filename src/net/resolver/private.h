/* What the parts of the resolver share: the cache of names (cache.c), the questions under way
 * (question.c, wire.c), and who waits for them (resolver.c). */
#ifndef NET_RESOLVER_PRIVATE_H
#define NET_RESOLVER_PRIVATE_H

#include "base/list.h"
#include "event/loop.h"
#include "fiber/fiber.h"
#include "net/resolver/dns.h"
#include "net/resolver/resolver.h"

enum {
    RESOLVER_NAMES_MAX = 4096,    /* names remembered or asked, of one resolver */
    RESOLVER_BYTES_MAX = 8 << 20, /* of all answers remembered, of one resolver */
    RESOLVER_BUCKETS = 1024,      /* of the table of names; a power of two */
    RESOLVER_AT_ONCE_MAX = 256,   /* questions that are on the wire; others wait for their turn */
    RESOLVER_ADDRESSES = 0,       /* what an entry asks for that wants A and AAAA: no type of DNS */
    RESOLVER_NEGATIVE_MS = 10 * 1000, /* "not found" and half an answer hold so long at most */
};

/* An answer, shared by the cache and those who waited for it. */
struct resolver_answer {
    unsigned references;         /* it goes with the last */
    enum resolve_result result;  /* RESOLVE_OK or RESOLVE_NOT_FOUND */
    uint64_t valid_until_ms;     /* clock_now.now_ms time */
    size_t size;                 /* bytes of the whole */
    unsigned count;              /* records */
    struct dns_record records[]; /* of A before those of AAAA; their texts stand after them */
};

/* One server of a question: a socket of its own, so that each question has a fresh random port. */
struct resolver_line {
    struct event_source source; /* connected UDP socket; fd -1 until it is needed */
    struct question *question;  /* whose it is */
    unsigned server;            /* number of the name server */
};

/* One question on the wire: a name and a type. */
struct query {
    struct question *question; /* whose it is */
    struct dns_name name;      /* asked now: the name itself, or what it is an alias of */
    uint16_t type;             /* DNS_A, DNS_AAAA, DNS_SRV, DNS_PTR */
    uint16_t id;               /* random; each name that is asked has its own */
    bool is_open;              /* no answer yet */
    enum dns_verdict verdict;  /* when it is not open: FOUND, NO_DATA, NO_NAME, else it failed */
    uint8_t rcode;             /* of the last answer */
    unsigned server;           /* number of the name server that is asked */
    unsigned refusals;         /* servers that answered, but had nothing to say */
    unsigned skips;            /* servers found unreachable since the last round */
    unsigned aliases;          /* followed so far */
    bool is_followed;          /* name is what an answer without addresses led to */
    bool is_of_name;           /* the records are of name itself: the last answer had no aliases */
    uint32_t ttl_s;            /* least one so far */
    bool has_ttl;              /* ttl_s is known */
    struct vec records;        /* struct dns_record, in the question's arena */
    struct conn *tcp;          /* the answer did not fit a datagram; or NULL */
};

/* What is being asked about one name: A and AAAA side by side, or SRV or PTR. */
struct question {
    struct list node;             /* on one of the resolver's two lists of questions */
    struct resolver *resolver;    /* whose it is */
    struct resolver_entry *entry; /* the name */
    struct list waiters;          /* struct resolver_waiter */
    uint64_t deadline_ms;         /* of the most patient one who ever waited */
    struct timer timer;           /* the next round */
    unsigned rounds;              /* how often the open queries were sent */
    bool is_on_wire;              /* its turn has come */
    struct arena arena;           /* records */
    struct query queries[2];      /* A, AAAA; or SRV or PTR alone */
    unsigned query_count;         /* 1 or 2 */
    struct resolver_line lines[]; /* one for each name server */
};

/* A name in the table. */
struct resolver_entry {
    struct resolver_entry *next;    /* of the same bucket */
    struct list use;                /* on resolver->recent while it has an answer, else alone */
    uint32_t hash;                  /* of the name */
    uint16_t type;                  /* DNS_SRV, DNS_PTR; RESOLVER_ADDRESSES */
    struct dns_name name;           /* the key */
    struct resolver_answer *answer; /* remembered; one reference. NULL while it is asked */
    struct question *question;      /* under way; NULL = none */
};

/* A cache and its name servers: one for all settings of this worker that say the same. */
struct resolver {
    struct list node;       /* on the list of this worker's resolvers */
    struct addr *servers;   /* owned */
    unsigned server_count;  /* at least 1 */
    uint64_t valid_s;       /* as in the settings */
    bool has_valid;         /* as in the settings */
    bool uses_ipv4;         /* as in the settings */
    bool uses_ipv6;         /* as in the settings */
    unsigned good;          /* number of the server that answered last: asked first */
    size_t names;           /* entries in the table */
    size_t bytes;           /* of all answers in it */
    struct list recent;     /* entries with an answer, used last first */
    struct list on_wire;    /* questions being asked */
    unsigned on_wire_count; /* of them */
    struct list queued;     /* questions that wait for their turn, first come first */
    unsigned queued_count;  /* of them */
    uint64_t sent;          /* messages, for statistics */
    uint64_t evicted;       /* answers that still held and had to go, for statistics */
    uint64_t said_full_ms;  /* when that was logged last; 0 = never */
    struct resolver_entry *buckets[RESOLVER_BUCKETS];
};

/* A fiber that wants to know; on its stack or in its arena. Belongs to resolver_wait_begin and
 * _end. */
struct resolver_waiter {
    struct list node;               /* on question->waiters while it has no answer */
    struct question *question;      /* that it waits for, while it has no answer */
    struct wait_point answered;     /* signalled with is_answered */
    bool is_answered;               /* result and answer are set */
    enum resolve_result result;     /* of the question */
    struct resolver_answer *answer; /* one reference, or NULL */
};

/* ---- cache.c ---- */

/* The name in the table, put in front of those used lately; or NULL. */
struct resolver_entry *resolver_find(struct resolver *resolver, const struct dns_name *name,
                                     uint16_t type);

/* A new entry for a name that is not there. NULL: all names are being asked and no more fit. */
struct resolver_entry *resolver_entry_new(struct resolver *resolver, const struct dns_name *name,
                                          uint16_t type);

/* Remembers an answer; takes a reference of its own. Others may have to go, never this one. */
void resolver_entry_learn(struct resolver *resolver, struct resolver_entry *entry,
                          struct resolver_answer *answer);
/* Forgets its answer, if there is one. */
void resolver_entry_unlearn(struct resolver *resolver, struct resolver_entry *entry);
/* Takes it out of the table and frees it; it has no question. */
void resolver_entry_drop(struct resolver *resolver, struct resolver_entry *entry);
/* All of them. */
void resolver_entries_drop(struct resolver *resolver);

/* An answer with copies of the records; one reference, the caller's. */
struct resolver_answer *resolver_answer_new(enum resolve_result result, uint64_t valid_until_ms,
                                            const struct vec *lists, unsigned list_count);
void resolver_answer_release(struct resolver_answer *answer);

/* ---- question.c ---- */

/* Begins to ask about the entry, which has no question; sets entry->question. */
void question_start(struct resolver *resolver, struct resolver_entry *entry);
/* Joins those who wait. */
void question_join(struct question *question, struct resolver_waiter *waiter, uint64_t deadline_ms);
/* One who waited has no time left: ends the question if there are addresses that can be given,
 * which tells all who wait. */
void question_hurry(struct question *question);
/* Tells all who wait that it failed, and frees it; nothing is remembered. */
void question_abort(struct question *question);

/* A new random id for what it asks. */
void query_draw_id(struct query *query);
/* The query has come to its end. True: so has the whole question, and it is gone. */
bool query_done(struct query *query, enum dns_verdict verdict);

/* ---- wire.c ---- */

/* Asks the server query->server; when it cannot be reached, the next ones. */
void query_send(struct query *query);
/* Closes all sockets of a question. */
void question_close(struct question *question);
/* Closes the TCP connection of a query, if there is one. */
void query_close_tcp(struct query *query);

#endif
