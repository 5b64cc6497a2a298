/* Sends changes of servers by the API to all nodes. An item is a group; docs/scaling-out.md
 * describes it. */
#include "shared/upstream/servers_sync.h"

#include "base/clock.h"
#include "fiber/fiber.h"
#include "server/generation.h"
#include "shared/upstream/servers_text.h"
#include "store/table.h"

enum {
    MEMORY = 64 * 1024, /* for the names of groups that the store does not have */
    INTERVAL_MS = 50,
    CLAIM_MS = 2000,      /* lease of a node that changes a group */
    CLAIM_WAIT_MS = 3000, /* for another node that has it */
    CLAIM_PAUSE_MS = 10,
    ATTEMPTS_MOST = 1000, /* if others write at the same time */
};

/* A group with `sync`. */
struct synced_group {
    struct synced_group *next;
    struct upstream_group *group;
    struct synced_zone *zone;
};

/* A zone with `sync`: a table. */
struct synced_zone {
    struct synced_zone *next;
    struct str name;
    struct synced_group *groups;
    struct store_table *table;
};

static struct synced_zone **zones_of(struct conf *conf)
{
    return conf_state(conf, "synced upstream zones", sizeof(struct synced_zone *));
}

static struct synced_group *synced_of(const struct upstream_group *group)
{
    for (struct synced_zone *zone = *zones_of(&group->set->generation->conf); zone != NULL;
         zone = zone->next) {
        for (struct synced_group *synced = zone->groups; synced != NULL; synced = synced->next) {
            if (synced->group == group) {
                return synced;
            }
        }
    }
    return NULL;
}

/* ---- changes by this node ---- */

bool servers_sync_begin(struct upstream_group *group)
{
    const struct synced_group *synced = synced_of(group);
    uint64_t until_ms = clock_now.now_ms + CLAIM_WAIT_MS;

    if (synced == NULL) {
        return true;
    }
    while (!store_table_claim(synced->zone->table, group->name, CLAIM_MS)) {
        if (clock_now.now_ms >= until_ms ||
            fiber_sleep(clock_now.now_ms + CLAIM_PAUSE_MS) == WAIT_CANCELLED) {
            return false;
        }
    }
    store_table_fetch(synced->zone->table, group->name);
    return true;
}

void servers_sync_end(struct upstream_group *group, bool is_changed)
{
    const struct synced_group *synced = synced_of(group);

    if (synced == NULL) {
        return;
    }
    if (is_changed) {
        store_table_note(synced->zone->table, group->name);
        store_table_flush(synced->zone->table,
                          &(const struct vec){.items = &group->name, .count = 1});
    }
    store_table_release(synced->zone->table, group->name);
}

/* ---- the table ---- */

static struct upstream_group *group_named(const struct synced_zone *zone, struct str name)
{
    for (const struct synced_group *synced = zone->groups; synced != NULL; synced = synced->next) {
        if (str_equal(synced->group->name, name)) {
            return servers_may_change(synced->group) && synced->group->worker_state != NULL
                       ? synced->group
                       : NULL;
        }
    }
    return NULL;
}

static bool servers_item_get(void *owner, struct str name, struct arena *arena,
                             struct store_item *item)
{
    struct upstream_group *group = group_named(owner, name);
    struct servers_list list;

    if (group == NULL) {
        return false;
    }
    servers_read(group, arena, &list);
    item->value = servers_text(&list, arena);
    return true;
}

/* Removes servers that cannot be used on this node. */
static void keep_usable(struct upstream_group *group, struct servers_list *list,
                        struct arena *arena)
{
    struct vec all = list->entries;

    list->entries = (struct vec){0};
    vec_each(const struct server_entry, entry, &all) {
        const char *error = servers_check(group, entry, arena);

        if (error == NULL && server_address_is_name(entry->address) && group->resolver == NULL) {
            error = "no resolver defined to resolve names at run time";
        }
        if (error != NULL) {
            log_error(&group->set->log, 0,
                      "server \"%.*s\" of another node is not used in upstream \"%.*s\": %s",
                      STR_ARG(entry->address), STR_ARG(group->name), error);
        } else {
            *vec_add(&list->entries, arena, struct server_entry) = *entry;
        }
    }
}

static enum servers_result take_list(struct upstream_group *group, struct str text,
                                     struct arena *arena, bool *is_new)
{
    enum servers_result result = SERVERS_MOVED;

    for (unsigned i = 0; i < ATTEMPTS_MOST && result == SERVERS_MOVED; i++) {
        struct servers_list list, former;

        servers_read(group, arena, &former);
        *is_new = !str_equal(servers_text(&former, arena), text);
        if (!*is_new || !servers_text_read(text, arena, &list)) {
            *is_new = false;
            return SERVERS_DONE;
        }
        list.version = former.version;
        keep_usable(group, &list, arena);
        result = servers_write(group, &list);
    }
    return result;
}

static bool servers_item_put(void *owner, const struct store_item *item)
{
    struct upstream_group *group = group_named(owner, item->name);
    struct arena arena;
    bool is_new = false;

    if (group == NULL) {
        return true; /* not a group of this node */
    }
    arena_init(&arena);
    enum servers_result result = take_list(group, item->value, &arena, &is_new);
    arena_free(&arena);
    if (result == SERVERS_DONE && is_new) {
        log_notice(&group->set->log, 0, "another node changed the servers of upstream \"%.*s\"",
                   STR_ARG(group->name));
        servers_save(group, &group->set->log);
    }
    return result == SERVERS_DONE;
}

/* The store lacks the group that this node has: it is sent. */
static void servers_item_drop(void *owner, struct str name)
{
    const struct synced_zone *zone = owner;

    if (group_named(zone, name) != NULL) {
        store_table_note(zone->table, name);
    }
}

/* Lists the groups that differ from the configuration, or whose servers are in a file. */
static bool servers_item_list(void *owner, uint32_t *cursor, struct arena *arena, struct vec *names)
{
    const struct synced_zone *zone = owner;

    for (const struct synced_group *synced = zone->groups; synced != NULL; synced = synced->next) {
        struct upstream_group *group = group_named(zone, synced->group->name);
        struct servers_list list;

        if (group == NULL) {
            continue;
        }
        servers_read(group, arena, &list);
        if (list.version != 0 || (group->state_file.len != 0 && list.entries.count != 0)) {
            *vec_add(names, arena, struct str) = group->name;
        }
    }
    return false;
}

static const struct store_table_kind servers_table = {.purpose = "upstream_servers",
                                                      .get = servers_item_get,
                                                      .put = servers_item_put,
                                                      .drop = servers_item_drop,
                                                      .list = servers_item_list,
                                                      .starts_again = true};

/* ---- the configuration ---- */

static struct synced_zone *zone_of(struct conf *conf, struct conf_node *node, struct str name,
                                   const struct store_sync_words *words)
{
    struct synced_zone **link = zones_of(conf);

    while (*link != NULL && !str_equal((*link)->name, name)) {
        link = &(*link)->next;
    }
    if (*link != NULL) {
        return *link;
    }
    struct synced_zone *zone = arena_new(conf->arena, struct synced_zone);
    const struct store_table_wanted wanted = {.kind = &servers_table,
                                              .owner = zone,
                                              .name = name,
                                              .size = MEMORY,
                                              .words = words,
                                              .interval_ms = INTERVAL_MS};
    zone->name = name;
    zone->table = store_table_new(conf, node, &wanted);
    if (zone->table == NULL) {
        return NULL;
    }
    *link = zone;
    return zone;
}

bool servers_sync_add(struct conf *conf, struct conf_node *node, struct upstream_group *group,
                      const struct store_sync_words *words)
{
    struct synced_zone *zone = zone_of(conf, node, group->zone_name, words);
    struct synced_group *synced = arena_new(conf->arena, struct synced_group);

    if (zone == NULL) {
        return false;
    }
    *synced = (struct synced_group){.next = zone->groups, .group = group, .zone = zone};
    zone->groups = synced;
    return true;
}
