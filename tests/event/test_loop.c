/* The loop: events, forgotten sources, deferred work, messages, signals, fibers, forks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/list.h"
#include "event/loop.h"
#include "fiber/fiber.h"

static char trail[64]; /* what ran, one letter each */
static struct loop_pulse pulse;

static void leave(char letter)
{
    size_t n = strlen(trail);

    assert_true(n < sizeof(trail) - 1);
    trail[n] = letter;
    trail[n + 1] = '\0';
}

static int setup(void **state)
{
    struct loop_options options = {.log = log_main, .pulse = &pulse};

    memset(trail, 0, sizeof(trail));
    memset(&pulse, 0, sizeof(pulse));
    return loop_init(&options) ? 0 : -1;
}

static int teardown(void **state)
{
    loop_destroy();
    return 0;
}

/* ---- events ---- */

/* One end of a socket pair that the loop watches. */
struct end {
    struct event_source source;
    int peer;
    unsigned events; /* of the last call */
    int calls;
    struct end *forgets; /* to be forgotten by the callback */
};

static void end_ready(struct event_source *source, unsigned events)
{
    struct end *end = container_of(source, struct end, source);

    end->events = events;
    end->calls++;
    if (end->forgets != NULL) {
        event_forget(&end->forgets->source);
        close(end->forgets->source.fd);
        end->forgets->source.fd = -1;
    }
}

static void end_open(struct end *end)
{
    int fds[2];

    memset(end, 0, sizeof(*end));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    event_source_init(&end->source, fds[0], end_ready);
    end->peer = fds[1];
}

static void end_close(struct end *end)
{
    if (end->source.fd != -1) {
        event_forget(&end->source);
        close(end->source.fd);
    }
    if (end->peer != -1) {
        close(end->peer);
    }
}

static void input_is_told_once_until_more_comes(void **state)
{
    struct end end;

    end_open(&end);
    assert_true(event_add_input(&end.source));
    loop_turn(0);
    assert_int_equal(end.calls, 0); /* room for output is nobody's business yet */
    assert_int_equal(write(end.peer, "x", 1), 1);
    loop_turn(1000);
    assert_int_equal(end.calls, 1);
    assert_int_equal(end.events, EVENT_READ);
    loop_turn(0);
    assert_int_equal(end.calls, 1);
    assert_int_equal(write(end.peer, "y", 1), 1);
    loop_turn(1000);
    assert_int_equal(end.calls, 2);
    end_close(&end);
}

static void output_is_told_when_it_is_wanted(void **state)
{
    struct end end;

    end_open(&end);
    assert_true(event_add_input(&end.source));
    assert_true(event_want_output(&end.source));
    loop_turn(1000);
    assert_int_equal(end.events, EVENT_WRITE);
    assert_true(event_want_output(&end.source));
    loop_turn(0);
    assert_int_equal(end.calls, 1);
    end_close(&end);
}

static void both_directions_tell_what_is_ready_already(void **state)
{
    struct end end;

    end_open(&end);
    assert_int_equal(write(end.peer, "x", 1), 1);
    assert_true(event_add(&end.source));
    loop_turn(1000);
    assert_int_equal(end.events, EVENT_READ | EVENT_WRITE);
    end_close(&end);
}

static void the_end_of_input_and_errors_are_told_apart(void **state)
{
    struct end end;

    end_open(&end);
    assert_true(event_add_input(&end.source));
    shutdown(end.peer, SHUT_WR);
    loop_turn(1000);
    assert_int_equal(end.events, EVENT_READ | EVENT_PEER_CLOSED);
    close(end.peer);
    end.peer = -1;
    loop_turn(1000);
    assert_true(end.events & EVENT_ERROR);
    assert_true(end.events & EVENT_READ);
    assert_true(end.events & EVENT_WRITE);
    end_close(&end);
}

static void events_of_a_source_forgotten_in_the_same_turn_are_dropped(void **state)
{
    struct end a;
    struct end b;

    end_open(&a);
    end_open(&b);
    /* Whichever comes first forgets the other. */
    a.forgets = &b;
    b.forgets = &a;
    assert_true(event_add_input(&a.source));
    assert_true(event_add_input(&b.source));
    assert_int_equal(write(a.peer, "x", 1), 1);
    assert_int_equal(write(b.peer, "x", 1), 1);
    loop_turn(1000);
    assert_int_equal(a.calls + b.calls, 1);
    end_close(&a);
    end_close(&b);
}

static struct end reborn;

/* Closes its neighbour and opens a new one that gets the same descriptor number. */
static void replace_neighbour(struct event_source *source, unsigned events)
{
    struct end *end = container_of(source, struct end, source);
    int number = end->forgets->source.fd;

    end->calls++;
    event_forget(&end->forgets->source);
    close(number);
    end->forgets->source.fd = -1;
    memset(&reborn, 0, sizeof(reborn));
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    assert_int_equal(fds[0], number);
    event_source_init(&reborn.source, fds[0], end_ready);
    reborn.peer = fds[1];
    assert_true(event_add_input(&reborn.source));
}

static void an_old_event_does_not_hit_a_new_user_of_its_descriptor(void **state)
{
    struct end a;
    struct end b;

    end_open(&a);
    end_open(&b);
    a.source.ready = replace_neighbour;
    a.forgets = &b;
    assert_true(event_add_input(&a.source));
    assert_true(event_add_input(&b.source));
    /* a is told first: it became ready first. */
    assert_int_equal(write(a.peer, "x", 1), 1);
    assert_int_equal(write(b.peer, "x", 1), 1);
    loop_turn(1000);
    assert_int_equal(a.calls, 1);
    assert_int_equal(b.calls, 0);
    assert_int_equal(reborn.calls, 0);
    assert_int_equal(write(reborn.peer, "x", 1), 1);
    loop_turn(1000);
    assert_int_equal(reborn.calls, 1);
    end_close(&a);
    end_close(&b);
    end_close(&reborn);
}

static void a_removed_source_is_silent_and_can_come_back(void **state)
{
    struct end end;

    end_open(&end);
    assert_true(event_add_input(&end.source));
    event_remove(&end.source);
    assert_int_equal(write(end.peer, "x", 1), 1);
    loop_turn(0);
    assert_int_equal(end.calls, 0);
    assert_true(event_add_input(&end.source));
    loop_turn(1000);
    assert_int_equal(end.calls, 1);
    end_close(&end);
}

static void a_listener_is_told_again_and_again(void **state)
{
    struct end end;

    end_open(&end);
    assert_true(event_add_listener(&end.source, true));
    assert_int_equal(write(end.peer, "x", 1), 1);
    loop_turn(1000);
    loop_turn(1000);
    assert_int_equal(end.calls, 2);
    end_close(&end);
}

static void a_bad_descriptor_is_refused(void **state)
{
    struct end end = {0};
    int fds[2];

    assert_int_equal(pipe(fds), 0);
    close(fds[0]);
    close(fds[1]);
    event_source_init(&end.source, fds[0], end_ready);
    assert_false(event_add(&end.source));
    assert_false(end.source.is_registered);
}

/* ---- deferred work ---- */

struct task {
    struct deferred deferred;
    char letter;
    struct task *then; /* is deferred by this one */
    void (*how)(struct deferred *);
};

static void task_run(struct deferred *deferred)
{
    struct task *task = container_of(deferred, struct task, deferred);

    leave(task->letter);
    if (task->then != NULL) {
        struct task *then = task->then;

        task->then = NULL;
        task->how(&then->deferred);
    }
}

static void task_init(struct task *task, char letter)
{
    memset(task, 0, sizeof(*task));
    task->letter = letter;
    deferred_init(&task->deferred, task_run);
}

static void deferred_runs_in_order_and_the_last_at_the_end(void **state)
{
    struct task log;
    struct task a;
    struct task b;
    struct task c;

    task_init(&log, 'L');
    task_init(&a, 'a');
    task_init(&b, 'b');
    task_init(&c, 'c');
    loop_defer_last(&log.deferred);
    loop_defer(&a.deferred);
    loop_defer(&b.deferred);
    loop_defer(&a.deferred);
    a.then = &c;
    a.how = loop_defer;
    loop_turn(0);
    assert_string_equal(trail, "abcL");
    loop_turn(0);
    assert_string_equal(trail, "abcL");
}

static void what_the_last_work_defers_runs_without_sleeping(void **state)
{
    struct task log;
    struct task late;

    task_init(&log, 'L');
    task_init(&late, 'x');
    log.then = &late;
    log.how = loop_defer;
    loop_defer_last(&log.deferred);
    loop_turn(0);
    loop_turn(-1); /* would hang if it slept */
    assert_string_equal(trail, "Lx");
}

#define PEERS 12

/* Endings of connections: their peers wait. */
static void urgent_last_work_waits_for_few_others(void **state)
{
    struct task log;
    struct task ends[PEERS];
    struct task others[PEERS];

    task_init(&log, 'L');
    loop_defer_last(&log.deferred);
    for (int i = 0; i < PEERS; i++) {
        task_init(&ends[i], 'e');
        task_init(&others[i], 'o');
        others[i].then = &ends[i];
        others[i].how = loop_defer_last_urgent;
        loop_defer(&others[i].deferred);
    }
    loop_turn(0);
    assert_string_equal(trail, "ooooooooLeeeeeeeeooooeeee");
}

#define PASSERS 33

/* One end, and many events that end nothing. */
static void urgent_last_work_lets_few_events_pass(void **state)
{
    struct task end;
    struct task others[PASSERS];

    task_init(&end, 'e');
    loop_defer_last_urgent(&end.deferred);
    for (int i = 0; i < PASSERS; i++) {
        task_init(&others[i], 'o');
        loop_defer(&others[i].deferred);
    }
    loop_turn(0);
    assert_string_equal(trail, "ooooooooooooooooooooooooooooooooeo");
}

static void takes_long(void *arg)
{
    loop_finish_urgent();
    leave('f');
}

/* A fiber that an event starts runs within the event. */
static void urgent_last_work_is_finished_before_what_takes_long(void **state)
{
    struct task end;

    assert_true(loop_host_fibers(10, 0));
    loop_finish_urgent(); /* nothing is pending */
    task_init(&end, 'e');
    loop_defer_last_urgent(&end.deferred);
    assert_int_equal(fiber_start(takes_long, NULL, NULL), FIBER_ENDED);
    assert_string_equal(trail, "ef");
}

static void wait_then_leave(void *arg)
{
    assert_int_equal(fiber_wait(arg, clock_now.now_ms + 10000), WAIT_READY);
    leave('f');
}

static void urgent_last_work_does_not_wait_for_fibers(void **state)
{
    struct wait_point point = {0};
    struct task end;

    assert_true(loop_host_fibers(10, 0));
    assert_int_equal(fiber_start(wait_then_leave, &point, NULL), FIBER_WAITING);
    wait_signal_later(&point);
    task_init(&end, 'e');
    loop_defer_last_urgent(&end.deferred);
    loop_turn(0);
    assert_string_equal(trail, "ef");
}

static void undeferred_work_does_not_run(void **state)
{
    struct task a;
    struct task b;

    task_init(&a, 'a');
    task_init(&b, 'b');
    loop_defer(&a.deferred);
    loop_defer(&b.deferred);
    assert_true(deferred_is_pending(&a.deferred));
    loop_undefer(&a.deferred);
    loop_undefer(&a.deferred);
    assert_false(deferred_is_pending(&a.deferred));
    loop_turn(0);
    assert_string_equal(trail, "b");
}

static void work_for_the_next_turn_lets_events_pass_first(void **state)
{
    struct task a;
    struct task next;

    task_init(&a, 'a');
    task_init(&next, 'n');
    a.then = &next;
    a.how = loop_defer_next;
    loop_defer(&a.deferred);
    loop_turn(0);
    assert_string_equal(trail, "a");
    loop_turn(-1);
    assert_string_equal(trail, "an");
}

static void pulse_beats_with_every_turn(void **state)
{
    loop_turn(0);
    loop_turn(1);
    assert_int_equal(pulse.turns, 2);
    assert_int_equal(loop_turns(), 2);
    assert_int_equal(pulse.is_sleeping, 0);
}

static int asked;

static bool three_times(void)
{
    return ++asked == 3;
}

static void again(struct deferred *deferred)
{
    leave('g');
    loop_defer_next(deferred);
}

static void stop(struct deferred *deferred)
{
    leave('!');
    loop_stop();
}

static void run_goes_on_until_told(void **state)
{
    struct task task;

    task_init(&task, 'g');
    task.deferred.run = again;
    loop_defer(&task.deferred);
    asked = 0;
    loop_run(three_times);
    assert_string_equal(trail, "ggg");
    loop_undefer(&task.deferred);
    task.deferred.run = stop;
    loop_defer(&task.deferred);
    loop_run(NULL);
    assert_string_equal(trail, "ggg!");
}

/* ---- signals ---- */

static int signal_seen;
static int signal_sender;

static void on_signal(int signo, int sender_pid)
{
    signal_seen = signo;
    signal_sender = sender_pid;
}

static void signals_come_as_events(void **state)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    signal_seen = 0;
    assert_true(loop_watch_signals(&set, on_signal));
    kill(getpid(), SIGUSR1);
    while (signal_seen == 0) {
        loop_turn(1000);
    }
    assert_int_equal(signal_seen, SIGUSR1);
    assert_int_equal(signal_sender, getpid());
    loop_restore_signals();
    sigset_t now;
    sigprocmask(SIG_BLOCK, NULL, &now);
    assert_false(sigismember(&now, SIGUSR1));
}

/* ---- forks and fibers ---- */

static void a_child_has_its_own_loop(void **state)
{
    struct end end;
    int status;

    end_open(&end);
    assert_true(event_add_input(&end.source));
    assert_int_equal(write(end.peer, "x", 1), 1);
    pid_t child = fork();
    if (child == 0) {
        struct loop_options options = {.log = log_main};
        struct end own;
        bool is_good = loop_init(&options);

        loop_turn(0);
        is_good = is_good && end.calls == 0; /* the parent's */
        end_open(&own);
        is_good = is_good && event_add_input(&own.source) && write(own.peer, "x", 1) == 1;
        loop_turn(1000);
        _exit(is_good && own.calls == 1 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    loop_turn(1000);
    assert_int_equal(end.calls, 1);
    end_close(&end);
}

static void sleeper(void *arg)
{
    struct wait_point *point = arg;

    leave('s');
    assert_int_equal(fiber_sleep(clock_now.now_ms + 5), WAIT_TIMED_OUT);
    leave('w');
    assert_int_equal(fiber_wait(point, clock_now.now_ms + 5), WAIT_TIMED_OUT);
    leave('t');
    assert_int_equal(fiber_wait(point, clock_now.now_ms + 10000), WAIT_READY);
    leave('r');
    assert_int_equal(fiber_yield(), WAIT_READY);
    leave('y');
}

static void fibers_sleep_and_wake_with_the_loop(void **state)
{
    struct wait_point point = {0};
    struct fiber *fiber;

    assert_true(loop_host_fibers(100, 0));
    assert_int_equal(fiber_start(sleeper, &point, &fiber), FIBER_WAITING);
    while (strcmp(trail, "swt") != 0) {
        loop_turn(1000);
    }
    wait_signal_later(&point);
    loop_turn(0);
    loop_turn(0);
    assert_string_equal(trail, "swtry");
}

static void a_pause_passes_before_the_sleep(void **state)
{
    struct timespec before, after;

    loop_pause(&(struct loop_pause){.us = 3000});
    clock_gettime(CLOCK_MONOTONIC, &before);
    loop_turn(1);
    clock_gettime(CLOCK_MONOTONIC, &after);
    int64_t us = (after.tv_sec - before.tv_sec) * 1000000 + (after.tv_nsec - before.tv_nsec) / 1000;
    assert_true(us >= 3000);
}

/* ---- turns that take long ---- */

static unsigned stalls;
static uint64_t stalled_ms;

static void note_stalled(uint64_t took_ms)
{
    stalls++;
    stalled_ms = took_ms;
}

static void block(struct deferred *deferred)
{
    const struct timespec time = {.tv_nsec = 30 * 1000000};

    nanosleep(&time, NULL);
}

static void a_turn_that_works_for_long_is_reported_and_a_wait_is_not(void **state)
{
    struct loop_options options = {.log = log_main, .stalled = note_stalled, .stall_ms = 20};
    struct deferred deferred;

    loop_destroy();
    assert_true(loop_init(&options));
    loop_turn(0);
    loop_turn(30);
    loop_turn(0);
    assert_int_equal(stalls, 0);
    deferred_init(&deferred, block);
    loop_defer(&deferred);
    loop_turn(0);
    loop_turn(30);
    assert_int_equal(stalls, 1);
    assert_true(stalled_ms >= 20);
    loop_turn(0);
    assert_int_equal(stalls, 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(input_is_told_once_until_more_comes),
        TEST(a_turn_that_works_for_long_is_reported_and_a_wait_is_not),
        TEST(output_is_told_when_it_is_wanted),
        TEST(both_directions_tell_what_is_ready_already),
        TEST(the_end_of_input_and_errors_are_told_apart),
        TEST(events_of_a_source_forgotten_in_the_same_turn_are_dropped),
        TEST(an_old_event_does_not_hit_a_new_user_of_its_descriptor),
        TEST(a_removed_source_is_silent_and_can_come_back),
        TEST(a_listener_is_told_again_and_again),
        TEST(a_bad_descriptor_is_refused),
        TEST(deferred_runs_in_order_and_the_last_at_the_end),
        TEST(what_the_last_work_defers_runs_without_sleeping),
        TEST(urgent_last_work_waits_for_few_others),
        TEST(urgent_last_work_lets_few_events_pass),
        TEST(urgent_last_work_is_finished_before_what_takes_long),
        TEST(urgent_last_work_does_not_wait_for_fibers),
        TEST(undeferred_work_does_not_run),
        TEST(work_for_the_next_turn_lets_events_pass_first),
        TEST(pulse_beats_with_every_turn),
        TEST(run_goes_on_until_told),
        TEST(a_pause_passes_before_the_sleep),
        TEST(signals_come_as_events),
        TEST(a_child_has_its_own_loop),
        TEST(fibers_sleep_and_wake_with_the_loop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
