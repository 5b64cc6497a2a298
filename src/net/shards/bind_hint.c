/* Explains why bind() failed, for users who start the server by hand. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hint.h"
#include "net/shards/listener.h"

#define INODES_MOST 64 /* most listening sockets of one port that are compared */

/* Inode numbers of the sockets that listen on a port. */
struct inodes {
    unsigned long items[INODES_MOST];
    unsigned count;
};

/* State 0A is a listening TCP socket, 07 an unconnected UDP socket. */
struct wanted {
    unsigned port, state;
};

/* Adds the matching sockets of a table of /proc/net: "sl local:port remote:port st ... uid timeout
 * inode". */
static void find_inodes(const char *table, struct wanted wanted, struct inodes *out)
{
    char line[512];
    FILE *file = fopen(table, "re");

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        unsigned local, state;
        unsigned long inode;
        if (sscanf(line, " %*u: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*u %*u %lu",
                   &local, &state, &inode) == 3 &&
            local == wanted.port && state == wanted.state && out->count < INODES_MOST) {
            out->items[out->count++] = inode;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
}

static bool is_among(const char *link, const struct inodes *inodes)
{
    char *end;

    if (strncmp(link, "socket:[", 8) != 0) {
        return false;
    }
    unsigned long inode = strtoul(link + 8, &end, 10);
    for (unsigned i = 0; i < inodes->count; i++) {
        if (inodes->items[i] == inode) {
            return true;
        }
    }
    return false;
}

/* Does the process have one of the sockets? */
static bool has_socket(const char *pid, const struct inodes *inodes)
{
    char path[300], link[64];
    bool is_found = false;

    snprintf(path, sizeof(path), "/proc/%s/fd", pid);
    DIR *directory = opendir(path);
    const struct dirent *entry;
    while (directory != NULL && !is_found && (entry = readdir(directory)) != NULL) {
        ssize_t len = readlinkat(dirfd(directory), entry->d_name, link, sizeof(link) - 1);
        if (len > 0) {
            link[len] = '\0';
            is_found = is_among(link, inodes);
        }
    }
    if (directory != NULL) {
        closedir(directory);
    }
    return is_found;
}

static void say_process(const char *pid, unsigned port)
{
    char path[300], name[64] = "";
    snprintf(path, sizeof(path), "/proc/%s/comm", pid);
    FILE *file = fopen(path, "re");

    if (file != NULL && fgets(name, sizeof(name), file) != NULL) {
        name[strcspn(name, "\n")] = '\0';
    }
    if (file != NULL) {
        fclose(file);
    }
    hint_say("port %u is in use by process %s (%s)", port, pid, name);
}

/* Reports the process with the lowest pid that has the socket: the master, for a server with
 * workers. */
static void say_who_has(unsigned port, bool is_datagram)
{
    struct inodes inodes = {.count = 0};
    long first = 0;
    bool is_ours = false;
    char text[24];

    const struct wanted wanted = {port, is_datagram ? 0x07 : 0x0a};
    find_inodes(is_datagram ? "/proc/net/udp" : "/proc/net/tcp", wanted, &inodes);
    find_inodes(is_datagram ? "/proc/net/udp6" : "/proc/net/tcp6", wanted, &inodes);
    DIR *directory = inodes.count == 0 ? NULL : opendir("/proc");
    const struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        long pid = isdigit((unsigned char) entry->d_name[0]) ? atol(entry->d_name) : 0;
        if (pid <= 0 || (first != 0 && pid > first) || !has_socket(entry->d_name, &inodes)) {
            continue;
        }
        if (pid == getpid()) {
            is_ours = true;
        } else {
            first = pid;
        }
    }
    if (directory != NULL) {
        closedir(directory);
    }
    if (first != 0) {
        snprintf(text, sizeof(text), "%ld", first);
        say_process(text, port);
    } else if (inodes.count != 0 && !is_ours) {
        hint_say("port %u is in use by a process of another user: \"ss -l%cnp\" as root names it",
                 port, is_datagram ? 'u' : 't');
    }
}

void bind_hint(const struct addr *addr, bool is_datagram, int error)
{
    unsigned port = addr_port(addr);
    int saved = errno;

    if (!hints_are_shown) {
        return;
    }
    if (error == EADDRINUSE && addr->any.sa_family == AF_UNIX) {
        hint_say("the socket file exists: remove it if no server uses it");
    } else if (error == EADDRINUSE) {
        say_who_has(port, is_datagram);
    } else if ((error == EACCES || error == EPERM) && port != 0 && port < 1024) {
        hint_say("a port below 1024 needs root, or the capability CAP_NET_BIND_SERVICE: \"setcap "
                 "cap_net_bind_service=+ep\" of the program, AmbientCapabilities= of its unit, or "
                 "the sysctl net.ipv4.ip_unprivileged_port_start");
    } else if (error == EADDRNOTAVAIL) {
        hint_say("this machine has no such address (\"ip address\" lists them)");
    }
    errno = saved;
}
