/* The addresses of a worker: reading begins, goes over to a newer worker, and ends; retired slots
 * are emptied. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "net/datagram/packet.h"
#include "net/datagram/private.h"
#include "net/datagram/read.h"
#include "net/datagram/spare.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define LOOK_EVERY_MS 200 /* whether an address that is answered from is served still */
#define RETIRE_TICK_MS 50 /* between looks at a retired socket */

/* The socket of a retired slot, or of one whose worker is blocked. */
struct retired {
    struct retired *next;
    struct event_source source; /* owned descriptor */
    struct timer tick;
    struct datagram_port *port;
    unsigned slot;
    void (*done)(void *arg);
    void *arg;
};

struct datagram_port *datagram_ports;
static struct retired *retired_first;
static struct timer look; /* at the addresses, while this worker reads no more */

/* ---- reading ---- */

static void port_ready(struct event_source *source, unsigned events)
{
    struct datagram_port *port = container_of(source, struct datagram_port, source);
    const struct shard_set *set = port->listener->shards;

    if (set->is_sharded && shard_reader(port->slot) != mailbox_own) {
        /* A newer worker of this slot reads now. */
        event_remove(source);
        return;
    }
    datagram_read(port, source);
}

static struct datagram_port *port_find(uint32_t set)
{
    struct datagram_port *port = datagram_ports;

    while (port != NULL && port->set != set) {
        port = port->next;
    }
    return port;
}

static struct datagram_port *port_new(struct listener *listener, unsigned slot)
{
    struct datagram_port *port = calloc(1, sizeof(*port));
    const struct shard_set *set = listener->shards;

    if (port == NULL) {
        fatal_no_memory(sizeof(*port));
    }
    port->set = set->number;
    port->addr = set->addr;
    port->is_wildcard = set->addr.any.sa_family != AF_UNIX && addr_is_wildcard(&set->addr);
    port->slot = slot;
    port->first_fd = set->fds[0] == -1 ? -1 : fcntl(set->fds[0], F_DUPFD_CLOEXEC, 0);
    port->send_fd = shard_fd(set, slot);
    event_source_init(&port->source, port->send_fd, port_ready);
    port->next = datagram_ports;
    datagram_ports = port;
    return port;
}

/* The taker of its datagrams hears that it ends. */
static void taken_end(struct datagram_port *port)
{
    if (port->listener != NULL && port->listener->taker != NULL) {
        port->listener->taker->ended(port);
    }
}

static void port_free(struct datagram_port *port)
{
    struct datagram_port **link = &datagram_ports;

    while (*link != port) {
        link = &(*link)->next;
    }
    *link = port->next;
    datagram_flows_end(port, DATAGRAM_SHUTDOWN);
    taken_end(port);
    datagram_output_flush(port);
    event_remove(&port->source);
    if (port->first_fd != -1) {
        close(port->first_fd);
    }
    free(port);
}

/* Its retired sockets as well: these belong to a listener. */
static void retired_free(struct retired *retired)
{
    struct retired **link = &retired_first;

    while (*link != retired) {
        link = &(*link)->next;
    }
    *link = retired->next;
    event_remove(&retired->source);
    timer_remove(&retired->tick);
    close(retired->source.fd);
    free(retired);
}

static void retired_free_all(void)
{
    while (retired_first != NULL) {
        retired_free(retired_first);
    }
}

/* Those that no listener of the new configuration has. */
static void drop_ports(const struct listener *listeners)
{
    for (struct datagram_port *port = datagram_ports, *next; port != NULL; port = next) {
        const struct listener *listener = listeners;

        next = port->next;
        while (listener != NULL && listener->shards->number != port->set) {
            listener = listener->next;
        }
        if (listener == NULL) {
            port_free(port);
        }
    }
}

/* The datagrams of a socket that the kernel has dropped so far; 0 if it does not say. */
static uint32_t lost_of(int fd)
{
    uint32_t numbers[SK_MEMINFO_VARS];
    socklen_t size = sizeof(numbers);

    return getsockopt(fd, SOL_SOCKET, SO_MEMINFO, numbers, &size) == 0 &&
                   size > SK_MEMINFO_DROPS * sizeof(numbers[0])
               ? numbers[SK_MEMINFO_DROPS]
               : 0;
}

/* A taker of datagrams as they are sees their ECN, and finds out itself how large they may be: none
 * is cut on its way. */
static void prepare_taken(int fd, int family)
{
    int on = 1, probe = IP_PMTUDISC_PROBE;

    /* Several of one client may come as one message. Flows never do: an older program would take
     * them for one datagram. */
    setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_RXQ_OVFL, &on, sizeof(on));
    if (family == AF_INET6) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, &on, sizeof(on));
        setsockopt(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &probe, sizeof(probe));
    }
    setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &on, sizeof(on));
    setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof(probe));
}

static bool port_start(struct listener *listener, unsigned slot)
{
    struct datagram_port *port = port_find(listener->shards->number);
    int off = 0;

    if (shard_fd(listener->shards, slot) == -1) {
        return true;
    }
    if (port == NULL) {
        port = port_new(listener, slot);
    }
    port->listener = listener;
    if (listener->taker != NULL) {
        prepare_taken(port->source.fd, port->addr.any.sa_family);
        port->lost = lost_of(port->source.fd);
    } else if (port->addr.any.sa_family != AF_UNIX) {
        setsockopt(port->source.fd, IPPROTO_UDP, UDP_GRO, &off, sizeof(off));
        setsockopt(port->source.fd, SOL_SOCKET, SO_RXQ_OVFL, &off, sizeof(off));
    }
    if (!event_add_listener(&port->source, !listener->shards->is_sharded)) {
        log_alert(listener->log, errno, "epoll_ctl() failed for %.*s", STR_ARG(listener->text));
        return false;
    }
    return true;
}

static bool has_datagrams(const struct listener *listeners)
{
    while (listeners != NULL && !listeners->options.is_datagram) {
        listeners = listeners->next;
    }
    return listeners != NULL;
}

static void look_again(struct timer *timer);

bool datagrams_start(struct listener *listeners, uint32_t generation, unsigned slot)
{
    datagrams_have_stopped = false;
    if (datagram_ports == NULL && !has_datagrams(listeners)) {
        datagram_mailboxes_close_all(); /* of others, inherited */
        return true;
    }
    if (datagram_ports == NULL) {
        timer_init(&look, look_again);
        if (!datagram_read_begin() || !mailbox_start(generation, slot)) {
            log_alert(log_main, errno, "cannot begin to read datagrams");
            return false;
        }
        shard_reader_set(slot, mailbox_own);
    }
    retired_free_all();
    drop_ports(listeners);
    for (struct listener *listener = listeners; listener != NULL; listener = listener->next) {
        if (listener->options.is_datagram && listener->shards != NULL &&
            !port_start(listener, slot)) {
            return false;
        }
    }
    return true;
}

/* ---- stopping ---- */

static bool is_served(const struct datagram_port *port)
{
    struct pollfd look_at = {.fd = port->first_fd, .events = 0};

    return port->first_fd != -1 && poll(&look_at, 1, 0) >= 0 && (look_at.revents & POLLHUP) == 0;
}

/* The master ends the sockets of an address that is served no longer: a worker that has a copy
 * closes it. */
static void look_again(struct timer *timer)
{
    for (struct datagram_port *port = datagram_ports, *next; port != NULL; port = next) {
        next = port->next;
        if (!is_served(port)) {
            port_free(port);
        }
    }
    if (datagram_ports != NULL) {
        timer_set(timer, clock_now.now_ms + LOOK_EVERY_MS);
    }
}

/* Do newer workers pass on what belongs to the port's clients? */
static bool port_stays(const struct datagram_port *port, enum datagram_stop why)
{
    return why == DATAGRAMS_REPLACED ||
           (why == DATAGRAMS_UPGRADED && port->listener->taker != NULL);
}

void datagrams_stop(enum datagram_stop why)
{
    if (datagram_ports == NULL) {
        return;
    }
    datagrams_have_stopped = true;
    retired_free_all();
    for (struct datagram_port *port = datagram_ports, *next; port != NULL; port = next) {
        next = port->next;
        datagram_output_flush(port);
        event_remove(&port->source);
        port->source.fd = -1;
        port->send_fd = port->first_fd;
        if (!port_stays(port, why)) {
            port_free(port);
        }
    }
    if (datagram_ports != NULL) {
        timer_set(&look, clock_now.now_ms + LOOK_EVERY_MS);
    }
}

/* Reads a copy of its socket from now on, which the worker keeps when it lets the slot's go. False
 * with errno. */
static bool port_keep_socket(struct datagram_port *port)
{
    int copy = fcntl(port->source.fd, F_DUPFD_CLOEXEC, 0);

    if (copy == -1) {
        return false;
    }
    event_remove(&port->source);
    if (port->first_fd != -1) {
        close(port->first_fd);
    }
    port->source.fd = port->send_fd = port->first_fd = copy;
    return event_add_listener(&port->source, false);
}

void datagrams_quit(void)
{
    struct datagram_port *next;

    datagrams_have_stopped = true;
    retired_free_all();
    for (struct datagram_port *port = datagram_ports; port != NULL; port = next) {
        next = port->next;
        if (port->listener->taker == NULL || !port_keep_socket(port)) {
            port_free(port);
        }
    }
}

void datagrams_abort(void)
{
    datagram_flows_end(NULL, DATAGRAM_SHUTDOWN);
    for (struct datagram_port *port = datagram_ports; port != NULL; port = port->next) {
        taken_end(port);
    }
}

void datagrams_destroy(void)
{
    datagrams_stop(DATAGRAMS_ENDED);
    while (datagram_ports != NULL) {
        port_free(datagram_ports);
    }
    if (look.fire != NULL) {
        timer_remove(&look);
    }
    datagram_spares_close();
    datagram_output_end();
    mailbox_stop();
    datagram_read_end();
    datagram_flows_free();
}

/* ---- retired slots ---- */

static void retired_ready(struct event_source *source, unsigned events)
{
    struct retired *retired = container_of(source, struct retired, source);

    datagram_read(retired->port, source);
}

/* By now every processor steers by the new program: what is read last is the last. */
static void retired_tick(struct timer *timer)
{
    struct retired *retired = container_of(timer, struct retired, tick);
    void (*done)(void *) = retired->done;
    void *arg = retired->arg;

    if (datagram_read(retired->port, &retired->source) != 0) {
        timer_set(timer, clock_now.now_ms + RETIRE_TICK_MS);
        return;
    }
    retired_free(retired);
    done(arg);
}

static struct retired *retired_find(const struct listener *listener, unsigned slot)
{
    struct retired *retired = retired_first;

    while (retired != NULL && (retired->slot != slot || retired->port->listener != listener)) {
        retired = retired->next;
    }
    return retired;
}

bool datagram_adopt(struct listener *listener, unsigned slot, int fd, void (*done)(void *),
                    void *arg)
{
    if (retired_find(listener, slot) != NULL) {
        close(fd);
        return true;
    }
    struct datagram_port *port = port_find(listener->shards->number);
    struct retired *retired = port == NULL ? NULL : calloc(1, sizeof(*retired));

    if (retired == NULL) {
        close(fd);
        errno = port == NULL ? ENOENT : ENOMEM;
        return false;
    }
    retired->port = port;
    retired->slot = slot;
    retired->done = done;
    retired->arg = arg;
    event_source_init(&retired->source, fd, retired_ready);
    timer_init(&retired->tick, retired_tick);
    timer_set(&retired->tick, clock_now.now_ms + RETIRE_TICK_MS);
    retired->next = retired_first;
    retired_first = retired;
    if (!event_add_listener(&retired->source, false)) {
        int error = errno;

        retired_free(retired);
        errno = error;
        return false;
    }
    return true;
}

void datagram_return(struct listener *listener, unsigned slot)
{
    struct retired *retired = retired_find(listener, slot);

    if (retired != NULL) {
        retired_free(retired);
    }
}
