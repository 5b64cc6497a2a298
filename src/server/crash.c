/* A fatal signal in a worker leaves a line in the error log. */
#include "server/crash.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/parse.h"
#include "fiber/fiber.h"

static void put_hex(struct room *line, const void *address)
{
    uintptr_t value = (uintptr_t) address;
    char text[2 * sizeof(value)];
    size_t at = sizeof(text);

    do {
        text[--at] = "0123456789abcdef"[value & 15];
        value >>= 4;
    } while (value != 0);
    room_put(line, STR("0x"));
    room_put(line, (struct str){text + at, sizeof(text) - at});
}

static void put_number(struct room *line, uint64_t number)
{
    char text[20];

    room_put(line, str_from(text, format_uint(text, number)));
}

/* In a signal handler: nothing here allocates, locks or prints with a format. */
static void report(const struct fiber_crash *crash)
{
    char text[512];
    struct room line = {text, text + sizeof(text) - 1};

    room_put(&line, CLOCK_STR(error_local));
    room_put(&line, STR(" [alert] "));
    put_number(&line, (uint64_t) getpid());
    room_put(&line, STR("#0: crashed by signal "));
    put_number(&line, (uint64_t) crash->signal);
    room_put(&line, STR(" at address "));
    put_hex(&line, crash->address);
    if (crash->is_guard) {
        room_put(&line, crash->is_own_guard ? STR(", the fiber has overflowed its stack ")
                                            : STR(", in the guard of stack "));
        put_number(&line, crash->guard_index);
    }
    if (crash->fiber != NULL) {
        room_put(&line, STR(", in the fiber on stack "));
        put_number(&line, crash->fiber_index);
        room_put(&line, STR(", started with "));
        put_hex(&line, crash->fiber_run);
    }
    *line.at++ = '\n';
    for (const struct log_sink *sink = log_main->sinks; sink != NULL; sink = sink->next) {
        if (sink->file != NULL && sink->file->fd >= 0) {
            ssize_t n = write(sink->file->fd, text, (size_t) (line.at - text));
            (void) n;
        }
    }
}

void crash_watch(void)
{
    static bool is_watching;

    if (!is_watching) {
        is_watching = true;
        if (fiber_crash_install(report) != 0) {
            log_alert(log_main, errno, "crashes cannot be reported");
        }
    }
}
