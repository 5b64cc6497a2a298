/* Shard sets: the sockets of each address, opened all or nothing, for the life of the service. */
#define _GNU_SOURCE
#include "net/shards/listener.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/fatal.h"
#include "net/conn/own.h"
#include "net/shards/handshakes.h"
#include "net/shards/private.h"

#define BIND_TRIES 5
#define BIND_WAIT_MS 500

static struct shard_set *sets;

struct shard_set *shard_sets(void)
{
    return sets;
}

struct shard_set *shard_set_numbered(uint32_t number)
{
    struct shard_set *set = sets;

    while (set != NULL && set->number != number) {
        set = set->next;
    }
    return set;
}

/* ---- a set ---- */

/* The number of a set. Equal in every binary that has the address, so that workers of two masters
 * mean the same socket. */
static uint32_t number_for(const struct addr *addr, bool is_datagram)
{
    uint32_t number = str_hash((struct str){(const char *) &addr->any, addr->len}) ^ is_datagram;

    while (number == 0 || shard_set_numbered(number) != NULL) {
        number++;
    }
    return number;
}

struct shard_set *shard_set_new(const struct addr *addr, bool is_datagram)
{
    struct shard_set *set = calloc(1, sizeof(*set));
    struct shard_set **end = &sets;

    if (set == NULL) {
        fatal_no_memory(sizeof(*set));
    }
    set->number = number_for(addr, is_datagram);
    set->addr = *addr;
    set->options.is_datagram = is_datagram;
    own_listens(addr, is_datagram);
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = set;
    return set;
}

void shard_set_unlink(struct shard_set *set)
{
    struct shard_set **link = &sets;

    while (*link != set) {
        link = &(*link)->next;
    }
    *link = set->next;
}

void shard_set_free(struct shard_set *set)
{
    free(set->fds);
    free(set);
}

void shard_set_push(struct shard_set *set, int fd)
{
    if (set->count == set->capacity) {
        unsigned capacity = (set->count + 1) * 2;
        int *fds = realloc(set->fds, capacity * sizeof(*fds));

        if (fds == NULL) {
            fatal_no_memory(capacity * sizeof(*fds));
        }
        set->fds = fds;
        set->capacity = capacity;
    }
    set->fds[set->count++] = fd;
}

int shard_fd(const struct shard_set *set, unsigned slot)
{
    if (!set->is_sharded) {
        return set->count == 0 ? -1 : set->fds[0];
    }
    return slot < set->count ? set->fds[slot] : -1;
}

void shard_close_top(struct shard_set *set)
{
    set->count--;
    /* A stuck worker may have a copy, which must not keep the socket in the group. */
    shutdown(set->fds[set->count], SHUT_RDWR);
    close(set->fds[set->count]);
}

void shard_top_retired(struct shard_set *set, unsigned slot, const struct log *log)
{
    shard_steer(set, set->wanted < set->count ? set->wanted : set->count, log);
}

static void unlink_unix(const struct shard_set *set)
{
    if (set->addr.any.sa_family == AF_UNIX && set->addr.un.sun_path[0] != '\0' &&
        unlink(set->addr.un.sun_path) == -1) {
        log_emerg(log_main, errno, "unlink() \"%s\" failed", set->addr.un.sun_path);
    }
}

/* is_end: the service ends, and workers may finish what they have begun on the sockets. */
static void set_close(struct shard_set *set, bool keep_file, bool is_end)
{
    while (set->count != 0) {
        set->count--;
        if (set->options.is_datagram && !keep_file && !is_end) {
            /* Workers that answer from it see the end and close their copies. */
            shutdown(set->fds[set->count], SHUT_RDWR);
        }
        close(set->fds[set->count]);
    }
    if (!keep_file && !set->is_lent) {
        unlink_unix(set);
    }
    shard_set_unlink(set);
    shard_set_free(set);
}

void shard_set_close(struct shard_set *set)
{
    set_close(set, false, false);
}

void shards_close_all(bool keep_files)
{
    shard_sets_leave_at_once();
    while (sets != NULL) {
        set_close(sets, keep_files, true);
    }
}

/* Does the worker of this slot need the socket? For datagrams it also needs the first slot's, from
 * which an older worker answers. */
static bool is_kept(const struct shard_set *set, unsigned i, unsigned slot, unsigned slots)
{
    if (set->options.is_datagram) {
        return i == 0 || i == slot;
    }
    return i == (set->is_sharded ? slot : 0) || shard_is_watched(i, slot, slots);
}

void shards_keep_slot(int slot, unsigned slots)
{
    shard_sets_leave_at_once();
    for (struct shard_set *set = sets; set != NULL; set = set->next) {
        for (unsigned i = 0; i < set->count; i++) {
            if (set->fds[i] != -1 && (slot < 0 || !is_kept(set, i, (unsigned) slot, slots))) {
                close(set->fds[i]);
                set->fds[i] = -1;
            }
        }
    }
}

/* ---- opening ---- */

/* What shards_open has done to a set so far, for undoing it. */
struct change {
    struct shard_set *set;
    unsigned former_count; /* number of its slots before */
    bool is_new;
};

struct shard_set *shard_set_find(const struct addr *addr, bool is_datagram)
{
    for (struct shard_set *set = sets; set != NULL; set = set->next) {
        if (set->options.is_datagram == is_datagram && addr_equal(&set->addr, addr)) {
            return set;
        }
    }
    return NULL;
}

static bool has_port(const struct addr *addr)
{
    return addr->any.sa_family == AF_INET || addr->any.sa_family == AF_INET6;
}

/* Does the kernel treat the addresses of two sets as conflicting? */
static bool overlaps(const struct shard_set *a, const struct shard_set *b)
{
    if (!has_port(&a->addr) || !has_port(&b->addr) || addr_port(&a->addr) != addr_port(&b->addr) ||
        a->options.is_datagram != b->options.is_datagram) {
        return false;
    }
    if (a->addr.any.sa_family == b->addr.any.sa_family) {
        return addr_is_wildcard(&a->addr) || addr_is_wildcard(&b->addr);
    }
    const struct shard_set *six = a->addr.any.sa_family == AF_INET6 ? a : b;
    return addr_is_wildcard(&six->addr) && !six->options.is_ipv6only;
}

/* Does one of our own sockets conflict with a bind of the set without sharing? */
static bool meets_own(const struct shard_set *set)
{
    for (const struct shard_set *other = sets; other != NULL; other = other->next) {
        if (other != set && other->count != 0 && overlaps(other, set)) {
            return true;
        }
    }
    return false;
}

/*
 * Opens the first socket of an address, on which no foreign server may listen, even if the kernel
 * would share it.
 */
static enum open_result open_first(struct shard_set *set, const struct listen_options *options,
                                   const struct log *log, int *fd)
{
    bool is_leaving = shard_address_is_leaving(&set->addr);
    bool is_alone = !has_port(&set->addr) || (!meets_own(set) && !is_leaving);

    if (!is_alone && !is_leaving && bound_elsewhere(&set->addr, options->is_datagram) == 1) {
        char text[ADDR_TEXT_MAX + 1];

        text[addr_format(&set->addr, true, text)] = '\0';
        log_emerg(log, EADDRINUSE, "bind() to %s failed", text);
        return OPEN_BUSY;
    }
    return listen_socket(&set->addr, options, is_alone, log, fd);
}

/* Opens sockets until the set has `want`. */
static enum open_result open_slots(struct shard_set *set, const struct listener *listener,
                                   unsigned want, const struct log *log)
{
    if (set->count != 0 && set->count < want) {
        for (unsigned i = 0; i < set->count && set->was_inherited; i++) {
            listen_share(set->fds[i]);
        }
        shard_hold_growth(set, log);
    }
    while (set->count < want) {
        int fd;
        enum open_result result =
            set->count == 0 ? open_first(set, &listener->options, log, &fd)
                            : listen_socket(&set->addr, &listener->options, false, log, &fd);

        if (result != OPEN_DONE) {
            return result;
        }
        shard_set_push(set, fd);
    }
    return OPEN_DONE;
}

static unsigned slots_wanted(const struct listener *listener, unsigned slots, bool is_sharded)
{
    bool has_group = has_port(&listener->addr) && (is_sharded || listener->options.is_reuseport ||
                                                   listener->options.is_datagram);

    return has_group ? slots : 1;
}

/* One pass over all listeners; sets that are complete are skipped. */
static enum open_result open_all(struct listener *listeners, struct change *changes, unsigned slots,
                                 bool is_sharded, const struct log *log)
{
    enum open_result worst = OPEN_DONE;
    struct change *change = changes;

    for (struct listener *listener = listeners; listener != NULL;
         listener = listener->next, change++) {
        if (change->set == NULL) {
            bool is_datagram = listener->options.is_datagram;
            struct shard_set *set = shard_set_find(&listener->addr, is_datagram);

            change->is_new = set == NULL;
            change->set = set != NULL ? set : shard_set_new(&listener->addr, is_datagram);
            change->former_count = change->set->count;
            if (change->is_new) {
                change->set->options = listener->options;
            }
        }
        enum open_result result =
            open_slots(change->set, listener, slots_wanted(listener, slots, is_sharded), log);
        if (result == OPEN_FAILED) {
            return result;
        }
        worst = result == OPEN_BUSY ? OPEN_BUSY : worst;
    }
    return worst;
}

static void take_back(struct change *changes, unsigned count, const struct log *log)
{
    for (unsigned i = 0; i < count; i++) {
        struct shard_set *set = changes[i].set;

        if (set == NULL) {
            continue;
        }
        bool had_grown = set->count != changes[i].former_count;
        while (set->count > changes[i].former_count) {
            if (changes[i].former_count == 0 && set->count == 1) {
                unlink_unix(set);
            }
            shard_close_top(set);
        }
        if (changes[i].is_new) {
            shard_set_unlink(set);
            shard_set_free(set);
        } else if (had_grown && set->count > 0) {
            shard_steer(set, set->count, log);
        }
    }
}

static void commit(struct listener *listeners, struct change *changes, unsigned slots,
                   bool is_sharded, const struct log *log)
{
    struct change *change = changes;

    for (struct shard_set *set = sets; set != NULL; set = set->next) {
        set->is_wanted = false;
    }
    for (struct listener *listener = listeners; listener != NULL;
         listener = listener->next, change++) {
        struct shard_set *set = change->set;

        set->is_wanted = true;
        set->wanted = slots_wanted(listener, slots, is_sharded);
        set->is_sharded = has_port(&set->addr) && (is_sharded || listener->options.is_reuseport ||
                                                   listener->options.is_datagram);
        set->was_inherited = false;
        for (unsigned i = 0; i < change->former_count; i++) {
            /* The options of an inherited socket are unknown: all are applied. */
            listen_options_apply(set->fds[i], &set->addr, &set->options, &listener->options, log);
        }
        set->options = listener->options;
        listener->shards = set;
    }
}

bool shards_open(struct listener *listeners, unsigned slots, bool is_sharded, bool is_first_start,
                 const struct log *log)
{
    unsigned count = 0;
    enum open_result result;

    for (const struct listener *listener = listeners; listener != NULL; listener = listener->next) {
        CHECK_MAGIC(listener, LISTENER_MAGIC);
        count++;
    }
    struct change *changes = calloc(count + 1, sizeof(*changes));
    if (changes == NULL) {
        fatal_no_memory((count + 1) * sizeof(*changes));
    }
    for (int tries = 1;; tries++) {
        result = open_all(listeners, changes, slots, is_sharded, log);
        if (result != OPEN_BUSY || !is_first_start) {
            break;
        }
        log_notice(log, 0, "try again to bind() after %dms", BIND_WAIT_MS);
        struct timespec pause = {.tv_nsec = BIND_WAIT_MS * 1000000L};
        nanosleep(&pause, NULL);
        if (tries == BIND_TRIES) {
            log_emerg(log, 0, "still could not bind()");
            for (const struct listener *one = listeners; one != NULL; one = one->next) {
                bind_hint(&one->addr, one->options.is_datagram, EADDRINUSE);
            }
            break;
        }
    }
    if (result == OPEN_DONE) {
        commit(listeners, changes, slots, is_sharded, log);
    } else {
        take_back(changes, count, log);
    }
    free(changes);
    return result == OPEN_DONE;
}

/* ---- information from the kernel ---- */

unsigned shard_backlog(int fd)
{
    struct tcp_info info;
    socklen_t len = sizeof(info);

    /* For a listening socket, tcpi_unacked is the length of the accept queue. */
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == -1 || info.tcpi_state != TCP_LISTEN) {
        return 0;
    }
    return info.tcpi_unacked;
}

int shard_handshakes(const struct addr *addr)
{
    return has_port(addr) ? handshakes_count(addr) : 0;
}
