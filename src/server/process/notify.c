/* Messages to systemd (sd_notify): readiness, reload, end. Does nothing without NOTIFY_SOCKET. */
#define _GNU_SOURCE
#include "server/process/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "server/process/server.h"

static void notify(const char *text)
{
    const char *path = server_environment("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t len = path == NULL ? 0 : strlen(path);

    if (len < 2 || len >= sizeof(to.sun_path) || (*path != '/' && *path != '@')) {
        return;
    }
    memcpy(to.sun_path, path, len);
    if (*path == '@') {
        to.sun_path[0] = '\0';
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t size = (socklen_t) (offsetof(struct sockaddr_un, sun_path) + len);

    if (fd < 0 || sendto(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT,
                         (struct sockaddr *) &to, size) < 0) {
        log_warn(log_main, errno, "sendto() \"%s\" failed", path);
    }
    if (fd >= 0) {
        close(fd);
    }
}

void notify_ready(void)
{
    char text[64];

    snprintf(text, sizeof(text), "READY=1\nMAINPID=%ld\n", (long) getpid());
    notify(text);
}

void notify_main(pid_t pid)
{
    char text[64];

    snprintf(text, sizeof(text), "MAINPID=%ld\n", (long) pid);
    notify(text);
}

void notify_reloading(void)
{
    struct timespec now;
    char text[96];

    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%llu\n",
             (unsigned long long) now.tv_sec * 1000000 + (unsigned long long) now.tv_nsec / 1000);
    notify(text);
}

void notify_stopping(void)
{
    notify("STOPPING=1\n");
}
