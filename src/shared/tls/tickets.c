/* Ticket keys that several nodes share: one node makes the key of a period before it begins. */
#include "shared/tls/tickets.h"

#include <string.h>

#include "base/clock.h"
#include "base/parse.h"
#include "net/tls/tls.h"

enum {
    MEMORY = 8 * 4096,  /* for names that the store does not have */
    INTERVAL_MS = 1000, /* a period is at least one minute */
    CLAIM_MS = 5000,    /* lease of the node that makes a key */
};

/* The name of an item: "PERIOD-NUMBER", so that nodes with different periods do not use each
   other's keys. */
static struct str name_of(const struct ticket_ring *ring, uint64_t number, struct arena *arena)
{
    return arena_printf(arena, "%llu-%llu", (unsigned long long) tls_ring_period_s(ring),
                        (unsigned long long) number);
}

/* 0: not one of our names. */
static uint64_t number_of(const struct ticket_ring *ring, struct str name)
{
    uint64_t period_s, number;
    struct str period = str_cut(&name, '-');

    return name.data != NULL && parse_uint(period, &period_s) && period_s != 0 &&
                   period_s == tls_ring_period_s(ring) && parse_uint(name, &number)
               ? number
               : 0;
}

static uint64_t now_s(void)
{
    return (uint64_t) clock_now.seconds;
}

static bool ticket_item_get(void *owner, struct str name, struct arena *arena,
                            struct store_item *item)
{
    struct ticket_ring *ring = owner;
    uint64_t number = number_of(ring, name), period_s = tls_ring_period_s(ring);
    unsigned char *key = arena_alloc(arena, TLS_RING_KEY);

    if (number == 0 || (number + 2) * period_s <= now_s() || !tls_ring_get(ring, number, key)) {
        return false;
    }
    item->value = (struct str){(char *) key, TLS_RING_KEY};
    item->ttl_ms = ((number + 2) * period_s - now_s()) * 1000;
    return true;
}

/* A key for a time that is far from ours is not used: the clock of its node is wrong, or ours
   is. */
static bool ticket_item_put(void *owner, const struct store_item *item)
{
    struct ticket_ring *ring = owner;
    uint64_t number = number_of(ring, item->name);
    uint64_t current = number == 0 ? 0 : now_s() / tls_ring_period_s(ring);

    if (item->value.len == TLS_RING_KEY && number + 1 >= current && number <= current + 1) {
        tls_ring_put(ring, number, (const unsigned char *) item->value.data);
    }
    return true;
}

static void ticket_item_drop(void *owner, struct str name)
{
    uint64_t number = number_of(owner, name);

    if (number != 0) {
        tls_ring_put(owner, number, NULL);
    }
}

static bool ticket_item_list(void *owner, uint32_t *cursor, struct arena *arena, struct vec *names)
{
    struct ticket_ring *ring = owner;
    uint64_t period_s = tls_ring_period_s(ring), current = period_s == 0 ? 1 : now_s() / period_s;
    unsigned char key[TLS_RING_KEY];

    for (uint64_t number = current - 1; number <= current + 1; number++) {
        if (tls_ring_get(ring, number, key)) {
            *vec_add(names, arena, struct str) = name_of(ring, number, arena);
        }
    }
    explicit_bzero(key, sizeof(key));
    return false;
}

/*
 * One of the nodes makes a key, and only if it knows the contents of the store: otherwise its key
 * could replace one that the others use. Without the store a node encrypts with its own keys. MAY
 * WAIT.
 */
static void tickets_exchanged(void *owner, struct store_table *table, bool is_read)
{
    struct ticket_ring *ring = owner;
    struct arena arena;
    uint64_t number, wanted;

    if (!is_read || !tls_ring_wants(ring, now_s(), &number)) {
        return;
    }
    arena_init(&arena);
    struct str name = name_of(ring, number, &arena);
    if (store_table_lease(table, name, CLAIM_MS) == STORE_OK) {
        store_table_fetch(table, name); /* the previous holder of the lease has made it */
        if (tls_ring_wants(ring, now_s(), &wanted) && wanted == number &&
            tls_ring_make(ring, number)) {
            store_table_note(table, name);
        }
    }
    arena_free(&arena);
}

static const struct store_table_kind ticket_table = {.purpose = "ssl_ticket_keys",
                                                     .get = ticket_item_get,
                                                     .put = ticket_item_put,
                                                     .drop = ticket_item_drop,
                                                     .list = ticket_item_list,
                                                     .exchanged = tickets_exchanged,
                                                     .is_secret = true};

bool tls_tickets_sync(struct conf *conf, struct conf_node *node,
                      const struct store_sync_words *words)
{
    struct store_table **table = conf_state(conf, "tls ticket table", sizeof(*table));
    struct zone *zone = tls_ticket_zone(conf);
    struct ticket_ring *ring = zone == NULL ? NULL : tls_ring_of(zone, 0);
    const struct store_table_wanted wanted = {.kind = &ticket_table,
                                              .owner = ring,
                                              .name = STR("ssl_ticket_keys"),
                                              .size = MEMORY,
                                              .words = words,
                                              .interval_ms = INTERVAL_MS};

    if (*table != NULL) {
        return true; /* all servers use the same keys */
    }
    if (ring == NULL) {
        return false;
    }
    *table = store_table_new(conf, node, &wanted);
    return *table != NULL;
}
