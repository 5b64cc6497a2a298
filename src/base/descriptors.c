/* How many descriptors this process has open, and may have. */
#include "base/descriptors.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/stat.h>

static struct {
    bool is_known;
    int list_fd; /* /proc/self/fd, whose size is the number of open descriptors; -1 = none */
    uint32_t limit;
    uint32_t others; /* open at the first call, without the connections at that time */
} descriptors;

static uint32_t read_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > INT32_MAX) {
        return INT32_MAX;
    }
    return (uint32_t) limit.rlim_cur;
}

/* Counts the entries of /proc/self/fd; 0 where it does not exist. */
static uint32_t count_open(void)
{
    DIR *folder = opendir("/proc/self/fd");
    uint32_t count = 0;

    if (folder == NULL) {
        return 0;
    }
    while (readdir(folder) != NULL) {
        count++;
    }
    closedir(folder);
    return count;
}

static void descriptors_begin(uint32_t connections)
{
    uint32_t count = count_open();

    descriptors.is_known = true;
    descriptors.limit = read_limit();
    descriptors.others = count > connections ? count - connections : 0;
    descriptors.list_fd = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static uint32_t count_of_kernel(void)
{
    struct stat status;

    return descriptors.list_fd < 0 || fstat(descriptors.list_fd, &status) != 0
               ? 0
               : (uint32_t) status.st_size;
}

uint32_t descriptors_limit(void)
{
    return descriptors.is_known ? descriptors.limit : read_limit();
}

uint32_t descriptors_left(uint32_t connections)
{
    if (!descriptors.is_known) {
        descriptors_begin(connections);
    }
    uint32_t open = count_of_kernel();

    if (open == 0) {
        open = descriptors.others + connections;
    }
    return open < descriptors.limit ? descriptors.limit - open : 0;
}
