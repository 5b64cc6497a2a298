/* Directories: opened, and read name by name. */
#define _GNU_SOURCE
#include "http/files/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "http/files/path.h"

static enum flow fail_open(struct request *request, const char *path, int error)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG:
        if (request->location->log_not_found) {
            log_error(&request->log, error, "opendir() \"%s\" failed", path);
        }
        return request_fail(request, 404);
    case EACCES:
        log_error(&request->log, error, "opendir() \"%s\" failed", path);
        return request_fail(request, 403);
    default:
        log_crit(&request->log, error, "opendir() \"%s\" failed", path);
        return request_fail(request, 500);
    }
}

enum flow directory_open(struct directory *directory, struct request *request)
{
    size_t root_length;
    struct str path;

    *directory = (struct directory){.request = request};
    if (!request_map_path(request, &path, &root_length)) {
        return FLOW_FAIL;
    }
    /* Without the slash at its end, but for the root directory. */
    const char *name = arena_cstr(&request->arena, str_head(path, path.len > 1 ? path.len - 1 : 1));
    directory->stream = opendir(name);
    return directory->stream != NULL ? FLOW_NEXT : fail_open(request, name, errno);
}

/* Status of what a name leads to, or of the link itself when that leads nowhere. */
static bool look_at_entry(struct request *request, int fd, const char *name, struct stat *st)
{
    if (fstatat(fd, name, st, 0) == 0) {
        return true;
    }
    if (errno == EACCES) {
        return false;
    }
    if (errno != ENOENT && errno != ELOOP) {
        log_crit(&request->log, errno, "stat() \"%s\" failed", name);
        return false;
    }
    if (fstatat(fd, name, st, AT_SYMLINK_NOFOLLOW) == 0) {
        return true;
    }
    if (errno != ENOENT) { /* it may just have been removed */
        log_crit(&request->log, errno, "lstat() \"%s\" failed", name);
    }
    return false;
}

static bool is_shown(const struct directory *directory, const char *name)
{
    if (name[0] != '.') {
        return true;
    }
    return directory->shows_hidden && name[1] != '\0' && (name[1] != '.' || name[2] != '\0');
}

bool directory_next(struct directory *directory, struct directory_entry *out)
{
    const struct dirent *item;
    struct stat st;

    while ((item = readdir(directory->stream)) != NULL) {
        if (!is_shown(directory, item->d_name) ||
            (directory->hides_symlinks &&
             fstatat(dirfd(directory->stream), item->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
             S_ISLNK(st.st_mode)) ||
            !look_at_entry(directory->request, dirfd(directory->stream), item->d_name, &st)) {
            continue;
        }
        *out = (struct directory_entry){
            .name = str_of(item->d_name),
            .mtime = st.st_mtime,
            .size = (uint64_t) st.st_size,
            .is_directory = S_ISDIR(st.st_mode),
            .is_file = S_ISREG(st.st_mode),
        };
        return true;
    }
    return false;
}

void directory_close(struct directory *directory)
{
    closedir(directory->stream);
    directory->stream = NULL;
}

void directory_read(struct directory *directory, struct vec *entries)
{
    struct arena *arena = &directory->request->arena;
    struct directory_entry entry;

    while (directory_next(directory, &entry)) {
        arena_allow(arena,
                    DIRECTORY_ENTRY_ALLOWED); /* the directory is the operator's, however large */
        entry.name = arena_dup(arena, entry.name);
        *vec_add(entries, arena, struct directory_entry) = entry;
    }
    directory_close(directory);
}
