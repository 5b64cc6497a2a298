/* The state file of a group: its servers as lines of the configuration, written by a thread, whole
 * and to the disk. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/shm.h"
#include "event/loop.h"
#include "upstream/private.h"
#include "upstream/servers.h"

enum { SAVES_MOST = 4096 /* files that wait for the thread */ };

/* A request that waits for the file; on its fiber's stack. */
struct save_waiter {
    struct list node;
    struct wait_point wake;
    bool is_done;
    int error; /* errno, or 0 */
};

/* A file that a thread writes, or will. Of one group at a time. */
struct server_saving {
    struct list node; /* in `savings` */
    struct thread_job job;
    struct thread_pool *pool;
    struct upstream_group *group; /* NULL: its worker has ended */
    struct list waiters;          /* struct save_waiter */
    uint64_t version;             /* that the text is of */
    struct buf text;
    int error;
    _Atomic bool is_written;
};

static struct list savings = {&savings, &savings};

/* ---- the text ---- */

/* A word of the configuration's language, in quotes where it needs them. */
static void put_word(struct buf *out, const char *name, struct str value)
{
    if (value.len == 0) {
        return;
    }
    buf_printf(out, " \"%s", name);
    for (size_t i = 0; i < value.len; i++) {
        if (value.data[i] == '"' || value.data[i] == '\\') {
            buf_append_char(out, '\\');
        }
        buf_append_char(out, value.data[i]);
    }
    buf_append_char(out, '"');
}

static void put_time(struct buf *out, const char *name, uint64_t ms, uint64_t usual_ms)
{
    if (ms != usual_ms) {
        buf_printf(out, " %s=%llu%s", name, (unsigned long long) (ms % 1000 == 0 ? ms / 1000 : ms),
                   ms % 1000 == 0 ? "s" : "ms");
    }
}

static void put_number(struct buf *out, const char *name, uint32_t number, uint32_t usual)
{
    if (number != usual) {
        buf_printf(out, " %s=%u", name, number);
    }
}

static void put_entry(struct buf *out, const struct server_entry *entry)
{
    struct upstream_server usual;

    upstream_server_init(&usual, entry->address);
    buf_append(out, STR("server"));
    put_word(out, "", entry->address);
    put_word(out, "service=", entry->service);
    put_word(out, "route=", entry->route);
    put_word(out, "id=", entry->label);
    put_number(out, "weight", entry->weight, usual.weight);
    put_number(out, "max_conns", entry->max_conns, usual.max_conns);
    put_number(out, "max_fails", entry->max_fails, usual.max_fails);
    put_time(out, "fail_timeout", entry->fail_timeout_ms, usual.fail_timeout_ms);
    put_time(out, "slow_start", entry->slow_start_ms, usual.slow_start_ms);
    buf_append(out, entry->is_backup ? STR(" backup") : STR(""));
    buf_append(out, entry->is_down ? STR(" down") : STR(""));
    buf_append(out, entry->is_draining ? STR(" drain") : STR(""));
    buf_append(out, entry->wants_resolve ? STR(" resolve") : STR(""));
    buf_append(out, STR(";\n"));
}

/* The first line says how many follow, so that a file which was cut is noticed. */
static void put_text(struct buf *out, const struct servers_list *list)
{
    buf_printf(out, SERVERS_FILE_HEAD "%zu; written by the server at each change\n",
               list->entries.count);
    vec_each(const struct server_entry, entry, &list->entries) {
        put_entry(out, entry);
    }
}

/* ---- on the thread ---- */

/* All workers of a generation use one name, under the lock, so that what a killed one left is
 * replaced. */
static int write_file(const struct upstream_group *group, struct str text)
{
    struct str file = group->state_file;
    struct buf name = {0};

    buf_printf(&name, "%s.%d.%u.new", file.data, (int) getppid(), group->set->generation->number);
    buf_append_char(&name, '\0');
    int error = fs_replace(file.data, name.data, text);
    buf_free(&name);
    return error;
}

/* The lock is held while the disk is waited for: only threads take it. */
static void save_on_thread(struct thread_job *job)
{
    struct server_saving *saving = container_of(job, struct server_saving, job);
    _Atomic uint64_t *written = servers_file_version(saving->group);

    shm_lock_take(servers_file_lock(saving->group));
    if (*written < saving->version) { /* another worker may have written a later one */
        saving->error = write_file(saving->group, buf_str(&saving->text));
        if (saving->error == 0) {
            *written = saving->version;
        }
        *servers_tried_version(saving->group) = saving->version;
    }
    shm_lock_release(servers_file_lock(saving->group));
    saving->is_written = true;
}

/* ---- in the worker ---- */

static void wake_all(struct server_saving *saving)
{
    list_each(item, &saving->waiters) {
        struct save_waiter *waiter = container_of(item, struct save_waiter, node);

        list_remove(item);
        waiter->is_done = true;
        waiter->error = saving->error;
        wait_signal_later(&waiter->wake);
    }
}

static void saving_free(struct server_saving *saving)
{
    list_remove(&saving->node);
    buf_free(&saving->text);
    free(saving);
}

static void saving_end(struct server_saving *saving)
{
    if (saving->group == NULL) {
        saving_free(saving); /* its worker has ended */
        return;
    }
    if (saving->error != 0) {
        log_error(&saving->group->set->log, saving->error,
                  "cannot write \"%s\", the state of upstream \"%.*s\"",
                  saving->group->state_file.data, STR_ARG(saving->group->name));
    }
    saving->group->worker_state->saving = NULL;
    wake_all(saving);
    saving_free(saving);
}

static void save_done(struct thread_job *job)
{
    saving_end(container_of(job, struct server_saving, job));
}

/* NULL: no memory, or too many wait. */
static struct server_saving *save_start(struct upstream_group *group)
{
    struct thread_pool *pool = worker_own_thread_pool(STR("upstream state"), 1, SAVES_MOST);
    struct server_saving *saving = calloc(1, sizeof(*saving));
    struct servers_list list;
    struct arena arena;

    if (saving == NULL || pool == NULL) {
        free(saving);
        return NULL;
    }
    *saving = (struct server_saving){.job = {.work = save_on_thread, .done = save_done},
                                     .pool = pool,
                                     .group = group};
    list_init(&saving->waiters);
    arena_init(&arena);
    servers_read(group, &arena, &list);
    saving->version = list.version;
    put_text(&saving->text, &list);
    arena_free(&arena);
    if (!thread_pool_submit(pool, &saving->job)) {
        buf_free(&saving->text);
        free(saving);
        return NULL;
    }
    list_push_back(&savings, &saving->node);
    group->worker_state->saving = saving;
    return saving;
}

bool servers_save(struct upstream_group *group, const struct log *log)
{
    uint64_t wanted = group->record == NULL ? 0 : servers_version(group);

    while (group->state_file.len != 0 && *servers_file_version(group) < wanted) {
        struct server_saving *saving = group->worker_state->saving;
        struct save_waiter self = {.error = 0};

        if (saving == NULL && (saving = save_start(group)) == NULL) {
            log_error(log, 0, "no memory to write the state of upstream \"%.*s\"",
                      STR_ARG(group->name));
            return false;
        }
        list_push_back(&saving->waiters, &self.node);
        if (fiber_wait(&self.wake, FIBER_NEVER) == WAIT_CANCELLED) {
            if (!self.is_done) {
                list_remove(&self.node);
            }
            return false;
        }
        if (self.error != 0) {
            return false;
        }
    }
    return true;
}

void servers_files_end(const struct upstream_set *set)
{
    list_each(item, &savings) {
        struct server_saving *saving = container_of(item, struct server_saving, node);

        if (saving->group->set != set) {
            continue;
        }
        if (!thread_pool_withdraw(saving->pool, &saving->job)) {
            while (!saving->is_written) {
                nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
            }
            saving->group->worker_state->saving = NULL;
            saving->group = NULL;
        } else {
            save_on_thread(&saving->job);
            saving_end(saving);
        }
    }
}
