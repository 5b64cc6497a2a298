"""A wall clock that a test sets: a library that is loaded before the server's program adds so many seconds to what the system says. gcc has to be
there. The clock that deadlines are measured by is left alone."""

import os
import struct
import subprocess

from . import gates

SKEW = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static const volatile int64_t *skew;
static int (*next)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void)
{
    int fd = open(SECONDS, O_RDONLY | O_CLOEXEC);
    next = dlsym(RTLD_NEXT, "clock_gettime");
    skew = mmap(0, 8, PROT_READ, MAP_SHARED, fd, 0);
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    if (!next) begin();
    int result = next(clock, out);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) out->tv_sec += *skew;
    return result;
}

time_t time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return 0;
}
"""


class Skew:
    """The clock of one server."""

    def __init__(self, folder):
        self.name = os.path.join(folder, "skew")
        self.set(0)
        self.library = gates.library(folder, "skew", SKEW, '-DSECONDS="%s"' % self.name)
        self.environment = gates.preloaded(self.library)

    def set(self, seconds):
        """The server's clock shows so many more than ours from now on."""
        mode = "r+b" if os.path.exists(self.name) else "wb"
        with open(self.name, mode) as out:
            out.write(struct.pack("=q", seconds))
