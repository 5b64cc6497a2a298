/* The end of the process: the system has no memory left, or a pointer does not point to what it
 * should. */
#ifndef BASE_FATAL_H
#define BASE_FATAL_H

#include <stddef.h>

/* How the owner of the log reports it: errno or 0, and the text. NULL: on standard error. May not
 * allocate. */
extern void (*fatal_report)(int error, const char *text);

/* Logs that so many bytes could not be had, and ends the process with status 1: the master starts
 * another worker. */
_Noreturn void fatal_no_memory(size_t size);

/* Tells that an object is not what its caller took it for, and aborts; for CHECK_MAGIC. */
_Noreturn void fatal_wrong_object(const char *file, int line, const char *magic);

/*
 * Where a struct enters a package, in release builds as well: the object's member `magic` must be
 * the number, say CONN_MAGIC, or the process ends with a line that names place and number. A crash
 * with a name beats a wild pointer.
 */
#define CHECK_MAGIC(object, number)                                                                \
    do {                                                                                           \
        if (__builtin_expect((object)->magic != (number), 0)) {                                    \
            fatal_wrong_object(__FILE__, __LINE__, #number);                                       \
        }                                                                                          \
    } while (0)

#endif
