/* Zones of shared memory by name, taken over from one generation to the next. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/hint.h"
#include "base/shm.h"
#include "server/configuration/generation_life.h"

/* A zone, and the use count of its memory: several generations of one process may share it. */
struct zone_holder {
    struct zone zone;
    unsigned *uses;               /* of the memory, on the heap; NULL while there is none */
    const struct conf_node *node; /* where it was named first */
};

enum { ZONE_PAGES_LEAST = 8 };

/* The running generation while its successor is read. */
static struct generation *inherited_from;

void generation_inherit_zones(struct generation *old)
{
    inherited_from = old;
}

static struct zone *zone_find(struct generation *generation, struct str name)
{
    struct zone *zone = generation == NULL ? NULL : generation->zones;

    while (zone != NULL && !str_equal(zone->name, name)) {
        zone = zone->next;
    }
    return zone;
}

static struct zone_holder *holder_of(struct zone *zone)
{
    return (struct zone_holder *) zone;
}

/* Takes over the memory of the same zone of the running generation. */
static bool take_over_memory(struct zone_holder *holder)
{
    struct zone *zone = &holder->zone;
    struct zone *old = zone_find(inherited_from, zone->name);

    if (old == NULL || old->memory == NULL || old->size != zone->size || old->user != zone->user) {
        return false;
    }
    holder->uses = holder_of(old)->uses;
    ++*holder->uses;
    zone->memory = old->memory;
    zone->slab = old->slab;
    zone->root = old->root;
    return true;
}

static bool make_memory(struct conf *conf, struct conf_node *node, struct zone_holder *holder)
{
    struct zone *zone = &holder->zone;

    if (zone->size < (size_t) sysconf(_SC_PAGESIZE) * ZONE_PAGES_LEAST) {
        return conf_error(conf, node, "zone \"%.*s\" is too small", STR_ARG(zone->name));
    }
    zone->memory = shm_map(zone->size);
    if (zone->memory == NULL) {
        return conf_errno(conf, node, errno, "mmap(%zu) failed", zone->size);
    }
    zone->slab = slab_init(zone->memory, zone->size);
    holder->uses = calloc(1, sizeof(*holder->uses));
    if (zone->slab == NULL || holder->uses == NULL) {
        shm_unmap(zone->memory, zone->size);
        zone->memory = NULL;
        return conf_error(conf, node, "zone \"%.*s\" is too small", STR_ARG(zone->name));
    }
    *holder->uses = 1;
    return true;
}

struct zone *generation_zone(struct generation *generation, struct conf_node *node, struct str name,
                             size_t size, const void *user)
{
    struct conf *conf = &generation->conf;
    struct zone *zone = zone_find(generation, name);

    if (generation == generation_now) {
        return NULL; /* at run time: other processes could not share a new zone */
    }
    if (zone == NULL) {
        struct zone_holder *holder = arena_new(&generation->arena, struct zone_holder);

        zone = &holder->zone;
        zone->name = arena_dup(&generation->arena, name);
        zone->user = user;
        holder->node = node;
        zone->next = generation->zones;
        generation->zones = zone;
    } else if (zone->user != user) {
        conf_error(conf, node,
                   "the shared memory zone \"%.*s\" is already declared for a different use",
                   STR_ARG(name));
        return NULL;
    } else if (size != 0 && zone->size != 0 && zone->size != size) {
        conf_error(
            conf, node,
            "the size %zu of shared memory zone \"%.*s\" conflicts with already declared size %zu",
            size, STR_ARG(name), zone->size);
        return NULL;
    }
    if (size != 0 && zone->memory == NULL) {
        zone->size = size;
        if (!take_over_memory(holder_of(zone)) && !make_memory(conf, node, holder_of(zone))) {
            return NULL;
        }
    }
    return zone;
}

/* Names the directive that referred to a zone which nothing defines. */
static void say_where(const struct zone_holder *holder)
{
    const struct conf_node *node = holder->node;

    if (node != NULL && node->file != NULL) {
        hint_say(
            "\"%.*s\" in %.*s:%u uses it, and nothing defines it: \"%.*s_zone ... zone=%.*s:10m\" in "
            "the http block would",
            STR_ARG(node->args[0]), STR_ARG(node->file->name), node->line, STR_ARG(node->args[0]),
            STR_ARG(holder->zone.name));
    }
}

bool generation_check_zones(struct generation *generation)
{
    for (struct zone *zone = generation->zones; zone != NULL; zone = zone->next) {
        if (zone->memory == NULL) {
            log_emerg(log_main, 0, "zero size shared memory zone \"%.*s\"", STR_ARG(zone->name));
            say_where(holder_of(zone));
            return false;
        }
    }
    return true;
}

void generation_free_zones(struct generation *generation)
{
    for (struct zone *zone = generation->zones; zone != NULL; zone = zone->next) {
        struct zone_holder *holder = holder_of(zone);

        if (holder->uses != NULL && --*holder->uses == 0) {
            shm_unmap(zone->memory, zone->size);
            free(holder->uses);
        }
        holder->uses = NULL;
        zone->memory = NULL;
    }
}
