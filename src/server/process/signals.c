/* The signals: which process handles them, their names, and the values of -s. */
#include "server/process/signals.h"

#include <stddef.h>

#include "base/log.h"

/* A signal that the service handles. */
struct known_signal {
    int signo;
    const char *name;
    const char *word; /* value of -s, or NULL */
    bool is_masters;  /* the master handles it */
    bool is_workers;  /* workers handle it as well (some are ignored) */
};

/* clang-format off */
static const struct known_signal known_signals[] = {
    {SIGHUP, "SIGHUP", "reload", true, true},
    {SIGUSR1, "SIGUSR1", "reopen", true, true},
    {SIGWINCH, "SIGWINCH", NULL, true, true},
    {SIGTERM, "SIGTERM", "stop", true, true},
    {SIGQUIT, "SIGQUIT", "quit", true, true},
    {SIGUSR2, "SIGUSR2", NULL, true, true},
    {SIGALRM, "SIGALRM", NULL, true, true},
    {SIGINT, "SIGINT", NULL, true, true},
    {SIGIO, "SIGIO", "confirm", true, true},
    {SIGURG, "SIGURG", "rollback", true, true},
    {SIGCHLD, "SIGCHLD", NULL, true, false},
    {SIGSYS, "SIGSYS", NULL, false, false},
    {SIGPIPE, "SIGPIPE", NULL, false, false},
};
/* clang-format on */

enum { KNOWN = sizeof(known_signals) / sizeof(known_signals[0]) };

void signals_of_master(sigset_t *set)
{
    sigemptyset(set);
    for (int i = 0; i < KNOWN; i++) {
        if (known_signals[i].is_masters) {
            sigaddset(set, known_signals[i].signo);
        }
    }
}

void signals_of_worker(sigset_t *set)
{
    sigemptyset(set);
    for (int i = 0; i < KNOWN; i++) {
        if (known_signals[i].is_workers) {
            sigaddset(set, known_signals[i].signo);
        }
    }
}

void signals_ignore(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};

    sigaction(SIGPIPE, &ignore, NULL);
    sigaction(SIGSYS, &ignore, NULL);
}

void signals_hold(void)
{
    sigset_t signals;

    signals_of_master(&signals);
    sigprocmask(SIG_SETMASK, &signals, NULL);
}

void signals_reset(void)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigset_t none;

    sigaction(SIGPIPE, &standard, NULL);
    sigaction(SIGSYS, &standard, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* "SIGHUP"; "SIG?" for a signal that is not in the table. */
static const char *signal_name(int signo)
{
    for (int i = 0; i < KNOWN; i++) {
        if (known_signals[i].signo == signo) {
            return known_signals[i].name;
        }
    }
    return "SIG?";
}

int signal_of_word(struct str word)
{
    for (int i = 0; i < KNOWN; i++) {
        if (known_signals[i].word != NULL && str_is(word, known_signals[i].word)) {
            return known_signals[i].signo;
        }
    }
    return 0;
}

void signal_log(int signo, int sender_pid, const char *tail)
{
    if (sender_pid > 0) {
        log_notice(log_main, 0, "signal %d (%s) received from %d%s", signo, signal_name(signo),
                   sender_pid, tail);
    } else {
        log_notice(log_main, 0, "signal %d (%s) received%s", signo, signal_name(signo), tail);
    }
}
