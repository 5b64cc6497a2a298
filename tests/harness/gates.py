"""Storage that answers when a test lets it: open() and pread() of files below a folder `slow` wait while their gate is closed. A library that is
loaded before the server's program does it, so gcc has to be there."""

import os
import subprocess

GATE = r"""
/* Whatever opens or reads a file of the folder "slow" waits while there is a file "open" or "read" in the folder of gates. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void wait_at(const char *gate)
{
    char name[512];
    snprintf(name, sizeof(name), "%s/%s", GATES, gate);
    while (access(name, F_OK) == 0) {
        usleep(2000);
    }
}

static int is_slow(int fd)
{
    char link[64], path[512];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof(path) - 1);
    path[n < 0 ? 0 : n] = 0;
    return strstr(path, "/slow/") != 0;
}

int open(const char *path, int flags, ...)
{
    static int (*next)(const char *, int, ...);
    va_list args;
    va_start(args, flags);
    int mode = va_arg(args, int);
    va_end(args);
    if (!next) next = dlsym(RTLD_NEXT, "open");
    if (strstr(path, "/slow/")) wait_at("open");
    return next(path, flags, mode);
}

ssize_t pread(int fd, void *to, size_t size, off_t at)
{
    static ssize_t (*next)(int, void *, size_t, off_t);
    if (!next) next = dlsym(RTLD_NEXT, "pread");
    if (is_slow(fd)) wait_at("read");
    return next(fd, to, size, at);
}
int open64(const char *path, int flags, ...) __attribute__((alias("open")));
ssize_t pread64(int fd, void *to, size_t size, off_t at) __attribute__((alias("pread")));
"""


def library(folder, name, text, *words):
    """A shared object of this source in the folder."""
    source, made = (os.path.join(folder, name + suffix) for suffix in (".c", ".so"))
    with open(source, "w", encoding="ascii") as out:
        out.write(text)
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", made, *words, source, "-ldl"], check=True)
    return made


def preloaded(name):
    """An environment with the library; a sanitizer is told that it does not come first."""
    options = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0"]))
    return {**os.environ, "LD_PRELOAD": name, "ASAN_OPTIONS": options}


class Gates:
    """Holds up the slow storage of one server."""

    def __init__(self, folder):
        self.folder = folder
        self.library = library(folder, "gate", GATE, '-DGATES="%s"' % folder)

    def environment(self):
        return preloaded(self.library)

    def close(self, gate):
        open(os.path.join(self.folder, gate), "w", encoding="ascii").close()

    def open(self, gate):
        os.remove(os.path.join(self.folder, gate))
