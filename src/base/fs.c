/* Small helpers about files. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fs.h"

enum { READ_STEP = 16384 };

/* Reads until the end; false with errno. */
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

bool fs_make_directory(const char *path, mode_t mode, uid_t uid)
{
    struct stat info;

    if (mkdir(path, mode) != 0 && errno != EEXIST) {
        return false;
    }
    if (stat(path, &info) != 0) {
        return false;
    }
    if (!S_ISDIR(info.st_mode)) {
        errno = ENOTDIR;
        return false;
    }
    if (uid == (uid_t) -1) {
        return true;
    }
    if (info.st_uid != uid && chown(path, uid, (gid_t) -1) != 0) {
        return false;
    }
    /* Whoever owns it must be able to use it. */
    mode_t needed = S_IRUSR | S_IWUSR | S_IXUSR;
    return (info.st_mode & needed) == needed || chmod(path, info.st_mode | needed) == 0;
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
