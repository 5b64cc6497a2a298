/* Explanations of requests in shared memory: see explanations.h. */
#include "shared/explain/explanations.h"

#include <string.h>

#include "base/checksum.h"
#include "base/parse.h"
#include "base/text.h"
#include "server/generation.h"

struct explanation_id {
    unsigned char bytes[EXPLANATION_ID_SIZE / 2];
};

/* The location of the text of an id. */
struct explanation {
    struct explanation_id id;
    uint64_t start;  /* value of `end` before the text was written */
    uint64_t length; /* bytes of the text; 0: no explanation */
};

/* The root of a zone. Byte n of all bytes ever written is text[n % room]. */
struct explanations {
    struct shm_lock lock;
    uint64_t capacity; /* bytes of `text` */
    uint64_t end;      /* bytes ever written */
    uint64_t added;    /* explanations ever added */
    struct explanation index[EXPLANATIONS_MOST];
    char text[];
};

/* A zone of one reading. */
struct explanations_zone {
    struct explanations_zone *next;
    struct explanations *explanations;
};

static struct explanations_zone **zones_of(struct conf *conf)
{
    return conf_state(conf, "explanations", sizeof(struct explanations_zone *));
}

/* ---- while the configuration is read ---- */

struct explanations *explanations_of(struct zone *zone)
{
    size_t size = slab_available(zone->slab);

    if (zone->root == NULL && size >= sizeof(struct explanations) + EXPLANATION_MOST) {
        struct explanations *made = zone->root = slab_alloc(zone->slab, size);

        if (made != NULL) {
            shm_lock_init(&made->lock);
            made->capacity = size - sizeof(*made);
        }
    }
    return zone->root;
}

static void note_zone(struct conf *conf, struct explanations *explanations)
{
    struct explanations_zone **link = zones_of(conf);

    while (*link != NULL && (*link)->explanations != explanations) {
        link = &(*link)->next;
    }
    if (*link == NULL) {
        *link = arena_new(conf->arena, struct explanations_zone);
        (*link)->explanations = explanations;
    }
}

struct explanations *explanations_open(struct conf *conf, struct conf_node *node, struct str zone)
{
    static const char user;
    const char *colon = str_find_last_char(zone, ':');
    uint64_t size;

    if (colon == NULL || colon == zone.data ||
        !parse_size(str_from(colon + 1, zone.data + zone.len), &size)) {
        conf_error(conf, node, "invalid zone size \"%.*s\"", STR_ARG(zone));
        return NULL;
    }
    struct str name = str_from(zone.data, colon);
    if (size < EXPLANATIONS_LEAST) {
        conf_error(conf, node, "zone \"%.*s\" is too small: it needs at least %uk", STR_ARG(name),
                   EXPLANATIONS_LEAST / 1024);
        return NULL;
    }
    struct zone *memory = generation_zone(conf->generation, node, name, (size_t) size, &user);
    struct explanations *explanations = memory == NULL ? NULL : explanations_of(memory);
    if (explanations != NULL) {
        note_zone(conf, explanations);
    } else if (memory != NULL) {
        conf_error(conf, node, "zone \"%.*s\" is too small", STR_ARG(name));
    }
    return explanations;
}

/* ---- ids ---- */

void explanation_id_make(char *id)
{
    struct explanation_id made;

    random_bytes(made.bytes, sizeof(made.bytes));
    hex_encode(id, made.bytes, sizeof(made.bytes));
}

/* False: the text is not an id. */
static bool id_read(struct str text, struct explanation_id *id)
{
    return text.len == EXPLANATION_ID_SIZE && hex_decode(text, id->bytes);
}

/* Constant time, whatever differs. */
static bool id_equal(const struct explanation_id *a, const struct explanation_id *b)
{
    unsigned char difference = 0;

    for (size_t i = 0; i < sizeof(a->bytes); i++) {
        difference |= a->bytes[i] ^ b->bytes[i];
    }
    return difference == 0;
}

/* ---- at run time ---- */

static void explanations_lock(struct explanations *explanations)
{
    if (shm_lock_take(&explanations->lock)) {
        memset(explanations->index, 0, sizeof(explanations->index));
    }
}

/* The bytes of the ring from a position on, at most up to its end. */
static struct str span_at(struct explanations *explanations, uint64_t position, size_t length)
{
    uint64_t offset = position % explanations->capacity;
    uint64_t left = explanations->capacity - offset;

    return (struct str){explanations->text + offset, length < left ? length : (size_t) left};
}

bool explanation_keep(struct explanations *explanations, struct str id, struct str text)
{
    struct explanation made = {.length = text.len};

    if (text.len > EXPLANATION_MOST || !id_read(id, &made.id)) {
        return false;
    }
    explanations_lock(explanations);
    made.start = explanations->end;
    explanations->end += text.len; /* texts that are overwritten are not found any more */
    while (text.len != 0) {
        struct str span = span_at(explanations, explanations->end - text.len, text.len);

        memcpy((char *) span.data, text.data, span.len);
        text = str_skip(text, span.len);
    }
    explanations->index[explanations->added++ % EXPLANATIONS_MOST] = made;
    shm_lock_release(&explanations->lock);
    return true;
}

/* NULL: there is none, or it was overwritten. Called with the lock held. */
static struct explanation *find_entry(struct explanations *explanations,
                                      const struct explanation_id *id)
{
    for (unsigned i = 0; i < EXPLANATIONS_MOST; i++) {
        struct explanation *entry = &explanations->index[i];

        if (entry->length != 0 && entry->start + explanations->capacity >= explanations->end &&
            id_equal(&entry->id, id)) {
            return entry;
        }
    }
    return NULL;
}

bool explanation_find_in(struct explanations *explanations, struct str id, struct arena *arena,
                         struct str *text)
{
    struct explanation_id wanted;
    char *copy, *at;

    if (!id_read(id, &wanted)) {
        return false;
    }
    explanations_lock(explanations);
    const struct explanation *entry = find_entry(explanations, &wanted);
    if (entry != NULL) {
        at = copy = arena_alloc(arena, (size_t) entry->length);
        for (size_t left = (size_t) entry->length; left != 0;) {
            struct str span = span_at(explanations, entry->start + entry->length - left, left);

            at = str_put(at, span);
            left -= span.len;
        }
        *text = str_from(copy, at);
    }
    shm_lock_release(&explanations->lock);
    return entry != NULL;
}

void explanation_drop_in(struct explanations *explanations, struct str id)
{
    struct explanation_id wanted;

    if (!id_read(id, &wanted)) {
        return;
    }
    explanations_lock(explanations);
    struct explanation *entry = find_entry(explanations, &wanted);
    if (entry != NULL) {
        *entry = (struct explanation){0};
    }
    shm_lock_release(&explanations->lock);
}

bool explanation_find(struct conf *conf, struct str id, struct arena *arena, struct str *text)
{
    for (const struct explanations_zone *zone = *zones_of(conf); zone != NULL; zone = zone->next) {
        if (explanation_find_in(zone->explanations, id, arena, text)) {
            return true;
        }
    }
    return false;
}

void explanation_drop(struct conf *conf, struct str id)
{
    for (const struct explanations_zone *zone = *zones_of(conf); zone != NULL; zone = zone->next) {
        explanation_drop_in(zone->explanations, id);
    }
}
