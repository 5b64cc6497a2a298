/* Small helpers about files. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fs.h"

enum { READ_STEP = 16384 };

/* Reads until end-of-file; false with errno. */
static bool read_to_end(int fd, size_t limit, struct buf *buf)
{
    for (;;) {
        char *at = buf_reserve(buf, READ_STEP);
        ssize_t n = read(fd, at, READ_STEP);
        if (n == 0) {
            return true;
        }
        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            return false;
        }
        buf->len += (size_t) n;
        if (buf->len > limit) {
            errno = EFBIG;
            return false;
        }
    }
}

bool fs_read_all(struct arena *arena, const char *path, size_t limit, struct str *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

    if (fd < 0) {
        return false;
    }
    struct buf buf = {0};
    bool is_good = read_to_end(fd, limit, &buf);
    int error = errno;
    close(fd);
    if (is_good) {
        *out = (struct str){arena_cstr(arena, buf_str(&buf)), buf.len};
    }
    buf_free(&buf);
    errno = error;
    return is_good;
}

struct str fs_full_name(struct arena *arena, struct str prefix, struct str name)
{
    bool is_absolute = name.len != 0 && name.data[0] == '/';
    struct str parts[3] = {is_absolute ? STR_NONE : prefix, name, STR("\0")};
    struct str whole = arena_join(arena, parts, 3);

    whole.len--;
    return whole;
}

/* Creates the last component of a path and opens it. Processes that are not root use the path as it
   is and open nothing. */
static bool make_directory(const char *path, mode_t mode, struct stat *info, int *fd)
{
    *fd = -1;
    if (geteuid() == 0) {
        *fd = fs_open_trusted(path, O_RDONLY | O_DIRECTORY | O_CREAT, mode);
        return *fd != -1 && fstat(*fd, info) == 0;
    }
    if ((mkdir(path, mode) != 0 && errno != EEXIST) || stat(path, info) != 0) {
        return false;
    }
    if (!S_ISDIR(info->st_mode)) {
        errno = ENOTDIR;
        return false;
    }
    return true;
}

/* Does the directory have entries other than "." and ".."? */
static bool holds_names(int fd)
{
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = copy == -1 ? NULL : fdopendir(copy);
    const struct dirent *item;
    bool is_empty = true;

    if (stream == NULL) {
        if (copy != -1) {
            close(copy);
        }
        return true;
    }
    while (is_empty && (item = readdir(stream)) != NULL) {
        is_empty = strcmp(item->d_name, ".") == 0 || strcmp(item->d_name, "..") == 0;
    }
    closedir(stream);
    return !is_empty;
}

/*
 * Gives an open directory to its new owner. If users other than root may rename in the parent
 * directory, one of them may have moved a directory of root, with its contents, to this name: a
 * directory of root that is not empty is refused there.
 */
static bool give_directory(int fd, const struct stat *info, uid_t uid)
{
    int above = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
    bool may_be_moved = above == -1 || fs_is_shared(above);

    if (above != -1) {
        close(above);
    }
    if (may_be_moved && info->st_uid == 0 && holds_names(fd)) {
        errno = EPERM;
        return false;
    }
    return fchown(fd, uid, (gid_t) -1) == 0;
}

bool fs_make_directory(const char *path, mode_t mode, uid_t uid)
{
    const mode_t needed = S_IRUSR | S_IWUSR | S_IXUSR; /* its owner must be able to use it */
    struct stat info;
    int fd;

    bool is_good = make_directory(path, mode, &info, &fd);
    if (is_good && uid != (uid_t) -1 && info.st_uid != uid) {
        is_good = fd != -1 ? give_directory(fd, &info, uid) : chown(path, uid, (gid_t) -1) == 0;
    }
    if (is_good && uid != (uid_t) -1 && (info.st_mode & needed) != needed) {
        is_good = fd != -1 ? fchmod(fd, info.st_mode | needed) == 0
                           : chmod(path, info.st_mode | needed) == 0;
    }
    int error = errno;
    if (fd != -1) {
        close(fd);
    }
    errno = error;
    return is_good;
}

bool fs_write_all(int fd, struct str data)
{
    while (data.len != 0) {
        ssize_t n = write(fd, data.data, data.len);
        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            return false;
        }
        data = str_skip(data, (size_t) n);
    }
    return true;
}

/* Creates the parent directories of a path. */
static bool make_parents(const char *path, mode_t mode)
{
    size_t len = strlen(path);
    char *copy = malloc(len + 1);
    bool is_good = true;

    if (copy == NULL) {
        return false;
    }
    memcpy(copy, path, len + 1);
    for (char *slash = strchr(copy + 1, '/'); is_good && slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        is_good = mkdir(copy, mode) == 0 || errno == EEXIST;
        *slash = '/';
    }
    free(copy);
    return is_good;
}

/* Copies the contents of one file to another. */
static bool copy_bytes(int from, int to)
{
    char bytes[3072]; /* a frame must not exceed 4096 bytes, whatever is inlined */

    for (;;) {
        ssize_t n = read(from, bytes, sizeof(bytes));
        if (n == 0) {
            return true;
        }
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 || !fs_write_all(to, (struct str){bytes, (size_t) n})) {
            return false;
        }
    }
}

/* Copies an open file to a name that mkostemp completes, then renames that. */
static bool copy_as(int source, char *name, const char *to)
{
    struct stat info;
    int target = mkostemp(name, O_CLOEXEC);

    if (target == -1) {
        return false;
    }
    bool is_good = fstat(source, &info) == 0 && copy_bytes(source, target) &&
                   fchmod(target, info.st_mode & 07777) == 0;
    if (is_good) {
        struct timespec times[2] = {info.st_atim, info.st_mtim};
        is_good = futimens(target, times) == 0 && rename(name, to) == 0;
    }
    int error = errno;
    close(target);
    if (!is_good) {
        unlink(name);
    }
    errno = error;
    return is_good;
}

/* Copies to another file system, with permissions and times: first to a name beside the target. */
static bool copy_over(const char *from, const char *to)
{
    char *name;
    bool is_good = false;
    int source = open(from, O_RDONLY | O_CLOEXEC);

    if (source == -1) {
        return false;
    }
    if (asprintf(&name, "%s.XXXXXX", to) != -1) {
        is_good = copy_as(source, name, to);
        free(name);
    }
    int error = errno;
    close(source);
    if (is_good) {
        unlink(from); /* a failure leaves only an old file behind */
    }
    errno = error;
    return is_good;
}

bool fs_move(const char *from, const char *to, mode_t mode)
{
    if (rename(from, to) == 0) {
        return true;
    }
    if (errno == ENOENT) {
        if (!make_parents(to, mode)) {
            return false;
        }
        if (rename(from, to) == 0) {
            return true;
        }
    }
    return errno == EXDEV && copy_over(from, to);
}

/* Makes the file's entry in its directory durable. */
static int sync_directory(struct str file)
{
    const char *slash = str_find_last_char(file, '/');
    struct buf name = {0};

    buf_append(&name, slash == NULL ? STR(".") : str_from(file.data, slash + 1));
    buf_append_char(&name, '\0');
    int fd = open(name.data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int error = fd == -1 || fsync(fd) != 0 ? errno : 0;
    if (fd != -1) {
        close(fd);
    }
    buf_free(&name);
    return error;
}

/* Writes a complete, durable file, or none. */
static int write_new(const char *name, struct str text)
{
    int error = 0;

    unlink(name);
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd == -1) {
        return errno;
    }
    if (!fs_write_all(fd, text) || fsync(fd) != 0) {
        error = errno;
    }
    if (close(fd) != 0 && error == 0) {
        error = errno;
    }
    if (error != 0) {
        unlink(name);
    }
    return error;
}

int fs_replace(const char *file, const char *temporary, struct str text)
{
    int error = write_new(temporary, text);

    if (error == 0 && rename(temporary, file) != 0) {
        error = errno;
        unlink(temporary);
    }
    return error == 0 ? sync_directory(str_of(file)) : error;
}
