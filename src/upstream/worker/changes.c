/* Groups that come, change and go while the service runs: each is a set of its own with one group.
 */
#include "upstream/changes.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "event/loop.h"
#include "upstream/private.h"

#define REAP_EVERY_MS 1000

struct changed_group {
    struct list in_leaving; /* when it was dropped */
    struct arena arena;     /* of all that was read */
    struct conf conf;       /* by which it was read */
    struct upstream_set set;
    struct upstream_group *group;
};

/* What changed_group_read does on the worker's own stack. */
struct reading {
    struct changed_group *changed;
    const struct conf_scope *outer;
    struct str text;
    bool is_good;
};

static struct list leaving = {&leaving, &leaving};
static struct timer reap_timer;

static void changed_free(struct changed_group *changed)
{
    arena_free(&changed->arena);
    free(changed);
}

/* ---- reading ---- */

static void set_make(struct changed_group *changed, const struct upstream_set *main)
{
    changed->set = (struct upstream_set){.subsystem = main->subsystem,
                                         .generation = main->generation,
                                         .arena = &changed->arena,
                                         .resolver = main->resolver,
                                         .resolver_timeout_ms = main->resolver_timeout_ms,
                                         .error_log = main->error_log,
                                         .no_server_status = main->no_server_status,
                                         .discard_most = main->discard_most};
}

static void changes_read_text(void *arg)
{
    struct reading *reading = arg;
    struct changed_group *changed = reading->changed;
    struct conf *conf = &changed->conf;
    struct conf_file *file = arena_new(conf->arena, struct conf_file);

    file->name = STR("the body of a request");
    file->text = reading->text;
    if (!conf_parse_text(conf, file)) {
        return;
    }
    struct conf_node *block = conf->root;
    struct str *words = arena_array(conf->arena, 2, sizeof(*words));
    words[0] = STR("upstream");
    words[1] = changed->group->name;
    block->args = words;
    block->count = 2;
    block->file = file;
    changed->group->node = block;
    upstream_set_add(conf, &changed->set, changed->group);
    struct conf_scope *outer = conf_scope_later(conf, reading->outer);
    reading->is_good = upstream_block_read(outer, block, changed->group) &&
                       conf->error_count == 0 && upstream_finish_set(conf, &changed->set) &&
                       conf->error_count == 0;
}

static void tell_why(const struct conf *conf, struct buf *why)
{
    const struct conf_message *first = NULL;

    for (const struct conf_message *message = conf->messages; message != NULL;
         message = message->next) {
        first = message->level <= LOG_EMERG ? message : first;
    }
    if (first != NULL) {
        buf_append(why, first->text);
    }
}

struct changed_group *changed_group_read(const struct conf_scope *outer,
                                         struct variable_set *variables, struct str name,
                                         struct str text, struct buf *why)
{
    struct changed_group *changed = calloc(1, sizeof(*changed));

    if (changed == NULL) {
        fatal_no_memory(sizeof(*changed));
    }
    arena_init(&changed->arena);
    conf_later(outer->conf, &changed->arena, variables, &changed->conf);
    set_make(changed, upstream_set_of(outer->conf, scope_subsystem(outer)));
    changed->group = arena_new(&changed->arena, struct upstream_group);
    changed->group->name = arena_dup(&changed->arena, name);
    changed->group->set = &changed->set;
    struct reading reading = {.changed = changed,
                              .outer = outer,
                              .text = arena_dup(&changed->arena, text)};
    fiber_call_on_main(changes_read_text, &reading);
    if (!reading.is_good) {
        tell_why(&changed->conf, why);
        changed_free(changed);
        return NULL;
    }
    return changed;
}

/* ---- life ---- */

bool changed_group_start(struct changed_group *changed)
{
    return set_start(&changed->set);
}

struct upstream_group *changed_group_of(struct changed_group *changed)
{
    return changed->group;
}

void changed_group_quit(struct changed_group *changed)
{
    if (changed->set.is_running) {
        set_quit(&changed->set);
    }
}

/* Those without users go; what was asked to end did so in turns of the loop since. */
static void reap(struct timer *timer)
{
    list_each(item, &leaving) {
        struct changed_group *changed = container_of(item, struct changed_group, in_leaving);

        if (changed->group->worker_state->users == 0) {
            list_remove(item);
            set_end(&changed->set);
            changed_free(changed);
        }
    }
    if (!list_is_empty(&leaving) && timer != NULL) {
        timer_set(timer, clock_now.now_ms + REAP_EVERY_MS);
    }
}

void changed_group_drop(struct changed_group *changed)
{
    if (!changed->set.is_running) {
        changed_free(changed);
        return;
    }
    set_quit(&changed->set);
    if (list_is_empty(&leaving)) {
        timer_init(&reap_timer, reap);
        timer_set(&reap_timer, clock_now.now_ms + REAP_EVERY_MS);
    }
    list_push_back(&leaving, &changed->in_leaving);
}

void changed_groups_end(void)
{
    if (!list_is_empty(&leaving)) {
        timer_remove(&reap_timer);
        reap(NULL);
    }
}
