/* Shared by the files of the resolver: the cache (cache.c), the questions under way (question.c,
 * wire.c), and the waiting fibers (resolver.c). */
#ifndef NET_RESOLVER_PRIVATE_H
#define NET_RESOLVER_PRIVATE_H

#include "base/list.h"
#include "event/loop.h"
#include "fiber/fiber.h"
#include "net/resolver/dns.h"
#include "net/resolver/resolver.h"

enum {
    RESOLVER_NAMES_MAX = 4096,        /* names cached or being resolved, for each resolver */
    RESOLVER_BYTES_MAX = 8 << 20,     /* of all cached answers, for each resolver */
    RESOLVER_BUCKETS = 1024,          /* of the table of names; a power of two */
    RESOLVER_AT_ONCE_MAX = 256,       /* questions on the wire; others are queued */
    RESOLVER_ADDRESSES = 0,           /* the type of an entry for A and AAAA; not a DNS type */
    RESOLVER_NEGATIVE_MS = 10 * 1000, /* longest validity of "not found" and of partial answers */
};

/* An answer, shared by the cache and the fibers that waited for it. */
struct resolver_answer {
    unsigned references;         /* freed with the last one */
    enum resolve_result result;  /* RESOLVE_OK or RESOLVE_NOT_FOUND */
    uint64_t valid_until_ms;     /* by clock_now.now_ms */
    size_t size;                 /* bytes of the whole */
    unsigned count;              /* records */
    struct dns_record records[]; /* A before AAAA; their strings follow the array */
};

/* The socket of a question to one name server. Not shared, so that each question has a new random
 * port. */
struct resolver_line {
    struct event_source source; /* connected UDP socket; fd -1 until needed */
    struct question *question;  /* that owns it */
    unsigned server;            /* number of the name server */
};

/* A question of one name and one type on the wire. */
struct query {
    struct question *question; /* that owns it */
    struct dns_name name; /* the name being queried: the question's, or the target of its aliases */
    uint16_t type;        /* DNS_A, DNS_AAAA, DNS_SRV, DNS_PTR */
    uint16_t id;          /* random; drawn again for each name queried */
    bool is_open;         /* no answer yet */
    enum dns_verdict verdict; /* when not open: FOUND, NO_DATA or NO_NAME; any other is a failure */
    uint8_t rcode;            /* of the last answer */
    unsigned server;          /* number of the name server in use */
    unsigned refusals;        /* servers that responded without a usable answer */
    unsigned skips;           /* servers found unreachable since the last round */
    unsigned aliases;         /* followed so far */
    /* Name is the target of an alias whose addresses the answer did not contain. */
    bool is_followed;
    bool is_of_name;    /* the records belong to name itself: the last answer had no aliases */
    uint32_t ttl_s;     /* the least so far */
    bool has_ttl;       /* ttl_s is known */
    struct vec records; /* struct dns_record, in the question's arena */
    struct conn *tcp;   /* in use after a truncated answer; or NULL */
};

/* All queries about one name: A and AAAA in parallel, or SRV, or PTR. */
struct question {
    struct list node;             /* on one of the resolver's two lists of questions */
    struct resolver *resolver;    /* that owns it */
    struct resolver_entry *entry; /* the name */
    struct list waiters;          /* struct resolver_waiter */
    uint64_t deadline_ms;         /* the latest deadline of any waiter so far */
    struct timer timer;           /* the next round */
    unsigned rounds;              /* how many times the open queries were sent */
    bool is_on_wire;              /* it is not queued any more */
    struct arena arena;           /* records */
    struct query queries[2];      /* A, AAAA; or SRV or PTR alone */
    unsigned query_count;         /* 1 or 2 */
    struct resolver_line lines[]; /* one for each name server */
};

/* A name in the cache. */
struct resolver_entry {
    struct resolver_entry *next;    /* of the same bucket */
    struct list use;                /* node on resolver->recent while it has an answer */
    uint32_t hash;                  /* of the name */
    uint16_t type;                  /* DNS_SRV, DNS_PTR; RESOLVER_ADDRESSES */
    struct dns_name name;           /* the key */
    struct resolver_answer *answer; /* cached; one reference. NULL while it is being resolved */
    struct question *question;      /* under way; NULL = none */
};

/* A cache and its name servers, shared by all settings of this worker with the same content. */
struct resolver {
    struct list node;       /* on the list of this worker's resolvers */
    struct addr *servers;   /* owned */
    unsigned server_count;  /* at least 1 */
    uint64_t valid_s;       /* as in the settings */
    bool has_valid;         /* as in the settings */
    bool uses_ipv4;         /* as in the settings */
    bool uses_ipv6;         /* as in the settings */
    unsigned good;          /* number of the server that answered last, which is asked first */
    size_t names;           /* entries in the table */
    size_t bytes;           /* of all answers in it */
    struct list recent;     /* entries with an answer, most recently used first */
    struct list on_wire;    /* questions being asked */
    unsigned on_wire_count; /* of them */
    struct list queued;     /* questions that wait for a free position on the wire, oldest first */
    unsigned queued_count;  /* of them */
    uint64_t sent;          /* messages, for statistics */
    uint64_t evicted;       /* valid answers dropped for lack of space, for statistics */
    uint64_t said_full_ms;  /* when the warning about a full cache was last logged; 0 = never */
    struct resolver_entry *buckets[RESOLVER_BUCKETS];
};

/* A fiber that waits for an answer; on its stack or in its arena. Managed by wait_begin and
 * wait_end of resolver.c. */
struct resolver_waiter {
    struct list node;               /* on question->waiters while it has no answer */
    struct question *question;      /* that it waits for; NULL once answered */
    struct wait_point answered;     /* signalled with is_answered */
    bool is_answered;               /* result and answer are set */
    enum resolve_result result;     /* of the question */
    struct resolver_answer *answer; /* one reference, or NULL */
};

/* ---- cache.c ---- */

/* Looks the name up and marks it as recently used; or NULL. */
struct resolver_entry *resolver_find(struct resolver *resolver, const struct dns_name *name,
                                     uint16_t type);

/* Adds an entry for a new name. NULL: the table is full of names that are being resolved. */
struct resolver_entry *resolver_entry_new(struct resolver *resolver, const struct dns_name *name,
                                          uint16_t type);

/* Stores an answer and takes a reference. May evict other entries, never this one. */
void resolver_entry_learn(struct resolver *resolver, struct resolver_entry *entry,
                          struct resolver_answer *answer);
/* Drops the entry's answer, if it has one. */
void resolver_entry_unlearn(struct resolver *resolver, struct resolver_entry *entry);
/* Removes the entry from the table and frees it; it must have no question. */
void resolver_entry_drop(struct resolver *resolver, struct resolver_entry *entry);
/* Drops all entries. */
void resolver_entries_drop(struct resolver *resolver);

/* Allocates an answer with copies of the records; the caller has its one reference. */
struct resolver_answer *resolver_answer_new(enum resolve_result result, uint64_t valid_until_ms,
                                            const struct vec *lists, unsigned list_count);
void resolver_answer_release(struct resolver_answer *answer);

/* ---- question.c ---- */

/* Creates the question for an entry that has none; sets entry->question. */
void question_start(struct resolver *resolver, struct resolver_entry *entry);
/* Adds a waiter and sends or queues the question if it is new. */
void question_join(struct question *question, struct resolver_waiter *waiter, uint64_t deadline_ms);
/* The time of a waiter is over: ends the question for all waiters if it has any records. */
void question_hurry(struct question *question);
/* Fails the question for all waiters and frees it; nothing is cached. */
void question_abort(struct question *question);

/* Draws a new random id for the query. */
void query_draw_id(struct query *query);
/* Ends the query. True: that ended the question, which is freed. */
bool query_done(struct query *query, enum dns_verdict verdict);

/* ---- wire.c ---- */

/* Sends the query to server query->server, or to the next ones if it cannot be reached. */
void query_send(struct query *query);
/* Closes all sockets of a question. */
void question_close(struct question *question);
/* Closes the TCP connection of a query, if there is one. */
void query_close_tcp(struct query *query);

#endif
