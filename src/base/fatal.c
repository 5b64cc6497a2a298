/* Ends the process: the system has no memory left, or a pointer points to a wrong object. */
#include "base/fatal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void (*fatal_report)(int error, const char *text);

static void report_fatal(int error, const char *text)
{
    if (fatal_report != NULL) {
        fatal_report(error, text);
    } else {
        dprintf(STDERR_FILENO, "nginx: [emerg] %s\n", text);
    }
}

void fatal_no_memory(size_t size)
{
    char text[64];

    snprintf(text, sizeof(text), "malloc(%zu) failed", size);
    report_fatal(ENOMEM, text);
    _exit(EXIT_FAILURE);
}

__attribute__((cold)) void fatal_wrong_object(const char *file, int line, const char *magic)
{
    char text[256];

    snprintf(text, sizeof(text), "%s:%d: an object lacks its %s", file, line, magic);
    report_fatal(0, text);
    abort();
}
