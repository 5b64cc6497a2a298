/* The log files and directories of a generation. */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/hint.h"
#include "config.h"
#include "server/configuration/generation_life.h"
#include "server/process/server.h"

static void close_file(void *arg)
{
    struct log_file *file = arg;

    if (file->flush != NULL && file->fd >= 0) {
        file->flush(file);
    }
    if (file->fd > STDERR_FILENO) {
        close(file->fd);
    }
    file->fd = -1;
}

struct log_file *generation_log_file(struct generation *generation, struct str path)
{
    struct arena *arena = &generation->arena;
    struct str full = path.len == 0 ? path : fs_full_name(arena, generation->conf.prefix, path);
    struct log_file **link = &generation->log_files;

    for (; *link != NULL; link = &(*link)->next) {
        if (str_equal((*link)->path, full)) {
            return *link;
        }
    }
    struct log_file *file = arena_new(arena, struct log_file);

    file->path = full;
    file->fd = -1;
    *link = file;
    arena_on_free(arena, close_file, file);
    return file;
}

/* Sets the sinks of a log, and the level that results from them. */
static void set_sinks(struct log *log, struct log_sink *sinks)
{
    log->sinks = sinks;
    log->level = LOG_STDERR;
    for (const struct log_sink *sink = sinks; sink != NULL; sink = sink->next) {
        if (sink->level > log->level) {
            log->level = sink->level;
        }
    }
}

bool generation_open_logs(struct generation *generation)
{
    for (struct log_file *file = generation->log_files; file != NULL; file = file->next) {
        if (file->fd < 0 && !log_file_open(file, log_main)) {
            return false;
        }
    }
    set_sinks(&generation->log, generation->core->error_log);
    return true;
}

/* Workers reopen the file themselves, so their user must own it. */
static void give_to_worker(const struct log_file *file, uid_t uid)
{
    struct stat info, link;

    if (lstat(file->path.data, &link) != 0 || S_ISLNK(link.st_mode)) {
        return; /* users who can write to the directory can replace the file by a link: the target
                   of a link is never given away */
    }
    if (fstat(file->fd, &info) != 0) {
        log_emerg(log_main, errno, "stat() \"%s\" failed", file->path.data);
        return;
    }
    if (info.st_uid != uid && fchown(file->fd, uid, (gid_t) -1) != 0) {
        log_emerg(log_main, errno, "chown(\"%s\", %d) failed", file->path.data, (int) uid);
    }
    mode_t wanted = info.st_mode | S_IRUSR | S_IWUSR;
    if (wanted != info.st_mode && fchmod(file->fd, wanted & 07777) != 0) {
        log_emerg(log_main, errno, "chmod() \"%s\" failed", file->path.data);
    }
}

void generation_reopen_logs(struct generation *generation, uid_t uid)
{
    for (struct log_file *file = generation->log_files; file != NULL; file = file->next) {
        if (log_file_reopen(file, log_main) && uid != (uid_t) -1 && file->path.len != 0) {
            give_to_worker(file, uid);
        }
    }
    standard_error_follow(log_main);
}

struct wanted_path *generation_path(struct generation *generation, struct conf_node *node,
                                    struct str name, const unsigned levels[3])
{
    struct arena *arena = &generation->arena;
    struct str full = fs_full_name(arena, generation->conf.prefix, name);

    while (full.len > 1 && full.data[full.len - 1] == '/') {
        full.len--;
    }
    struct wanted_path **link = &generation->paths;

    for (; *link != NULL; link = &(*link)->next) {
        if (str_equal((*link)->name, full)) {
            return *link;
        }
    }
    struct wanted_path *path = arena_new(arena, struct wanted_path);

    path->name = (struct str){arena_cstr(arena, full), full.len};
    path->node = node;
    for (int i = 0; i < 3; i++) {
        path->levels[i] = levels == NULL ? 0 : levels[i];
    }
    *link = path;
    return path;
}

bool generation_make_paths(struct generation *generation)
{
    for (struct wanted_path *path = generation->paths; path != NULL; path = path->next) {
        if (!fs_make_directory(path->name.data, 0700, generation->core->user)) {
            log_emerg(log_main, errno, "mkdir() \"%s\" failed", path->name.data);
            hint_path(path->name.data, errno);
            return false;
        }
    }
    return true;
}
