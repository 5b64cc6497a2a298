/*
 * Mailboxes: how a worker gets datagrams of its flows that another one has read, since sockets
 * outlive workers and groups grow and shrink. A pair of unix sockets for each slot of a generation,
 * made in the master before its workers start, so that each of them has the way to all that came
 * before; a message holds what gathered in one turn of the loop.
 *
 * During an upgrade the workers of two binaries pass datagrams to each other (binaries.h). The
 * numbers of their mailboxes differ in one bit.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "net/datagram/binaries.h"
#include "net/datagram/packet.h"
#include "net/datagram/private.h"

#define MAILBOXES_MOST 16384u
#define MESSAGE_MOST ((size_t) 96 * 1024)
#define MESSAGES_A_TURN 16
#define RETRY_MS 1
#define LOG_EVERY_MS 1000

/* One datagram in a message; its bytes follow, and what makes the next one aligned. */
struct passed {
    uint32_t size; /* of the bytes */
    uint32_t ecn;
    struct datagram_key key;
    struct addr peer;
};

struct mailbox {
    bool is_used;
    uint32_t generation;
    unsigned slot;
    int read_fd;         /* in its worker and in the master; else -1 */
    int write_fd;        /* -1: its worker is gone */
    unsigned char *room; /* of what waits to be sent; NULL = none yet; owned */
    size_t waiting;      /* bytes in it */
};

/* A number: the place in the table + 1, and in one bit the binary. */
#define BINARY_BIT 0x8000u

static struct mailbox *mailboxes; /* of this binary */
static unsigned mailbox_count;
static uint32_t own_bit;       /* BINARY_BIT or 0 */
static struct mailbox *others; /* of the other binary: write_fd only */
static unsigned other_count;
static struct event_source incoming = {.fd = -1};
static unsigned char *received; /* a message; owned */
static struct timer retry;      /* what a mailbox had no room for */
uint32_t mailbox_own;

/* ---- in the master ---- */

static struct mailbox *mailbox_find(uint32_t generation, unsigned slot)
{
    for (unsigned i = 0; i < mailbox_count; i++) {
        if (mailboxes[i].is_used && mailboxes[i].generation == generation &&
            mailboxes[i].slot == slot) {
            return &mailboxes[i];
        }
    }
    return NULL;
}

static struct mailbox *table_grown(struct mailbox *table, unsigned *count, unsigned wanted)
{
    struct mailbox *more = realloc(table, wanted * sizeof(*more));

    if (more == NULL) {
        fatal_no_memory(wanted * sizeof(*more));
    }
    for (; *count < wanted; ++*count) {
        more[*count] = (struct mailbox){.is_used = false, .read_fd = -1, .write_fd = -1};
    }
    return more;
}

static struct mailbox *mailbox_place(void)
{
    for (unsigned i = 0; i < mailbox_count; i++) {
        if (!mailboxes[i].is_used) {
            return &mailboxes[i];
        }
    }
    if (mailbox_count == MAILBOXES_MOST) {
        errno = ENFILE;
        return NULL;
    }
    mailboxes = table_grown(mailboxes, &mailbox_count, mailbox_count + 1);
    return &mailboxes[mailbox_count - 1];
}

static bool mailbox_open(uint32_t generation, unsigned slot)
{
    struct mailbox *mailbox = mailbox_place();
    int ends[2], size = (int) (8 * MESSAGE_MOST);

    if (mailbox == NULL ||
        socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == -1) {
        return false;
    }
    /* As much as the system allows. */
    setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    *mailbox = (struct mailbox){.is_used = true,
                                .generation = generation,
                                .slot = slot,
                                .read_fd = ends[0],
                                .write_fd = ends[1]};
    return true;
}

static void mailbox_free(struct mailbox *mailbox)
{
    if (mailbox->read_fd != -1) {
        close(mailbox->read_fd);
    }
    if (mailbox->write_fd != -1) {
        close(mailbox->write_fd);
    }
    free(mailbox->room);
    *mailbox = (struct mailbox){.is_used = false, .read_fd = -1, .write_fd = -1};
}

void datagram_mailboxes_open(const struct listener *listeners, uint32_t generation, unsigned slots)
{
    while (listeners != NULL && !listeners->options.is_datagram) {
        listeners = listeners->next;
    }
    if (listeners == NULL) {
        return;
    }
    if (!directory_make()) {
        log_alert(listeners->log, errno, "no memory for the table of udp clients");
        return;
    }
    for (unsigned slot = 0; slot < slots; slot++) {
        if (mailbox_find(generation, slot) == NULL && !mailbox_open(generation, slot)) {
            log_alert(listeners->log, errno, "socketpair() failed for datagrams of slot %u", slot);
            return;
        }
    }
}

void datagram_mailbox_close(uint32_t generation, unsigned slot)
{
    struct mailbox *mailbox = mailbox_find(generation, slot);

    if (mailbox != NULL) {
        mailbox_free(mailbox);
    }
}

static void table_free(struct mailbox **table, unsigned *count)
{
    for (unsigned i = 0; i < *count; i++) {
        if ((*table)[i].is_used) {
            mailbox_free(&(*table)[i]);
        }
    }
    free(*table);
    *table = NULL;
    *count = 0;
}

void datagram_mailboxes_close_all(void)
{
    table_free(&mailboxes, &mailbox_count);
    datagram_binary_gone();
}

/* ---- the other binary of an upgrade ---- */

void datagram_mailboxes_each(void (*visit)(uint32_t number, int fd, void *arg), void *arg)
{
    for (unsigned i = 0; i < mailbox_count; i++) {
        if (mailboxes[i].is_used && mailboxes[i].write_fd != -1) {
            visit((i + 1) | own_bit, mailboxes[i].write_fd, arg);
        }
    }
}

bool datagram_mailbox_of_other(uint32_t number, int fd)
{
    uint32_t place = (number & ~BINARY_BIT) - 1;

    if (place >= MAILBOXES_MOST || number > UINT16_MAX) {
        return false;
    }
    if (mailbox_count == 0) { /* it came first */
        own_bit = ~number & BINARY_BIT;
    }
    if ((number & BINARY_BIT) == own_bit) {
        return false;
    }
    if (place >= other_count) {
        others = table_grown(others, &other_count, place + 1);
    }
    if (others[place].is_used) {
        mailbox_free(&others[place]);
    }
    others[place] = (struct mailbox){.is_used = true, .read_fd = -1, .write_fd = fd};
    return true;
}

void datagram_binary_gone(void)
{
    table_free(&others, &other_count);
}

/* ---- receiving ---- */

/* What a sibling wrote; whatever does not fit together is left out. */
static void take_message(const unsigned char *at, const unsigned char *end)
{
    struct passed passed;

    while ((size_t) (end - at) >= sizeof(passed)) {
        memcpy(&passed, at, sizeof(passed));
        at += sizeof(passed);
        if (passed.size > (size_t) (end - at)) {
            return;
        }
        struct datagram datagram = {.key = passed.key,
                                    .peer = passed.peer,
                                    .bytes = {(const char *) at, passed.size},
                                    .ecn = passed.ecn};
        struct datagram_port *port = datagram_ports;

        while (port != NULL && port->set != passed.key.set) {
            port = port->next;
        }
        datagram_counts.taken++;
        if (port != NULL) {
            datagram_deliver(port, &datagram, true);
        }
        at += passed.size;
    }
}

static void mail_comes(struct event_source *source, unsigned events)
{
    for (int i = 0; i < MESSAGES_A_TURN && source->fd != -1; i++) {
        ssize_t n = recv(source->fd, received, MESSAGE_MOST, 0);

        if (n <= 0) {
            return;
        }
        take_message(received, received + n);
    }
}

static void retry_due(struct timer *timer)
{
    mailboxes_flush();
}

bool mailbox_start(uint32_t generation, unsigned slot)
{
    struct mailbox *own = mailbox_find(generation, slot);

    mailbox_own = 0;
    timer_init(&retry, retry_due);
    for (unsigned i = 0; i < mailbox_count; i++) {
        if (&mailboxes[i] != own && mailboxes[i].is_used && mailboxes[i].read_fd != -1) {
            close(mailboxes[i].read_fd);
            mailboxes[i].read_fd = -1;
        }
    }
    if (own == NULL) {
        return true;
    }
    received = received != NULL ? received : malloc(MESSAGE_MOST);
    if (received == NULL) {
        fatal_no_memory(MESSAGE_MOST);
    }
    mailbox_own = ((uint32_t) (own - mailboxes) + 1) | own_bit;
    event_source_init(&incoming, own->read_fd, mail_comes);
    return event_add_listener(&incoming, false);
}

void mailbox_stop(void)
{
    if (incoming.fd != -1) {
        event_remove(&incoming);
        incoming.fd = -1;
    }
    if (retry.fire != NULL) { /* it was started */
        timer_remove(&retry);
    }
    datagram_mailboxes_close_all();
    free(received);
    received = NULL;
    mailbox_own = 0;
}

/* ---- sending ---- */

/* False: some has to wait. */
static bool mailbox_flush(struct mailbox *mailbox)
{
    if (mailbox->waiting == 0) {
        return true;
    }
    ssize_t n = send(mailbox->write_fd, mailbox->room, mailbox->waiting, MSG_NOSIGNAL);
    if (n == -1 && (errno == EAGAIN || errno == ENOBUFS)) {
        return false;
    }
    mailbox->waiting = 0;
    if (n == -1) {
        /* Its worker is gone: the clients' next datagrams begin new flows. */
        close(mailbox->write_fd);
        mailbox->write_fd = -1;
    }
    return true;
}

/* False: some has to wait. */
static bool table_flush(struct mailbox *table, unsigned count)
{
    bool is_empty = true;

    for (unsigned i = 0; i < count; i++) {
        is_empty = mailbox_flush(&table[i]) && is_empty;
    }
    return is_empty;
}

void mailboxes_flush(void)
{
    bool is_empty = table_flush(mailboxes, mailbox_count);

    if (!table_flush(others, other_count) || !is_empty) {
        timer_set(&retry, clock_now.now_ms + RETRY_MS);
    }
}

/* The worker that has the flow does not read. */
static void drop(void)
{
    static uint64_t logged_ms;

    datagram_counts.dropped++;
    if (logged_ms == 0 || clock_now.now_ms - logged_ms >= LOG_EVERY_MS) {
        logged_ms = clock_now.now_ms;
        log_warn(log_main, 0,
                 "datagrams are dropped: the worker that has their flows does not read");
    }
}

/* NULL: there is no such worker, or it is gone. */
static struct mailbox *mailbox_numbered(uint32_t number)
{
    bool is_own = (number & BINARY_BIT) == own_bit;
    struct mailbox *table = is_own ? mailboxes : others;
    uint32_t place = (number & ~BINARY_BIT) - 1;

    return place < (is_own ? mailbox_count : other_count) && table[place].is_used &&
                   table[place].write_fd != -1
               ? &table[place]
               : NULL;
}

bool mailbox_pass(uint32_t to, const struct datagram *datagram)
{
    const struct passed passed = {.size = (uint32_t) datagram->bytes.len,
                                  .ecn = datagram->ecn,
                                  .key = datagram->key,
                                  .peer = datagram->peer};
    size_t size = sizeof(passed) + datagram->bytes.len;

    struct mailbox *mailbox = mailbox_numbered(to);

    if (mailbox == NULL) {
        return false;
    }
    if (mailbox->room == NULL && (mailbox->room = malloc(MESSAGE_MOST)) == NULL) {
        fatal_no_memory(MESSAGE_MOST);
    }
    if (mailbox->waiting + size > MESSAGE_MOST && !mailbox_flush(mailbox)) {
        drop();
        return true;
    }
    memcpy(mailbox->room + mailbox->waiting, &passed, sizeof(passed));
    memcpy(mailbox->room + mailbox->waiting + sizeof(passed), datagram->bytes.data,
           datagram->bytes.len);
    mailbox->waiting += size;
    datagram_counts.passed_on++;
    return true;
}

uint32_t datagram_worker(void)
{
    return mailbox_own;
}

bool datagram_pass_on(const struct datagram_packet *packet, uint32_t worker)
{
    return worker != 0 && worker != mailbox_own && mailbox_pass(worker, packet->datagram);
}
