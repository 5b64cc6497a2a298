/* The listening, waiting and telling of the benchmark's backends. */
#define _GNU_SOURCE
#include "service.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { EVENTS = 256 /* taken by one epoll_wait */ };

int service_epoll;

static int listen_at(const char *address)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    int fd, on = 1, result;

    if (strncmp(address, "unix:", 5) == 0) {
        fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        snprintf(un.sun_path, sizeof(un.sun_path), "%s", address + 5);
        unlink(un.sun_path);
        result = bind(fd, (struct sockaddr *) &un, sizeof(un));
    } else {
        const char *colon = strrchr(address, ':');
        fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        v4.sin_port = htons((uint16_t) atoi(colon == NULL ? address : colon + 1));
        result = bind(fd, (struct sockaddr *) &v4, sizeof(v4));
    }
    if (result == -1 || listen(fd, 4096) == -1) {
        perror(address);
        exit(1);
    }
    return fd;
}

/* SIGTERM and SIGUSR1 as input. */
static int open_signals(void)
{
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGUSR1);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    return signalfd(-1, &signals, SFD_CLOEXEC);
}

static void watch(int *fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = fd};

    epoll_ctl(service_epoll, EPOLL_CTL_ADD, *fd, &event);
}

static void accept_all(const struct service *service, int listener)
{
    int fd;

    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) != -1)
        service->accepted(fd);
}

void service_run(const struct service *service, const char *address)
{
    struct epoll_event events[EVENTS];
    struct signalfd_siginfo info = {.ssi_signo = 0};
    int listener = listen_at(address), signals = open_signals();

    service_epoll = epoll_create1(EPOLL_CLOEXEC);
    watch(&listener);
    watch(&signals);
    puts("ready");
    fflush(stdout);
    while (info.ssi_signo != SIGTERM) {
        int n =
            epoll_wait(service_epoll, events, EVENTS, service->due == NULL ? -1 : service->due());

        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr == &listener) {
                accept_all(service, listener);
            } else if (events[i].data.ptr != &signals) {
                service->ready(events[i].data.ptr, events[i].events);
            } else if (read(signals, &info, sizeof(info)) == sizeof(info)) {
                service->tell();
                fflush(stdout);
            }
        }
    }
}
