/* lua_time_limit: a timer of the thread's own CPU time looks whether the same Lua runs still. */
#define _GNU_SOURCE
#include "lua/vm/watch.h"

#include <errno.h>
#include <lauxlib.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "event/loop.h"
#include "lua/vm/interrupt.h"
#include "lua/vm/thread.h"
#include "server/generation.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* That of the timer. SIGPROF is for profilers. */
#define WATCH_SIGNAL SIGRTMIN

/* Ticks of half the limit in one turn of the loop: when Lua is asked to tell where it is, and when
 * that is not awaited. */
enum { TICKS_LATE = 2, TICKS_DEAF = 6 };

static struct {
    uint64_t limit_ms; /* 0 = nothing is watched */
    uint64_t turn;     /* of the loop, at the last tick */
    unsigned ticks;    /* in that turn, while Lua ran */
    bool was_logged;   /* in that turn */
} watch;

static void tell(const char *traceback)
{
    const struct script_thread *thread = script_running();
    static __thread char line[LOG_LINE_MAX]; /* too much for a stack */
    struct writer writer = {line, line + sizeof(line)};

    if (watch.was_logged || thread == NULL) {
        return;
    }
    watch.was_logged = true;
    counters_mine->limited++;
    writer_printf(&writer, "[lua] %s computes for more than %llu ms without a wait%s%s",
                  script_phase_text(thread->phase), (unsigned long long) watch.limit_ms,
                  traceback[0] != '\0' ? "\n" : ", in compiled code or in C", traceback);
    if (thread->subject->log->level >= LOG_WARN) {
        log_write_text(thread->subject->log, LOG_WARN, str_from(line, writer.at));
    }
}

void script_watch_tell(lua_State *L)
{
    if (loop_turns() != watch.turn) {
        return; /* who was meant has ended in the meantime */
    }
    luaL_traceback(L, L, NULL, 0);
    tell(lua_tostring(L, -1));
    lua_pop(L, 1);
}

/* In a signal: Lua may be anywhere. hooks are made for that; a line of the log takes no memory and
 * no lock. */
static void on_tick(int signo)
{
    struct script_thread *thread = script_running();
    int saved_errno = errno;

    (void) signo;
    if (thread == NULL || loop_turns() != watch.turn) {
        watch.turn = loop_turns();
        watch.ticks = 0;
        watch.was_logged = false;
    } else {
        watch.ticks++;
        if (watch.ticks == TICKS_LATE) {
            script_interrupt(thread->subject->vm, SCRIPT_INTERRUPT_WATCH);
        } else if (watch.ticks == TICKS_DEAF) {
            tell("");
        }
    }
    errno = saved_errno;
}

void script_watch_begin(uint64_t limit_ms)
{
    uint64_t tick_ms = limit_ms > 1 ? limit_ms / 2 : 1;
    const struct itimerspec every = {.it_interval = {.tv_sec = (time_t) (tick_ms / 1000),
                                                     .tv_nsec = (long) (tick_ms % 1000) * 1000000},
                                     .it_value = {.tv_sec = (time_t) (tick_ms / 1000),
                                                  .tv_nsec = (long) (tick_ms % 1000) * 1000000}};
    struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART | SA_ONSTACK};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = WATCH_SIGNAL};
    static timer_t timer;

    if (limit_ms == 0 || (watch.limit_ms != 0 && watch.limit_ms <= limit_ms)) {
        return;
    }
    event.sigev_notify_thread_id = (pid_t) syscall(SYS_gettid);
    if (watch.limit_ms == 0) {
        sigemptyset(&action.sa_mask);
        if (sigaction(WATCH_SIGNAL, &action, NULL) != 0 ||
            timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) != 0) {
            log_warn(log_main, errno, "lua_time_limit is not watched");
            return;
        }
    }
    watch.limit_ms = limit_ms;
    timer_settime(timer, 0, &every, NULL);
}
