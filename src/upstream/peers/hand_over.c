/* A reload: what a state file says is read for the next generation, while workers of the former one
 * may still change it. */
#include <time.h>

#include "upstream/private.h"
#include "upstream/servers.h"

enum { HAND_OVER_MS = 1000 };

/* A set whose servers can change; in the arena of its generation. */
struct changing_set {
    struct changing_set *next;
    struct upstream_set *set;
};

/* Those of all generations that live in this process, newest first. */
static struct changing_set *changing_sets;

static void set_is_gone(void *arg)
{
    struct changing_set **link = &changing_sets;

    while (*link != NULL && *link != arg) {
        link = &(*link)->next;
    }
    if (*link != NULL) {
        *link = (*link)->next;
    }
}

void servers_may_be_handed_over(struct conf *conf, struct upstream_set *set)
{
    struct changing_set *changing = arena_new(conf->arena, struct changing_set);

    *changing = (struct changing_set){.next = changing_sets, .set = set};
    changing_sets = changing;
    arena_on_free(conf->arena, set_is_gone, changing);
}

/* What a reading has stopped: it may outlive the generation. */
struct hand_over {
    unsigned generation; /* number of the one whose groups change no more */
    const struct upstream_subsystem *subsystem;
    struct str file;
};

/* Gives a group of the set that writes this file; NULL: none does. */
static struct upstream_group *find_writer(const struct upstream_set *set, struct str file)
{
    vec_each(struct upstream_group *, group, &set->groups) {
        if ((*group)->record != NULL && str_equal((*group)->state_file, file)) {
            return *group;
        }
    }
    return NULL;
}

/* The reading failed, or its generation ended: then the former one has ended before, or changes
 * nothing as it quits. */
static void take_back(void *arg)
{
    const struct hand_over *hand_over = arg;

    for (const struct changing_set *at = changing_sets; at != NULL; at = at->next) {
        if (at->set->subsystem == hand_over->subsystem &&
            at->set->generation->number == hand_over->generation) {
            struct upstream_group *group = find_writer(at->set, hand_over->file);

            if (group != NULL) {
                servers_set_handed_over(group, false);
            }
        }
    }
}

/* False: the file does not have this version after HAND_OVER_MS, since its worker was killed, or
 * the disk is slow. */
static bool wait_for_file(const struct upstream_group *group, uint64_t version)
{
    for (unsigned i = 0; atomic_load(servers_tried_version(group)) < version; i++) {
        if (i == HAND_OVER_MS) {
            return false;
        }
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return true;
}

void servers_hand_over(struct conf *conf, const struct upstream_set *set, struct str file)
{
    const struct changing_set *former = changing_sets;

    while (former != NULL && former->set->subsystem != set->subsystem) {
        former = former->next;
    }
    struct upstream_group *group = former == NULL ? NULL : find_writer(former->set, file);
    if (group == NULL || conf->is_later) {
        return;
    }
    struct hand_over *hand_over = arena_new(conf->arena, struct hand_over);
    *hand_over = (struct hand_over){.generation = former->set->generation->number,
                                    .subsystem = set->subsystem,
                                    .file = file};
    arena_on_free(conf->arena, take_back, hand_over);
    if (!wait_for_file(group, servers_set_handed_over(group, true))) {
        log_warn(log_main, 0,
                 "the last change of upstream \"%.*s\" is not in its state file \"%s\"",
                 STR_ARG(group->name), file.data);
    }
}
