/* Opens files as root without following links of other users. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fs.h"

#define LINKS_MAX 40 /* the kernel's limit */

/* The state of a path walk: `at` is the directory reached so far. */
struct walk {
    int at;         /* the directory that has been reached */
    char *left;     /* owned: the remaining path */
    unsigned links; /* followed so far */
    int flags;      /* flags for opening the last component */
    mode_t mode;    /* mode for creating it */
    int opened;     /* the descriptor of the last component, after STEP_OPENED */
};

static void stop(struct walk *walk)
{
    int error = errno;

    if (walk->at != -1) {
        close(walk->at);
    }
    free(walk->left);
    errno = error;
}

/* Starts at the root or in the current directory; a relative path continues at `at`. */
static bool set_out(struct walk *walk)
{
    if (walk->left[0] == '/' || walk->at == -1) {
        int from = open(walk->left[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (walk->at != -1) {
            close(walk->at);
        }
        walk->at = from;
    }
    return walk->at != -1;
}

/* Takes the next component of the path, "." if there is none; *is_last when no other follows. */
static bool next_name(struct walk *walk, char name[NAME_MAX + 1], bool *is_last)
{
    const char *start = walk->left + strspn(walk->left, "/");
    size_t len = strcspn(start, "/");
    const char *rest = start + len + strspn(start + len, "/");

    if (len > NAME_MAX) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(name, len == 0 ? "." : start, len == 0 ? 1 : len);
    name[len == 0 ? 1 : len] = '\0';
    *is_last = *rest == '\0';
    memmove(walk->left, rest, strlen(rest) + 1);
    return true;
}

/* Links of /proc have no path as their target, and users cannot create any there. */
static bool is_of_proc(int link)
{
    struct statfs info;

    return fstatfs(link, &info) == 0 && info.f_type == PROC_SUPER_MAGIC;
}

bool fs_is_shared(int directory)
{
    struct stat info;

    if (fstat(directory, &info) != 0) {
        return true;
    }
    bool is_owned = info.st_uid == 0 || info.st_uid == geteuid();
    bool is_open =
        (info.st_mode & S_IWOTH) != 0 || ((info.st_mode & S_IWGRP) != 0 && info.st_gid != 0);
    return !is_owned || (is_open && (info.st_mode & S_ISVTX) == 0);
}

/*
 * May the link be followed? Its owner must be trusted. If a directory is wanted, which may be given
 * to another user, no other user may have been able to move the link to this name.
 */
static bool is_trusted(const struct walk *walk, uid_t owner)
{
    return (owner == 0 || owner == geteuid()) &&
           ((walk->flags & O_DIRECTORY) == 0 || !fs_is_shared(walk->at));
}

/* Puts the target of a link before the remaining path, if the link may be followed. */
static bool follow(struct walk *walk, int link, uid_t owner)
{
    char *text = malloc(PATH_MAX);
    char *whole = NULL;
    bool is_good = false;

    if (!is_trusted(walk, owner)) {
        errno = ELOOP;
    } else if (++walk->links > LINKS_MAX) {
        errno = ELOOP;
    } else if (text != NULL) {
        ssize_t n = readlinkat(link, "", text, PATH_MAX);
        is_good = n > 0 && asprintf(&whole, "%.*s/%s", (int) n, text, walk->left) != -1;
    }
    free(text);
    if (is_good) {
        free(walk->left);
        walk->left = whole;
        is_good = set_out(walk);
    }
    return is_good;
}

enum step { STEP_ON, STEP_OPENED, STEP_FAILED };

/* The component is a symbolic link; `link` is its descriptor. */
static enum step take_connection(struct walk *walk, const char *name, bool is_last, int link,
                                 uid_t owner)
{
    if (is_of_proc(link)) {
        int fd = openat(walk->at, name, is_last ? walk->flags & ~O_CREAT : O_PATH | O_CLOEXEC);
        if (fd != -1 && !is_last) {
            close(walk->at);
            walk->at = fd;
            return STEP_ON;
        }
        walk->opened = fd;
        return fd != -1 ? STEP_OPENED : STEP_FAILED;
    }
    return follow(walk, link, owner) ? STEP_ON : STEP_FAILED;
}

static int open_last(const struct walk *walk, const char *name)
{
    const int made = O_DIRECTORY | O_CREAT;
    int flags = walk->flags;

    if ((flags & made) == made) {
        flags &= ~O_CREAT;
        if (mkdirat(walk->at, name, walk->mode) != 0 && errno != EEXIST) {
            return -1;
        }
    }
    return openat(walk->at, name, flags | O_NOFOLLOW | O_CLOEXEC, walk->mode);
}

static enum step step_on(struct walk *walk)
{
    char name[NAME_MAX + 1];
    bool is_last;
    struct stat info;

    if (!next_name(walk, name, &is_last)) {
        return STEP_FAILED;
    }
    if (is_last) {
        walk->opened = open_last(walk, name);
        if (walk->opened != -1 || (errno != ELOOP && errno != ENOTDIR)) {
            return walk->opened != -1 ? STEP_OPENED : STEP_FAILED;
        }
    }
    int error = errno;
    int link = openat(walk->at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (link == -1 || fstat(link, &info) != 0) {
        if (link != -1) {
            close(link);
        }
        return STEP_FAILED;
    }
    if (S_ISLNK(info.st_mode)) {
        enum step step = take_connection(walk, name, is_last, link, info.st_uid);
        error = errno;
        close(link);
        errno = error;
        return step;
    }
    if (is_last) {
        close(link);
        errno = error;
        return STEP_FAILED;
    }
    close(walk->at);
    walk->at = link;
    return STEP_ON;
}

int fs_open_trusted(const char *path, int flags, mode_t mode)
{
    struct walk walk = {.at = -1, .flags = flags, .mode = mode};
    enum step step = STEP_FAILED;

    if (path[0] == '\0' || (geteuid() != 0 && (flags & O_DIRECTORY) == 0)) {
        return open(path, flags | O_CLOEXEC, mode);
    }
    walk.left = strdup(path);
    if (walk.left != NULL && set_out(&walk)) {
        do {
            step = step_on(&walk);
        } while (step == STEP_ON);
    }
    stop(&walk);
    return step == STEP_OPENED ? walk.opened : -1;
}
