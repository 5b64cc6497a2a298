/* The end of the process when the system has no memory left. */
#include "base/fatal.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void (*fatal_report)(size_t size);

void fatal_no_memory(size_t size)
{
    if (fatal_report != NULL) {
        fatal_report(size);
    } else {
        dprintf(STDERR_FILENO, "nginx: [emerg] malloc(%zu) failed\n", size);
    }
    _exit(EXIT_FAILURE);
}
