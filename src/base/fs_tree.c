/* Trees of files: remove, copy, move. All names are relative to open directories, so that a change
 * of a directory above cannot lead an operation elsewhere. */
#define _GNU_SOURCE
#include "base/fs_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/xattr.h>
#include <unistd.h>

/* Closes without changing errno. */
static void close_quietly(int fd)
{
    int error = errno;

    close(fd);
    errno = error;
}

/* Reads a directory; `visit` is called with the open directory for each entry but "." and "..". */
struct walk {
    bool (*visit)(const struct walk *walk, struct fs_location entry, unsigned depth);
    int to; /* the directory to copy to */
    const struct fs_tree_rules *rules;
};

static bool is_dots(const char *name)
{
    return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

static bool walk_entries(const struct walk *walk, DIR *directory, unsigned depth)
{
    const struct dirent *item;

    for (;;) {
        errno = 0;
        item = readdir(directory);
        if (item == NULL) {
            return errno == 0;
        }
        struct fs_location entry = {dirfd(directory), item->d_name};
        if (!is_dots(item->d_name) && !walk->visit(walk, entry, depth)) {
            return false;
        }
    }
}

static bool walk_directory(const struct walk *walk, struct fs_location at, unsigned depth)
{
    if (depth > FS_TREE_DEPTH_MAX) {
        errno = ENAMETOOLONG;
        return false;
    }
    int fd = openat(at.directory, at.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd == -1) {
        return false;
    }
    DIR *directory = fdopendir(fd);
    if (directory == NULL) {
        close_quietly(fd);
        return false;
    }
    bool is_good = walk_entries(walk, directory, depth);
    int error = errno;
    closedir(directory);
    errno = error;
    return is_good;
}

/* ---- removing ---- */

static bool remove_entry(const struct walk *walk, struct fs_location at, unsigned depth)
{
    if (unlinkat(at.directory, at.name, 0) == 0 || errno == ENOENT) {
        return true;
    }
    if (errno != EISDIR && errno != EPERM) {
        return false;
    }
    if (unlinkat(at.directory, at.name, AT_REMOVEDIR) == 0) {
        return true;
    }
    if (errno != ENOTEMPTY && errno != EEXIST) {
        return false;
    }
    return walk_directory(walk, at, depth + 1) &&
           (unlinkat(at.directory, at.name, AT_REMOVEDIR) == 0 || errno == ENOENT);
}

bool fs_remove_tree(struct fs_location at)
{
    const struct walk walk = {.visit = remove_entry};

    return remove_entry(&walk, at, 0);
}

/* ---- copying ---- */

#define COPY_STEP ((size_t) 1 << 24)

/* Shares blocks where the file system can. */
static bool copy_bytes(int from, int to)
{
    bool is_ranged = true;

    for (;;) {
        ssize_t n = is_ranged ? copy_file_range(from, NULL, to, NULL, COPY_STEP, 0)
                              : sendfile(to, from, NULL, COPY_STEP);
        if (n == 0 && !is_ranged) {
            return true;
        }
        if (n == 0 || (n < 0 && is_ranged && errno != EINTR)) {
            is_ranged = false; /* for the remainder, or if copy_file_range() fails */
        } else if (n < 0 && errno != EINTR) {
            return false;
        }
    }
}

/* Creates a temporary file beside the final name. */
static int open_beside(int directory, char *name, size_t size)
{
    unsigned number = 0;
    int fd;

    do {
        if (getrandom(&number, sizeof(number), 0) == -1) {
            number++;
        }
        snprintf(name, size, ".copy-%08x", number);
        fd = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    } while (fd == -1 && errno == EEXIST);
    return fd;
}

#define NAMES_MAX                                                                                  \
    65536 /* Linux's limits for the names of a file's attributes, and for one value, in bytes */

void fs_copy_attributes(int from, int to)
{
    ssize_t length = flistxattr(from, NULL, 0);
    char *names = length > 0 && length <= NAMES_MAX ? malloc(2 * (size_t) NAMES_MAX) : NULL;

    if (names == NULL) {
        return;
    }
    char *value = names + NAMES_MAX;
    length = flistxattr(from, names, NAMES_MAX);
    for (const char *name = names; length > 0 && name < names + length; name += strlen(name) + 1) {
        ssize_t size =
            strncmp(name, "user.", 5) == 0 ? fgetxattr(from, name, value, NAMES_MAX) : -1;
        if (size >= 0 && fsetxattr(to, name, value, (size_t) size, 0) != 0) {
            break;
        }
    }
    free(names);
}

static bool fill_copy(int source, int target)
{
    struct stat info;

    if (fstat(source, &info) != 0 || !copy_bytes(source, target) ||
        fchmod(target, info.st_mode & 0777) != 0) {
        return false;
    }
    fs_copy_attributes(source, target);
    struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, info.st_mtim};
    return futimens(target, times) == 0;
}

bool fs_copy_open(int source, struct fs_location to)
{
    char name[32];
    int target = open_beside(to.directory, name, sizeof(name));

    if (target == -1) {
        return false;
    }
    bool is_good =
        fill_copy(source, target) && renameat(to.directory, name, to.directory, to.name) == 0;
    close_quietly(target);
    if (!is_good) {
        int error = errno;
        unlinkat(to.directory, name, 0);
        errno = error;
    }
    return is_good;
}

static bool copy_file(struct fs_location from, struct fs_location to,
                      const struct fs_tree_rules *rules)
{
    int flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC | (rules->follows_links ? 0 : O_NOFOLLOW);
    int source = openat(from.directory, from.name, flags);
    struct stat info;

    if (source == -1) {
        return false;
    }
    bool is_good = fstat(source, &info) == 0;
    if (is_good && !S_ISREG(info.st_mode)) {
        errno = S_ISDIR(info.st_mode) ? EISDIR : EINVAL;
        is_good = false;
    }
    is_good = is_good && fs_copy_open(source, to);
    close_quietly(source);
    return is_good;
}

static bool copy_directory(const struct walk *walk, struct fs_location from, struct fs_location to,
                           unsigned depth);

static bool copy_entry(const struct walk *walk, struct fs_location from, unsigned depth)
{
    struct fs_location to = {walk->to, from.name};
    int flags = walk->rules->follows_links ? 0 : AT_SYMLINK_NOFOLLOW;
    struct stat info;

    if (fstatat(from.directory, from.name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
        return errno == ENOENT;
    }
    if (S_ISDIR(info.st_mode)) {
        return copy_directory(walk, from, to, depth + 1);
    }
    if (fstatat(from.directory, from.name, &info, flags) != 0) {
        return errno == ENOENT || errno == ELOOP;
    }
    return !S_ISREG(info.st_mode) || copy_file(from, to, walk->rules);
}

static bool copy_directory(const struct walk *walk, struct fs_location from, struct fs_location to,
                           unsigned depth)
{
    struct stat info;

    if (fstatat(from.directory, from.name, &info, AT_SYMLINK_NOFOLLOW) != 0 ||
        mkdirat(to.directory, to.name, (info.st_mode & 0777) | S_IRWXU) != 0) {
        return false;
    }
    int fd = openat(to.directory, to.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd == -1) {
        return false;
    }
    int source = openat(from.directory, from.name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (source != -1) {
        fs_copy_attributes(source, fd);
        close(source);
    }
    const struct walk inner = {.visit = copy_entry, .to = fd, .rules = walk->rules};
    bool is_good = walk->rules->is_shallow || walk_directory(&inner, from, depth);
    close_quietly(fd);
    return is_good;
}

bool fs_copy_tree(struct fs_location from, struct fs_location to, const struct fs_tree_rules *rules)
{
    const struct walk walk = {.visit = copy_entry, .rules = rules};
    struct stat info;

    if (fstatat(from.directory, from.name, &info, AT_SYMLINK_NOFOLLOW) != 0) {
        return false;
    }
    return S_ISDIR(info.st_mode) ? copy_directory(&walk, from, to, 1) : copy_file(from, to, rules);
}

bool fs_move_tree(struct fs_location from, struct fs_location to, const struct fs_tree_rules *rules)
{
    if (renameat(from.directory, from.name, to.directory, to.name) == 0) {
        return true;
    }
    return errno == EXDEV && fs_copy_tree(from, to, rules) && fs_remove_tree(from);
}

/* ---- location ---- */

static bool fs_tree_is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

bool fs_is_inside(int directory, const struct stat *of)
{
    struct stat here;
    struct stat above;
    int fd = openat(directory, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    bool is_inside = false;

    while (fd != -1 && fstat(fd, &here) == 0) {
        is_inside = fs_tree_is_same(&here, of);
        if (is_inside || fstatat(fd, "..", &above, 0) != 0 || fs_tree_is_same(&here, &above)) {
            break; /* at the root, which is its own parent */
        }
        int next = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        close(fd);
        fd = next;
    }
    if (fd != -1) {
        close(fd);
    }
    return is_inside;
}

/* Opens the directory `name`, which is created if necessary. Closes `at` unless it is `kept`. */
static int enter_directory(int at, int kept, const char *name, mode_t mode, int flags)
{
    int next = -1;

    if (mkdirat(at, name, mode) == 0 || errno == EEXIST) {
        next = openat(at, name, O_PATH | O_DIRECTORY | O_CLOEXEC | flags);
    }
    if (at != kept) {
        close_quietly(at);
    }
    return next;
}

bool fs_make_parents(int directory, const char *path, mode_t mode, bool follows_links)
{
    int flags = follows_links ? 0 : O_NOFOLLOW;
    int at = directory;
    const char *slash;

    for (; (slash = strchr(path, '/')) != NULL; path = slash + 1) {
        char name[NAME_MAX + 1];
        size_t len = (size_t) (slash - path);
        if (len == 0) {
            continue;
        }
        if (len > NAME_MAX) {
            errno = ENAMETOOLONG;
            len = 0;
        }
        memcpy(name, path, len);
        name[len] = '\0';
        at = len == 0 ? -1 : enter_directory(at, directory, name, mode, flags);
        if (at == -1) {
            return false;
        }
    }
    if (at != directory) {
        close(at);
    }
    return true;
}
