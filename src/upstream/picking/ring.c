/* Rings of consistent hashing: a key's server stays the same while other servers come and go. */
#include "upstream/picking/ring.h"

#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/fatal.h"
#include "upstream/picking/choose.h"

#define POINTS_PER_WEIGHT 160

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count == 0 ? 1 : count, size);

    if (memory == NULL) {
        fatal_no_memory(count * size);
    }
    return memory;
}

struct str ring_identity_written(const struct peer *peer)
{
    return peer->server->written;
}

/* ---- owners ---- */

/* A peer while owners are identified. */
struct member {
    struct str identity;
    struct str
        name; /* tells the members of one owner apart, so that their order is always the same */
    unsigned index; /* of the set */
};

static int member_compare(const void *a, const void *b)
{
    const struct member *left = a, *right = b;
    int order = str_compare(left->identity, right->identity);

    return order != 0 ? order : str_compare(left->name, right->name);
}

/* ---- points ---- */

/* The digits after the last colon; empty when the address was written without a port. */
static struct str port_of(struct str address)
{
    size_t start = address.len;

    while (start > 0 && ascii_is_digit((unsigned char) address.data[start - 1])) {
        start--;
    }
    return start > 0 && address.data[start - 1] == ':' ? str_skip(address, start) : STR_NONE;
}

/* "HOST\0PORT" and room for the hash before, 4 bytes, low byte first. */
static char *make_text(struct str identity, size_t *len)
{
    struct str host = identity, port = STR_NONE;
    char *text = allocate(identity.len + 1 + sizeof(uint32_t), 1);

    if (str_starts_nocase(identity, STR("unix:"))) {
        host = str_skip(identity, sizeof("unix:") - 1);
    } else if ((port = port_of(identity)).data != NULL) {
        host.len -= port.len + 1;
    }
    if (host.len != 0) {
        memcpy(text, host.data, host.len);
    }
    if (port.len != 0) {
        memcpy(text + host.len + 1, port.data, port.len);
    }
    *len = host.len + 1 + port.len;
    return text;
}

static struct ring_point *add_points(struct ring_point *point, struct str identity, size_t count,
                                     uint32_t owner)
{
    size_t len;
    char *text = make_text(identity, &len);
    uint32_t hash = 0;

    for (size_t i = 0; i < count; i++) {
        for (unsigned byte = 0; byte < sizeof(hash); byte++) {
            text[len + byte] = (char) (hash >> (8 * byte));
        }
        hash = crc32_of((struct str){text, len + sizeof(hash)});
        *point++ = (struct ring_point){hash, owner};
    }
    free(text);
    return point;
}

static int point_compare(const void *a, const void *b)
{
    const struct ring_point *left = a, *right = b;

    if (left->hash != right->hash) {
        return left->hash < right->hash ? -1 : 1;
    }
    return left->owner < right->owner ? -1 : left->owner > right->owner;
}

/* Of several points at one place the first stays. */
static void drop_duplicates(struct ring *ring)
{
    size_t kept = 0;

    for (size_t i = 0; i < ring->count; i++) {
        if (kept == 0 || ring->points[i].hash != ring->points[kept - 1].hash) {
            ring->points[kept++] = ring->points[i];
        }
    }
    ring->count = kept;
}

/* Owners and their members, and how many points each owner has. */
static unsigned group_members(struct ring *ring, const struct peer_set *set, struct member *members,
                              size_t *points)
{
    unsigned owners = 0;

    for (unsigned i = 0; i < set->count; i++) {
        struct ring_owner *owner;
        size_t weight = set->peers[members[i].index].weight;

        if (i == 0 || !str_equal(members[i].identity, members[i - 1].identity)) {
            ring->owners[owners++].first = i;
        }
        owner = &ring->owners[owners - 1];
        owner->count++;
        ring->members[i] = members[i].index;
        weight = (weight == 0 ? 1 : weight) * POINTS_PER_WEIGHT;
        points[owners - 1] = weight > points[owners - 1] ? weight : points[owners - 1];
    }
    return owners;
}

struct ring *ring_new(const struct peer_set *set, ring_identity *identity)
{
    struct ring *ring;
    struct member *members;
    struct ring_point *point;
    size_t *points, total = 0;
    unsigned owners;

    if (set->count == 0) {
        return NULL;
    }
    ring = allocate(1, sizeof(*ring));
    ring->owners = allocate(set->count, sizeof(*ring->owners));
    ring->members = allocate(set->count, sizeof(*ring->members));
    members = allocate(set->count, sizeof(*members));
    points = allocate(set->count, sizeof(*points));
    for (unsigned i = 0; i < set->count; i++) {
        members[i] = (struct member){identity(&set->peers[i]), set->peers[i].name, i};
    }
    qsort(members, set->count, sizeof(*members), member_compare);
    owners = group_members(ring, set, members, points);
    for (unsigned i = 0; i < owners; i++) {
        total += points[i];
    }
    ring->points = point = allocate(total, sizeof(*point));
    for (unsigned i = 0; i < owners; i++) {
        point = add_points(point, members[ring->owners[i].first].identity, points[i], i);
    }
    ring->count = total;
    qsort(ring->points, ring->count, sizeof(*ring->points), point_compare);
    drop_duplicates(ring);
    free(points);
    free(members);
    return ring;
}

static void ring_free(struct ring *ring)
{
    if (ring != NULL) {
        free(ring->points);
        free(ring->owners);
        free(ring->members);
        free(ring);
    }
}

void ring_forget(struct peer_set *set)
{
    ring_free(set->balancer_data);
    set->balancer_data = NULL;
}

/* ---- picking ---- */

/* The first point at or after the hash, the circle being closed. */
static size_t point_at(const struct ring *ring, uint32_t hash)
{
    size_t low = 0, high = ring->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (ring->points[middle].hash < hash) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low == ring->count ? 0 : low;
}

/* A peer of the point's owner that may serve: which one, the key decides, too. *was_tried: they had
 * their try, all of them. */
static struct peer *pick_member(struct upstream_pick *pick, struct peer_set *set,
                                const struct ring_point *point, uint32_t hash, bool *was_tried)
{
    const struct ring *ring = set->balancer_data;
    const struct ring_owner *owner = &ring->owners[point->owner];

    *was_tried = true;
    for (unsigned i = 0; i < owner->count; i++) {
        unsigned member = owner->first + (hash % owner->count + i) % owner->count;
        struct peer *peer = &set->peers[ring->members[member]];

        if (peer_was_tried(pick, peer)) {
            continue;
        }
        *was_tried = false;
        if (peer_may_serve(pick, peer, false)) {
            return peer;
        }
    }
    return NULL;
}

const struct peer *ring_owner_of(const struct peer_set *set, uint32_t hash)
{
    const struct ring *ring = set->balancer_data;

    if (ring == NULL || ring->count == 0) {
        return NULL;
    }
    const struct ring_point *point = &ring->points[point_at(ring, hash) % ring->count];
    return &set->peers[ring->members[ring->owners[point->owner].first]];
}

struct peer *ring_pick(struct upstream_pick *pick, struct peer_set *set, uint32_t hash)
{
    const struct ring *ring = set->balancer_data;
    unsigned misses = 0;
    size_t position;

    if (ring == NULL || ring->count == 0) {
        return NULL;
    }
    position = point_at(ring, hash);
    for (size_t i = 0; i < ring->count && misses <= CHOOSE_MISSES_MAX; i++) {
        const struct ring_point *point = &ring->points[(position + i) % ring->count];
        bool was_tried;
        struct peer *peer = pick_member(pick, set, point, hash, &was_tried);

        if (peer != NULL) {
            return peer;
        }
        misses += !was_tried;
    }
    return round_robin_pick(pick, set);
}
