/* The end of the process when the system has no memory left. */
#ifndef BASE_FATAL_H
#define BASE_FATAL_H

#include <stddef.h>

/* Writes an emerg line to the main log, without allocating, and ends the process with status 2. */
_Noreturn void fatal_no_memory(size_t size);

#endif
