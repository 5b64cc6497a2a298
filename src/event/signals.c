/* Signals as events: blocked for the process and read from a signalfd. */
#include "event/loop.h"

#include <errno.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "event/backend.h"

static struct event_source signal_source = {.fd = -1};
static void (*on_signal_event)(int signo, int sender_pid);
static sigset_t former_mask; /* before the first watch */
static bool has_former_mask;

static void signals_ready(struct event_source *source, unsigned events)
{
    struct signalfd_siginfo info[8];
    ssize_t n;

    /* The callback may end the watch, so check the descriptor each time. */
    while (source->fd != -1 && (n = read(source->fd, info, sizeof(info))) > 0) {
        for (size_t i = 0; i < (size_t) n / sizeof(info[0]); i++) {
            on_signal_event((int) info[i].ssi_signo, (int) info[i].ssi_pid);
        }
    }
}

bool loop_watch_signals(const sigset_t *signals, void (*on_signal)(int signo, int sender_pid))
{
    sigset_t before;

    signals_destroy();
    if (sigprocmask(SIG_BLOCK, signals, &before) == -1) {
        return false;
    }
    if (!has_former_mask) {
        former_mask = before;
        has_former_mask = true;
    }
    int fd = signalfd(-1, signals, SFD_NONBLOCK | SFD_CLOEXEC);
    if (fd == -1) {
        return false;
    }
    on_signal_event = on_signal;
    event_source_init(&signal_source, fd, signals_ready);
    if (!event_add_input(&signal_source)) {
        int error = errno;

        signals_destroy();
        errno = error;
        return false;
    }
    return true;
}

void loop_restore_signals(void)
{
    if (has_former_mask) {
        sigprocmask(SIG_SETMASK, &former_mask, NULL);
    }
}

void signals_destroy(void)
{
    if (signal_source.fd != -1) {
        event_remove(&signal_source);
        close(signal_source.fd);
        signal_source.fd = -1;
    }
}
