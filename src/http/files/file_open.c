/* Opens files: status, descriptor, small contents; paths without symbolic links; direct I/O. */
#define _GNU_SOURCE
#include "http/files/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/fatal.h"
#include "http/files/file_private.h"
#include "http/routing/file_settings.h"
#include "http/routing/settings.h"

/* How much older than the reading the last change of a file must be, so that a later change cannot
 * have the same ctime. The clock of file systems advances with the kernel's timer: 100 Hz at the
 * slowest, so two ticks are 20 ms. A file system with times in whole seconds (both are multiples of
 * a second) gets more than two seconds, the coarsest resolution. */
#define SETTLED_NS (20 * 1000 * 1000LL)
#define SETTLED_COARSE_NS (3 * 1000 * 1000 * 1000LL)

struct file *file_new(struct str path)
{
    struct file *file = calloc(1, sizeof(*file) + path.len + 1);

    if (file == NULL) {
        fatal_no_memory(sizeof(*file) + path.len + 1);
    }
    memcpy(file + 1, path.data, path.len);
    file->path = (struct str){(const char *) (file + 1), path.len};
    file->references = 1;
    file->fd = -1;
    list_init(&file->lru_node);
    return file;
}

struct file *file_copy_status(const struct file *from)
{
    struct file *file = file_new(from->path);
    struct file copy = *from;

    copy.path = file->path;
    copy.references = 1;
    copy.fd = -1;
    copy.contents = STR_NONE;
    copy.etag = STR_NONE;
    copy.last_modified = STR_NONE;
    copy.owns_contents = false;
    copy.is_settled = false;
    copy.extension = STR_NONE;
    copy.next = NULL;
    copy.cache = NULL;
    *file = copy;
    list_init(&file->lru_node);
    return file;
}

/* Closes and frees the file. There must be no references. */
static void file_free(struct file *file)
{
    if (file->fd != -1) {
        close(file->fd);
    }
    if (file->owns_contents) {
        free((void *) file->contents.data);
    }
    free(file);
}

static void take_status(struct file *file, const struct stat *st)
{
    file->size = (uint64_t) st->st_size;
    file->mtime = st->st_mtim.tv_sec;
    file->mtime_ns = st->st_mtim;
    file->ctime_ns = st->st_ctim;
    file->inode = st->st_ino;
    file->device = st->st_dev;
    file->is_directory = S_ISDIR(st->st_mode);
    file->is_file = S_ISREG(st->st_mode);
    file->is_executable = (st->st_mode & S_IXUSR) != 0;
}

bool file_is_unchanged(const struct file *file)
{
    struct stat st;

    return stat(file->path.data, &st) == 0 && file->inode == st.st_ino &&
           file->device == st.st_dev && file->size == (uint64_t) st.st_size &&
           file->ctime_ns.tv_nsec == st.st_ctim.tv_nsec &&
           file->ctime_ns.tv_sec == st.st_ctim.tv_sec &&
           file->mtime_ns.tv_nsec == st.st_mtim.tv_nsec &&
           file->mtime_ns.tv_sec == st.st_mtim.tv_sec;
}

/* ---- paths without symbolic links ---- */

/* A walk along a path. */
struct walk {
    int at;             /* descriptor of the current directory, or AT_FDCWD */
    unsigned symlinks;  /* an enum disable_symlinks */
    const char *failed; /* the call that failed */
};

/* Is this a symbolic link whose owner is not the owner of its target? */
static bool is_foreign_link(struct walk *walk, const char *name, int fd)
{
    struct stat link;
    struct stat target;

    walk->failed = "fstatat";
    if (fstatat(walk->at, name, &link, AT_SYMLINK_NOFOLLOW) != 0) {
        return true;
    }
    walk->failed = "fstat";
    if (!S_ISLNK(link.st_mode)) {
        return false;
    }
    if (fstat(fd, &target) != 0) {
        return true;
    }
    walk->failed = "openat";
    errno = ELOOP;
    return link.st_uid != target.st_uid;
}

/* Opens one component; the directory before it is closed in any case. -1 with errno. */
static int walk_step(struct walk *walk, const char *name, int flags)
{
    bool forbids = walk->symlinks == SYMLINKS_FORBIDDEN;
    int fd = openat(walk->at, name, flags | O_CLOEXEC | (forbids ? O_NOFOLLOW : 0));

    walk->failed = "openat";
    if (fd != -1 && !forbids && is_foreign_link(walk, name, fd)) {
        int error = errno;
        close(fd);
        errno = error;
        fd = -1;
    }
    if (walk->at != AT_FDCWD) {
        int error = errno;
        close(walk->at);
        errno = error;
    }
    return fd;
}

/* Opens the part that is not checked: "from", or the root directory. */
static int open_start(const struct file_options *options, char *path)
{
    if (options->symlinks_from == 0) {
        return path[0] == '/' ? open("/", O_PATH | O_DIRECTORY | O_CLOEXEC) : AT_FDCWD;
    }
    char saved = path[options->symlinks_from];
    path[options->symlinks_from] = '\0';
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    path[options->symlinks_from] = saved;
    return fd;
}

/* disable_symlinks: opens a path component by component. path is a copy that may be changed. -1
 * with errno and *failed. */
static int open_checked(const struct file_options *options, char *path, int flags,
                        const char **failed)
{
    struct walk walk = {.symlinks = options->symlinks, .failed = "open"};
    char *name = path + options->symlinks_from;

    walk.at = open_start(options, path);
    *failed = walk.failed;
    if (walk.at == -1) {
        return -1;
    }
    for (;;) {
        while (*name == '/') {
            name++;
        }
        char *end = strchrnul(name, '/');
        if (*end == '\0') {
            break;
        }
        *end = '\0';
        walk.at = walk_step(&walk, name, O_PATH | O_DIRECTORY);
        *failed = walk.failed;
        if (walk.at == -1) {
            return -1;
        }
        name = end + 1;
    }
    int fd = walk_step(&walk, *name == '\0' ? "." : name, flags);
    *failed = walk.failed;
    return fd;
}

/* ---- contents ---- */

/* Is it a local file system, on which each change of contents changes ctime? Others (NFS, FUSE,
 * CIFS, 9p …) cache the status for a while. */
static bool is_local_type(unsigned long type)
{
    switch (type) {
    case 0xef53:     /* ext2, ext3, ext4 */
    case 0x58465342: /* xfs */
    case 0x9123683e: /* btrfs */
    case 0x01021994: /* tmpfs */
    case 0x858458f6: /* ramfs */
    case 0x794c7630: /* overlayfs */
    case 0xf2f52010: /* f2fs */
    case 0x2fc12fc1: /* zfs */
    case 0xca451a4e: /* bcachefs */
    case 0x3153464a: /* jfs */
    case 0x73717368: /* squashfs */
    case 0xe0f5e1e2: /* erofs */
    case 0x9660:     /* iso9660 */
        return true;
    default:
        return false;
    }
}

static bool is_local(int fd)
{
    struct statfs fs;

    return fstatfs(fd, &fs) == 0 && is_local_type((unsigned long) fs.f_type);
}

bool file_system_is_local(const char *path)
{
    struct statfs fs;

    return statfs(path, &fs) == 0 && is_local_type((unsigned long) fs.f_type);
}

static int64_t nanoseconds(struct timespec t)
{
    return (int64_t) t.tv_sec * 1000000000 + t.tv_nsec;
}

bool file_is_settled(const struct stat *st, struct timespec now)
{
    bool is_coarse = st->st_ctim.tv_nsec == 0 && st->st_mtim.tv_nsec == 0;

    return nanoseconds(now) - nanoseconds(st->st_ctim) >
           (is_coarse ? SETTLED_COARSE_NS : SETTLED_NS);
}

/* Reads the whole file, and closes it. If that fails the descriptor stays open. */
static void read_contents(struct file *file)
{
    size_t size = (size_t) file->size;

    if (size == 0) {
        file->contents = STR("");
    } else {
        char *data = malloc(size);
        if (data == NULL) {
            return;
        }
        ssize_t n;
        do {
            n = pread(file->fd, data, size, 0);
        } while (n == -1 && errno == EINTR);
        if (n != (ssize_t) size) {
            free(data);
            return;
        }
        file->contents = (struct str){data, size};
        file->owns_contents = true;
    }
    close(file->fd);
    file->fd = -1;
}

/* ---- all steps ---- */

static void set_up_descriptor(struct file *file, const struct file_options *options)
{
    if (file->size > options->read_ahead && options->read_ahead != 0) {
        /* Only a hint: errors do not matter. */
        posix_fadvise(file->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
        posix_fadvise(file->fd, 0, (off_t) options->read_ahead, POSIX_FADV_WILLNEED);
    }
    if ((int64_t) file->size >= options->directio) {
        /* Ignored on file systems without direct I/O. */
        file->is_directio = fcntl(file->fd, F_SETFL, O_NONBLOCK | O_DIRECT) == 0;
    }
}

static int open_path(struct file *file, const struct file_options *options, int flags)
{
    if (options->symlinks == SYMLINKS_ALLOWED) {
        file->failed = "open";
        return open(options->path.data, flags | O_CLOEXEC);
    }
    char *copy = malloc(options->path.len + 1);
    if (copy == NULL) {
        fatal_no_memory(options->path.len + 1);
    }
    memcpy(copy, options->path.data, options->path.len + 1);
    int fd = open_checked(options, copy, flags, &file->failed);
    int error = errno;
    free(copy);
    errno = error;
    return fd;
}

int directory_load(const struct file_options *options)
{
    struct file *file =
        file_new(options->path); /* open_path needs it for the name of the failed call */
    int fd = -1;

    if (memchr(options->path.data, '\0', options->path.len) != NULL) {
        errno = ENOENT;
    } else {
        fd = open_path(file, options, O_PATH | O_DIRECTORY);
    }
    int error = errno;
    file_free(file);
    errno = error;
    return fd;
}

static struct file *open_fail(struct file *file, int error)
{
    file->error = error;
    if (file->fd != -1) {
        close(file->fd);
        file->fd = -1;
    }
    return file;
}

struct file *file_load(const struct file_options *options)
{
    struct file *file = file_new(options->path);
    struct timespec now;
    struct stat st;

    file->symlinks = (uint8_t) options->symlinks;
    file->symlinks_from = options->symlinks_from;
    if (memchr(options->path.data, '\0', options->path.len) != NULL) {
        file->failed = "open";
        return open_fail(file, ENOENT); /* the system would use only the part before the NUL */
    }
    if (options->is_status_only && options->symlinks == SYMLINKS_ALLOWED) {
        file->failed = "stat";
        if (stat(options->path.data, &st) != 0) {
            return open_fail(file, errno);
        }
        take_status(file, &st);
        return file;
    }
    /* Before the status is read: a later change is visible in it, or is not older than `now`. */
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    file->fd = open_path(file, options, options->is_status_only ? O_PATH : O_RDONLY | O_NONBLOCK);
    if (file->fd == -1) {
        return open_fail(file, errno);
    }
    if (fstat(file->fd, &st) != 0) {
        file->failed = "fstat";
        return open_fail(file, errno);
    }
    if (S_ISLNK(st.st_mode)) {
        return open_fail(file, ELOOP); /* O_PATH with O_NOFOLLOW opens the link itself */
    }
    take_status(file, &st);
    if (options->is_status_only || !file->is_file) {
        close(file->fd);
        file->fd = -1;
        return file;
    }
    if (file->size <= options->contents_max && (int64_t) file->size < options->directio) {
        file->is_settled = file_is_settled(&st, now) && is_local(file->fd);
        read_contents(file);
    }
    if (file->fd != -1) {
        set_up_descriptor(file, options);
    }
    return file;
}

/* ---- references ---- */

void file_release(void *arg)
{
    struct file *file = arg;

    if (--file->references == 0) {
        file_free(file);
    }
}
