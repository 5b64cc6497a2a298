/*
 * Flows by the ids that backends gave their clients: a sender that comes from a new address, with
 * the id of a flow, is the client of that flow. The id that came last is whose it is; the table of
 * all processes (directory.c) leads to the worker.
 */
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/fatal.h"
#include "net/datagram/ids.h"
#include "net/datagram/private.h"

#define IDS_OF_A_FLOW 4u /* the newest; a handshake shows two at most */

struct identity {
    struct hashed entry;
    struct identity *older; /* of the same flow */
    struct datagram_flow *flow;
};

static struct hashed_table table;

static uint64_t identity_hash_of(uint32_t set, struct str id)
{
    char bytes[sizeof(set) + 1 + DATAGRAM_ID_MOST];

    memcpy(bytes, &set, sizeof(set));
    bytes[sizeof(set)] = (char) id.len;
    memcpy(bytes + sizeof(set) + 1, id.data, id.len);
    return keyed_hash((struct str){bytes, sizeof(set) + 1 + id.len});
}

static struct identity *find(uint64_t hash)
{
    struct hashed *entry = hashed_first(&table, hash);

    while (entry != NULL && entry->hash != hash) {
        entry = entry->next;
    }
    return entry == NULL ? NULL : container_of(entry, struct identity, entry);
}

/* ---- what is known of a flow */

static void forget(struct identity **link)
{
    struct identity *identity = *link;

    *link = identity->older;
    hashed_remove(&table, &identity->entry);
    directory_leave(identity->entry.hash, mailbox_own);
    free(identity);
}

/* An identity of another flow: the backend gave it to a new client. */
static void take_from(struct identity *identity)
{
    struct identity **link = &identity->flow->ids;

    while (*link != identity) {
        link = &(*link)->older;
    }
    forget(link);
}

static void forget_oldest(struct datagram_flow *flow)
{
    struct identity **link = &flow->ids;
    unsigned count = 1;

    while (*link != NULL && count < IDS_OF_A_FLOW) {
        link = &(*link)->older;
        count++;
    }
    if (*link != NULL) {
        forget(link);
    }
}

void identity_learn(struct datagram_flow *flow, struct str answer)
{
    struct str id = datagram_id_given(flow->port->listener->flow_ids, answer);

    if (id.len == 0) {
        return;
    }
    uint64_t hash = identity_hash_of(flow->port->set, id);
    struct identity *identity = find(hash);
    if (identity != NULL && identity->flow == flow) {
        return;
    }
    if (identity != NULL) {
        take_from(identity);
    }
    forget_oldest(flow);
    identity = malloc(sizeof(*identity));
    if (identity == NULL) {
        fatal_no_memory(sizeof(*identity));
    }
    identity->flow = flow;
    identity->older = flow->ids;
    flow->ids = identity;
    hashed_add(&table, &identity->entry, hash);
    directory_note_length((unsigned) id.len);
    directory_take(hash, mailbox_own);
}

void identity_forget(struct datagram_flow *flow)
{
    while (flow->ids != NULL) {
        forget(&flow->ids);
    }
}

void identities_free(void)
{
    hashed_free(&table);
}

/* ---- whose a datagram is */

struct datagram_flow *identity_find(const struct datagram_port *port, struct str datagram,
                                    uint32_t *elsewhere)
{
    bool is_open;
    struct str borne = datagram_id_borne(port->listener->flow_ids, datagram, &is_open);
    uint32_t lengths = directory_lengths();

    *elsewhere = 0;
    for (size_t len = is_open ? DATAGRAM_ID_LEAST : borne.len;
         len <= borne.len && len <= DATAGRAM_ID_MOST; len++) {
        if ((lengths >> len & 1) == 0) {
            continue;
        }
        uint64_t hash = identity_hash_of(port->set, str_head(borne, len));
        uint32_t owner = directory_find(hash);
        if (owner != 0 && owner != mailbox_own) {
            *elsewhere = owner; /* even if it was a client's of this worker before */
            continue;
        }
        const struct identity *identity = find(hash);
        if (identity != NULL) {
            return identity->flow;
        }
    }
    return NULL;
}
