/* Datagrams for listeners that take them without flows. */
#include <string.h>

#include "net/datagram/packet.h"
#include "net/datagram/private.h"

/* The address that was asked: of a wildcard it is in the key. */
static void find_local(const struct datagram_port *port, const struct datagram *datagram,
                       struct addr *local)
{
    *local = port->addr;
    if (port->is_wildcard && port->addr.any.sa_family == AF_INET) {
        memcpy(&local->v4.sin_addr, datagram->key.local, sizeof(local->v4.sin_addr));
    } else if (port->is_wildcard) {
        memcpy(&local->v6.sin6_addr, datagram->key.local, sizeof(local->v6.sin6_addr));
    }
}

void datagram_take(struct datagram_port *port, const struct datagram *datagram, bool was_passed)
{
    struct datagram_packet packet = {.peer = datagram->peer,
                                     .bytes = datagram->bytes,
                                     .ecn = datagram->ecn,
                                     .was_passed = was_passed,
                                     .datagram = datagram};

    find_local(port, datagram, &packet.local);
    port->listener->taker->packet(port, &packet);
}

struct listener *datagram_port_listener(const struct datagram_port *port)
{
    return port->listener;
}

int datagram_port_fd(const struct datagram_port *port)
{
    return port->send_fd;
}

bool datagram_port_is_wildcard(const struct datagram_port *port)
{
    return port->is_wildcard;
}

unsigned datagram_port_slot(const struct datagram_port *port)
{
    return port->slot;
}

void datagram_note(uint64_t hash)
{
    directory_take(hash, mailbox_own);
}

void datagram_unnote(uint64_t hash)
{
    directory_leave(hash, mailbox_own);
}

uint32_t datagram_worker_noted(uint64_t hash)
{
    return directory_find(hash);
}
