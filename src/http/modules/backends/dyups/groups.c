/* The groups of dyups in one worker: updated when one is looked up, or every
 * dyups_read_msg_timeout. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "event/loop.h"
#include "http/modules/backends/dyups/dyups.h"
#include "http/modules/backends/dyups/store.h"
#include "upstream/changes.h"

/* A name that was changed at some time. */
struct known_group {
    struct list in_list;
    struct changed_group *changed; /* NULL: it was deleted */
    size_t name_length;
    char name[];
};

struct dyups_settings *dyups_now;

static struct upstream_set *changed_set; /* the set whose groups are changed; NULL: the worker has
                                            not started, or has ended */
static uint64_t seen;                    /* the version of the store that was applied here */
static struct list known = {&known, &known};
static struct timer timer;

static struct str name_of(const struct known_group *group)
{
    return (struct str){group->name, group->name_length};
}

static struct known_group *known_find(struct str name)
{
    list_each(item, &known) {
        struct known_group *group = container_of(item, struct known_group, in_list);

        if (str_equal_nocase(name_of(group), name)) {
            return group;
        }
    }
    return NULL;
}

static struct known_group *known_new(struct str name)
{
    struct known_group *group = calloc(1, sizeof(*group) + name.len);

    if (group == NULL) {
        fatal_no_memory(sizeof(*group));
    }
    group->name_length = name.len;
    str_put(group->name, name);
    list_push_back(&known, &group->in_list);
    return group;
}

/* Changes of other workers are logged to the log of the http block. */
static const struct log *log_now(void)
{
    return &upstream_set_of(dyups_now->outer->conf, &upstream_http)->log;
}

static struct changed_group *make_group(const struct dyups_entry *entry)
{
    struct buf why = {0};
    struct changed_group *made =
        changed_group_read(dyups_now->outer, dyups_now->variables, entry->name, entry->text, &why);

    if (made == NULL) {
        log_error(log_now(), 0, "dyups: upstream \"%.*s\" is not taken: %.*s", STR_ARG(entry->name),
                  STR_ARG(buf_str(&why)));
    } else if (!changed_group_start(made)) {
        changed_group_drop(made);
        made = NULL;
    }
    buf_free(&why);
    return made;
}

/* The former group continues to serve the requests that use it. */
static void dyups_groups_take(const struct dyups_entry *entry)
{
    struct known_group *group = known_find(entry->name);

    if (group == NULL) {
        group = known_new(entry->name);
    }
    struct changed_group *former = group->changed;
    group->changed = entry->is_gone ? NULL : make_group(entry);
    if (former != NULL) {
        changed_group_drop(former);
    }
    if (dyups_now->logs_reads) {
        log_notice(log_now(), 0, "dyups: upstream \"%.*s\" was %s", STR_ARG(entry->name),
                   entry->is_gone ? "deleted" : "changed");
    }
}

void dyups_sync(void)
{
    struct arena arena;
    struct vec entries = {0};

    if (changed_set == NULL || store_version(dyups_now->zone) == seen) {
        return;
    }
    arena_init(&arena);
    seen = store_since(dyups_now->zone, seen, &arena, &entries);
    vec_each(const struct dyups_entry, entry, &entries) {
        dyups_groups_take(entry);
    }
    arena_free(&arena);
}

static void dyups_groups_look(struct timer *fired)
{
    dyups_sync();
    timer_set(fired, clock_now.now_ms + dyups_now->read_ms);
}

/* ---- lookup ---- */

bool dyups_find(struct str name, struct upstream_group **out)
{
    dyups_sync();
    struct known_group *group = known_find(name);
    if (group == NULL) {
        return false;
    }
    *out = group->changed == NULL ? NULL : changed_group_of(group->changed);
    return true;
}

void dyups_each(void (*visit)(struct upstream_group *group, void *arg), void *arg)
{
    list_each(item, &known) {
        const struct known_group *group = container_of(item, struct known_group, in_list);

        if (group->changed != NULL) {
            visit(changed_group_of(group->changed), arg);
        }
    }
}

bool dyups_check(struct str name, struct str text, struct buf *why)
{
    struct changed_group *made =
        changed_group_read(dyups_now->outer, dyups_now->variables, name, text, why);

    if (made == NULL) {
        return false;
    }
    changed_group_drop(made);
    return true;
}

/* ---- start and end of a worker ---- */

static void forget_all(void)
{
    list_each(item, &known) {
        struct known_group *group = container_of(item, struct known_group, in_list);

        if (group->changed != NULL) {
            changed_group_drop(group->changed);
        }
        list_remove(item);
        free(group);
    }
}

void dyups_start(struct dyups_settings *settings, struct upstream_set *set)
{
    if (changed_set != NULL) {
        changed_set->find_changed =
            NULL; /* without a master, generations follow each other in one process */
        changed_set->each_changed = NULL;
        changed_set->change = NULL;
        forget_all();
        timer_remove(&timer);
    }
    dyups_now = settings;
    changed_set = set;
    set->find_changed = dyups_find;
    set->each_changed = dyups_each;
    set->change = dyups_change;
    seen = 0;
    timer_init(&timer, dyups_groups_look);
    timer_set(&timer, clock_now.now_ms);
}

void dyups_quit(void)
{
    if (changed_set != NULL) {
        timer_remove(&timer);
        list_each(item, &known) {
            const struct known_group *group = container_of(item, struct known_group, in_list);

            if (group->changed != NULL) {
                changed_group_quit(group->changed);
            }
        }
    }
}

void dyups_end(void)
{
    if (changed_set != NULL) {
        timer_remove(&timer);
        forget_all();
        changed_groups_end();
        changed_set->find_changed = NULL;
        changed_set->each_changed = NULL;
        changed_set->change = NULL;
        changed_set = NULL;
        dyups_now = NULL;
    }
}
