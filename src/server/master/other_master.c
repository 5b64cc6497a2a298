/* Messages between two masters. Each announces the listeners that its workers serve, and sends one
 * end of a socket pair for a worker of the other master; the other end goes to its own worker that
 * quits. */
#define _GNU_SOURCE
#include "server/master/other_master.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/parse.h"
#include "net/datagram/binaries.h"
#include "net/shards/listener.h"
#include "server/master/master.h"
#include "server/process/channel.h"
#include "server/process/server.h"
#include "server/worker/handover.h"

#define VARIABLE "PORTUNUS_MASTER"

enum {
    SERVED_MOST = 1024
}; /* listeners; connections of further listeners stay with their worker until the next response */
#define NOT_YET UINT32_MAX

static struct {
    int fd;            /* the channel */
    int child;         /* the end of the channel for a new binary; -1 once it has it */
    bool is_ours;      /* it understands our messages */
    uint32_t to_serve; /* listeners that it announces; NOT_YET: its workers do not accept yet */
    uint32_t served[SERVED_MOST]; /* values of listener_print */
    unsigned served_count;
} other = {.fd = -1, .child = -1};

int other_master_fd(void)
{
    return other.fd;
}

void other_master_close(void)
{
    if (other.fd >= 0) {
        close(other.fd);
        other.fd = -1;
    }
    other.is_ours = false;
    other.served_count = 0;
}

/* ---- the beginning */

char *other_master_open(struct arena *arena)
{
    int ends[2];

    other_master_close();
    if (!channel_open(ends)) {
        log_alert(log_main, errno, "socketpair() failed for a new binary process");
        return NULL;
    }
    other.fd = ends[0];
    other.child = ends[1];
    return (char *) arena_printf(arena, VARIABLE "=%d", other.child).data;
}

void other_master_keep_open(void)
{
    if (other.child >= 0 && fcntl(other.child, F_SETFD, 0) != 0) {
        log_alert(log_main, errno, "fcntl(F_SETFD) failed");
    }
}

void other_master_forked(void)
{
    if (other.child >= 0) {
        close(other.child);
        other.child = -1;
    }
}

/* The number may refer to any descriptor: the environment is not under our control. */
static bool is_channel(int fd)
{
    int type = 0, domain = 0;
    socklen_t size = sizeof(type);

    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET &&
           getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
}

/* Announces that this program understands the messages, and how many listeners follow. */
static bool say_hello(uint32_t to_serve)
{
    const struct channel_message message = {.type = CHANNEL_READY,
                                            .slot = HANDOVER_FORM,
                                            .listener = to_serve};

    return channel_send(other.fd, &message, -1);
}

void other_master_inherit(void)
{
    const char *text = server_environment(VARIABLE);
    uint64_t fd;

    if (text != NULL && parse_uint(str_of(text), &fd) && fd > STDERR_FILENO && fd < INT_MAX &&
        is_channel((int) fd) && fcntl((int) fd, F_SETFD, FD_CLOEXEC) == 0) {
        other.fd = (int) fd;
        say_hello(NOT_YET);
    }
}

/* ---- who serves what */

/* Identifies a listener for both masters: a hash of its address and of what its connections begin
   with (TLS, PROXY). */
static uint32_t listener_print(const struct listener *listener)
{
    const struct addr *addr = &listener->addr;

    return str_hash((struct str){(const char *) &addr->any, addr->len}) ^ listener->opening;
}

static bool other_serves(const struct listener *listener)
{
    uint32_t print = listener_print(listener);

    for (unsigned i = 0; i < other.served_count; i++) {
        if (other.served[i] == print) {
            return true;
        }
    }
    return false;
}

void other_master_announce(void)
{
    struct channel_message message = {.type = CHANNEL_SERVES};
    const struct listener *l;
    uint32_t count = 0;

    for (l = master.generation->listeners; l != NULL && count < SERVED_MOST; l = l->next) {
        count += !l->options.is_datagram;
    }
    bool is_ok = other.fd >= 0 && say_hello(count);
    for (l = master.generation->listeners; is_ok && count != 0; l = l->next) {
        if (!l->options.is_datagram) {
            message.listener = listener_print(l);
            is_ok = channel_send(other.fd, &message, -1);
            count--;
        }
    }
}

static void send_mailbox(uint32_t number, int fd, void *arg)
{
    const struct channel_message message = {.type = CHANNEL_MAILBOX, .slot = number};

    channel_send(other.fd, &message, fd);
}

void other_master_send_mailboxes(void)
{
    if (other.fd >= 0) {
        datagram_mailboxes_each(send_mailbox, NULL);
    }
}

/* Takes the mailbox of a worker of the other master, and passes it to our workers, which can send
 * datagrams to it then. Workers that start later have it in their copy of this table. */
static void take_mailbox(uint32_t number, int fd)
{
    const struct channel_message message = {.type = CHANNEL_MAILBOX, .slot = number};
    int copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);

    if (copy >= 0 && !datagram_mailbox_of_other(number, copy)) {
        close(copy);
        return;
    }
    list_each(item, &processes) {
        struct process *process = container_of(item, struct process, node);

        if (copy >= 0 && process->kind == PROCESS_WORKER) {
            process_tell(process, &message, fd);
        }
    }
}

/* ---- handing over */

static bool other_is_ready(void)
{
    return other.is_ours && other.served_count == other.to_serve;
}

bool other_master_is_starting(void)
{
    return other.is_ours && !other_is_ready();
}

bool other_master_replaces(struct process *process)
{
    struct channel_message message = {.type = CHANNEL_HANDOVER, .slot = process->slot};
    int ends[2];

    if (!other_is_ready() || process->kind == PROCESS_NEW_BINARY) {
        return false;
    }
    if (process->role != WORKER_SERVES) {
        process_command(process, CHANNEL_REPLACED, -1);
        return true;
    }
    if (process->is_leaving) { /* its connections were handed over where that was possible */
        process_command(process, CHANNEL_UPGRADED, -1);
        return true;
    }
    if (!channel_open(ends)) {
        return false;
    }
    bool is_sent = channel_send(other.fd, &message, ends[0]);
    close(ends[0]);
    message.type = CHANNEL_GONE;
    message.listener = 0;
    for (const struct listener *l = master.generation->listeners; is_sent && l != NULL;
         l = l->next, message.listener++) {
        is_sent = other_serves(l) || process_tell(process, &message, -1);
    }
    if (is_sent) {
        process_command(process, CHANNEL_UPGRADED, ends[1]);
    }
    close(ends[1]);
    return is_sent;
}

/* A worker of the other master hands its connections over to one of ours. */
static void take_handover(unsigned slot, int fd)
{
    const struct channel_message message = {.type = CHANNEL_HANDOVER};
    const struct generation *generation = master.generation;
    struct process *worker = process_of_slot(generation->number, slot % generation->slots);

    if (fd >= 0 && worker != NULL && worker->is_ready) {
        process_tell(worker, &message, fd);
    } /* otherwise the sender sees a closed socket, and keeps them until the next response */
}

static void other_master_take(const struct channel_message *message, int fd)
{
    switch (message->type) {
    case CHANNEL_READY:
        other.is_ours = message->slot == HANDOVER_FORM;
        other.to_serve = message->listener;
        other.served_count = 0;
        break;
    case CHANNEL_SERVES:
        if (other.served_count < SERVED_MOST) {
            other.served[other.served_count++] = message->listener;
        }
        break;
    case CHANNEL_HANDOVER:
        take_handover(message->slot, fd);
        break;
    case CHANNEL_MAILBOX:
        take_mailbox(message->slot, fd);
        break;
    default:
        break;
    }
}

void other_master_take_messages(void)
{
    struct channel_message message;
    enum channel_result result = CHANNEL_EMPTY;
    int fd;

    while (other.fd >= 0 &&
           (result = channel_receive(other.fd, &message, &fd)) == CHANNEL_MESSAGE) {
        other_master_take(&message, fd);
        if (fd >= 0) {
            close(fd);
        }
    }
    if (result == CHANNEL_CLOSED) {
        other_master_close();
    }
}
