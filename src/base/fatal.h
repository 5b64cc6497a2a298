/* The end of the process when the system has no memory left. */
#ifndef BASE_FATAL_H
#define BASE_FATAL_H

#include <stddef.h>

/* How it is told, by whoever keeps the log; NULL: on standard error. May not allocate. */
extern void (*fatal_report)(size_t size);

/* Tells that so many bytes could not be had, and ends the process with status 1: the master starts a worker anew. */
_Noreturn void fatal_no_memory(size_t size);

#endif
