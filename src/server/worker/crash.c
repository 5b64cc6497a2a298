/* A fatal signal in a worker leaves a line in the error log. */
#include "server/worker/crash.h"

#include <errno.h>
#include <execinfo.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/parse.h"
#include "fiber/fiber.h"

static void put_hex(struct writer *line, const void *address)
{
    uintptr_t value = (uintptr_t) address;
    char text[2 * sizeof(value)];
    size_t at = sizeof(text);

    do {
        text[--at] = "0123456789abcdef"[value & 15];
        value >>= 4;
    } while (value != 0);
    writer_put(line, STR("0x"));
    writer_put(line, (struct str){text + at, sizeof(text) - at});
}

static void put_number(struct writer *line, uint64_t number)
{
    char text[20];

    writer_put(line, str_from(text, format_uint(text, number)));
}

static const struct log_file *trace_file; /* NULL: the error log */
static unsigned trace_frames;

/* The lookup of symbols may wait for a lock that the crashed code holds: SIGALRM ends the process
   then. */
static void end_in_time(unsigned seconds)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    signal(SIGALRM, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    alarm(seconds);
}

/* Writes the stack frames to these files; a fault in here ends the process, which would have ended
   anyway. */
static void write_frames(void)
{
    void *frames[CRASH_FRAMES_MOST];
    int count = backtrace(frames, (int) trace_frames);

    end_in_time(5);
    if (trace_file != NULL && trace_file->fd >= 0) {
        backtrace_symbols_fd(frames, count, trace_file->fd);
        return;
    }
    for (const struct log_sink *sink = log_main->sinks; sink != NULL; sink = sink->next) {
        if (sink->file != NULL && sink->file->fd >= 0) {
            backtrace_symbols_fd(frames, count, sink->file->fd);
        }
    }
}

/* In a signal handler: must not allocate, lock, or use printf. */
static void report_crash(const struct fiber_crash *crash)
{
    char text[512];
    struct writer line = {text, text + sizeof(text) - 1};

    writer_put(&line, CLOCK_STR(error_local));
    writer_put(&line, STR(" [alert] "));
    put_number(&line, (uint64_t) getpid());
    writer_put(&line, STR("#0: crashed by signal "));
    put_number(&line, (uint64_t) crash->signal);
    writer_put(&line, STR(" at address "));
    put_hex(&line, crash->address);
    if (crash->is_guard) {
        writer_put(&line, crash->is_own_guard ? STR(", the fiber has overflowed its stack ")
                                              : STR(", in the guard of stack "));
        put_number(&line, crash->guard_index);
    }
    if (crash->fiber != NULL) {
        writer_put(&line, STR(", in the fiber on stack "));
        put_number(&line, crash->fiber_index);
        writer_put(&line, STR(", started with "));
        put_hex(&line, crash->fiber_run);
    }
    *line.at++ = '\n';
    for (const struct log_sink *sink = log_main->sinks; sink != NULL; sink = sink->next) {
        if (sink->file != NULL && sink->file->fd >= 0) {
            ssize_t n = write(sink->file->fd, text, (size_t) (line.at - text));
            (void) n;
        }
    }
    if (trace_frames != 0) {
        write_frames();
    }
}

void crash_trace(const struct log_file *file, unsigned frames)
{
    void *first;

    trace_file = file;
    trace_frames = frames < CRASH_FRAMES_MOST ? frames : CRASH_FRAMES_MOST;
    backtrace(&first, 1); /* the first call loads a library, which a signal handler must not do */
}

void crash_watch(void)
{
    static bool is_watching;

    if (!is_watching) {
        is_watching = true;
        if (fiber_crash_install(report_crash) != 0) {
            log_alert(log_main, errno, "crashes cannot be reported");
        }
    }
}
