/* CPU quotas of control groups, versions 1 and 2. */
#define _GNU_SOURCE
#include "server/process/cpu_quota.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_MOST 2048 /* bytes of /proc/self/cgroup */
#define PATH_BYTES 512
#define FILE_BYTES (PATH_BYTES + 32)

/* Reads a file into `text`. False = it does not exist or is empty. */
static bool cpu_quota_read_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

    if (fd >= 0) {
        close(fd);
    }
    text[n < 0 ? 0 : n] = '\0';
    return n > 0;
}

static unsigned whole_cpus(int64_t quota, int64_t period)
{
    if (quota <= 0 || period <= 0) {
        return UINT_MAX;
    }
    int64_t cpus = quota / period + (quota % period != 0);
    return cpus > UINT_MAX - 1 ? UINT_MAX : (unsigned) cpus;
}

/* "150000 100000" or "max 100000". */
static unsigned quota_2(const char *folder)
{
    char path[FILE_BYTES], text[64], *rest;

    snprintf(path, sizeof(path), "%s/cpu.max", folder);
    if (!cpu_quota_read_text(path, text, sizeof(text)) || text[0] == 'm') {
        return UINT_MAX;
    }
    int64_t quota = strtoll(text, &rest, 10);
    return whole_cpus(quota, strtoll(rest, NULL, 10));
}

static unsigned quota_1(const char *folder)
{
    char path[FILE_BYTES], quota[64], period[64];

    snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", folder);
    if (!cpu_quota_read_text(path, quota, sizeof(quota))) {
        return UINT_MAX;
    }
    snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", folder);
    return cpu_quota_read_text(path, period, sizeof(period))
               ? whole_cpus(strtoll(quota, NULL, 10), strtoll(period, NULL, 10))
               : UINT_MAX;
}

/* The lowest quota of a group and of its parents, up to the root of its tree. */
static unsigned least_quota(const char *tree, const char *group,
                            unsigned (*quota_of)(const char *folder))
{
    char folder[PATH_BYTES];
    size_t root_length = strlen(tree);
    unsigned least = UINT_MAX;
    int length = snprintf(folder, sizeof(folder), "%s%s", tree, group);

    if (length < 0 || (size_t) length >= sizeof(folder)) {
        return UINT_MAX;
    }
    for (;;) {
        unsigned quota = quota_of(folder);

        least = quota < least ? quota : least;
        char *last = strrchr(folder, '/');
        if (last == NULL || (size_t) (last - folder) < root_length) {
            return least;
        }
        *last = '\0';
    }
}

/* Does the list "cpu,cpuacct" name the controller? */
static bool names_cpu(const char *list, size_t length)
{
    for (size_t i = 0; i + 3 <= length; i++) {
        if (memcmp(list + i, "cpu", 3) == 0 && (i == 0 || list[i - 1] == ',') &&
            (i + 3 == length || list[i + 3] == ',')) {
            return true;
        }
    }
    return false;
}

/* A line "4:cpu,cpuacct:/group" of version 1, or "0::/group" of version 2. */
static __attribute__((noinline)) unsigned quota_of_line(char *line, const char *root)
{
    char tree[PATH_BYTES + 16];
    char *list = strchr(line, ':');
    char *group = list == NULL ? NULL : strchr(++list, ':');

    if (group == NULL) {
        return UINT_MAX;
    }
    size_t length = (size_t) (group - list);
    group++;
    if (length == 0) {
        snprintf(tree, sizeof(tree), "%s/unified", root);
        unsigned quota = least_quota(root, group, quota_2);
        unsigned beside = least_quota(tree, group, quota_2);
        return quota < beside ? quota : beside;
    }
    if (!names_cpu(list, length)) {
        return UINT_MAX;
    }
    snprintf(tree, sizeof(tree), "%s/%.*s", root, (int) length, list);
    if (access(tree, X_OK) != 0) {
        snprintf(tree, sizeof(tree), "%s/cpu", root);
    }
    return least_quota(tree, group, quota_1);
}

unsigned cpu_quota(const char *groups, const char *root)
{
    char text[TEXT_MOST], *rest = text;
    unsigned least = UINT_MAX;

    if (!cpu_quota_read_text(groups, text, sizeof(text))) {
        return UINT_MAX;
    }
    while (rest != NULL && *rest != '\0') {
        char *line = strsep(&rest, "\n");
        unsigned quota = quota_of_line(line, root);

        least = quota < least ? quota : least;
    }
    return least;
}
