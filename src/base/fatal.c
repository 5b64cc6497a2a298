/* The end of the process when the system has no memory left. */
#include <errno.h>
#include <unistd.h>

#include "base/fatal.h"
#include "base/log.h"

void fatal_no_memory(size_t size)
{
    log_emerg(log_main, ENOMEM, "malloc(%zu) failed", size);
    _exit(2);
}
