/* The memory of this process: /proc/self/statm. */
#include "base/own_memory.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

static uint64_t ask_kernel(void)
{
    unsigned long long resident;
    unsigned long long shared;
    char text[128];
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);

    if (fd == -1) {
        return 0;
    }
    ssize_t length = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (length <= 0) {
        return 0;
    }
    text[length] = '\0';
    if (sscanf(text, "%*u %llu %llu", &resident, &shared) != 2 || resident < shared) {
        return 0;
    }
    return (resident - shared) * (uint64_t) sysconf(_SC_PAGESIZE);
}

uint64_t own_memory(void)
{
    static uint64_t bytes;
    static uint64_t asked_ms; /* 0 = never */

    if (asked_ms == 0 || clock_now.now_ms - asked_ms >= 1000) {
        asked_ms = clock_now.now_ms;
        bytes = ask_kernel();
    }
    return bytes;
}
