/* The pid file: one number and a newline. */
#include "server/process/pid_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/hint.h"
#include "base/log.h"
#include "base/parse.h"

static int open_to_write(struct str path, int flags)
{
    int fd = fs_open_trusted(path.data, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);

    if (fd < 0) {
        log_emerg(log_main, errno, "open() \"%s\" failed", path.data);
        hint_path(path.data, errno);
    }
    return fd;
}

bool pid_file_touch(struct str path)
{
    int fd = open_to_write(path, 0);

    if (fd >= 0) {
        close(fd);
    }
    return fd >= 0;
}

static bool write_number(int fd)
{
    char text[24];
    int len = snprintf(text, sizeof(text), "%ld\n", (long) getpid());

    return fs_write_all(fd, (struct str){text, (size_t) len});
}

/* May the path be replaced by rename(2)? Not where it is a device or a symbolic link. */
static bool is_replaceable(const char *path)
{
    struct stat info;

    return lstat(path, &info) != 0 ? errno == ENOENT : S_ISREG(info.st_mode);
}

/* Writes PATH.tmp and renames it, so that the file appears with its number in it. False: that is
 * not possible here. */
static bool replace(const char *path)
{
    char beside[1024];
    int length = snprintf(beside, sizeof(beside), "%s.tmp", path);

    if (length >= (int) sizeof(beside) || !is_replaceable(path)) {
        return false;
    }
    unlink(beside); /* left by a master that died while it wrote */
    int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) {
        return false;
    }
    bool is_done = write_number(fd);
    close(fd);
    is_done = is_done && rename(beside, path) == 0;
    if (!is_done) {
        unlink(beside);
    }
    return is_done;
}

/* The last path that pid_file_write wrote, empty if it did not fit. */
static char written_last[PATH_MAX];

bool pid_file_write(struct str path)
{
    snprintf(written_last, sizeof(written_last), "%s", path.len < PATH_MAX ? path.data : "");
    if (replace(path.data)) {
        return true;
    }
    int fd = open_to_write(path, O_TRUNC);
    if (fd < 0) {
        return false;
    }
    bool is_written = write_number(fd);

    if (!is_written) {
        log_emerg(log_main, errno, "write() \"%s\" failed", path.data);
    }
    close(fd);
    return is_written;
}

pid_t pid_file_read(struct str path)
{
    char text[32];
    int fd = open(path.data, O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        log_error(log_main, errno, "open() \"%s\" failed", path.data);
        return 0;
    }
    ssize_t n = read(fd, text, sizeof(text));
    int error = errno;

    close(fd);
    if (n < 0) {
        log_error(log_main, error, "read() \"%s\" failed", path.data);
        return 0;
    }
    struct str word = {text, (size_t) n};
    while (word.len != 0 && (word.data[word.len - 1] == '\n' || word.data[word.len - 1] == '\r')) {
        word.len--;
    }
    uint64_t pid;
    if (!parse_uint(word, &pid) || pid == 0 || pid > INT32_MAX) {
        log_error(log_main, 0, "invalid PID number \"%.*s\" in \"%s\"", STR_ARG(word), path.data);
        return 0;
    }
    return (pid_t) pid;
}

/* Is it the file that this process has written last, under another name (/var/run is a link to
 * /run)? */
static bool is_written_file(const char *path)
{
    struct stat written;
    struct stat other;

    return strcmp(path, written_last) != 0 && stat(written_last, &written) == 0 &&
           stat(path, &other) == 0 && written.st_dev == other.st_dev &&
           written.st_ino == other.st_ino;
}

void pid_file_remove(struct str path)
{
    if (is_written_file(path.data)) {
        return;
    }
    if (unlink(path.data) != 0) {
        log_alert(log_main, errno, "unlink() \"%s\" failed", path.data);
    }
}

struct str pid_file_old_name(struct arena *arena, struct str path)
{
    return arena_printf(arena, "%.*s.oldbin", STR_ARG(path));
}

bool pid_file_rename(struct str from, struct str to)
{
    if (rename(from.data, to.data) != 0) {
        log_alert(log_main, errno, "rename() \"%s\" to \"%s\" failed", from.data, to.data);
        return false;
    }
    return true;
}
