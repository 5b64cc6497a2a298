/* Ends the process: the system has no memory left, or a pointer points to a wrong object. */
#ifndef BASE_FATAL_H
#define BASE_FATAL_H

#include <stddef.h>

/* Reports the error for the owner of the log: errno or 0, and the text. NULL: standard error is
 * used. Must not allocate. */
extern void (*fatal_report)(int error, const char *text);

/* Logs that an allocation of this size failed, and ends the process with status 1: the master
 * starts another worker. */
_Noreturn void fatal_no_memory(size_t size);

/* Logs that an object is not of the expected type, and aborts; for CHECK_MAGIC. */
_Noreturn void fatal_wrong_object(const char *file, int line, const char *magic);

/*
 * Checks a struct where it enters a package, in release builds as well: if the object's member
 * `magic` is not the number, say CONN_MAGIC, the process ends with a line that has the source line
 * and the number. That is better than a wild pointer.
 */
#define CHECK_MAGIC(object, number)                                                                \
    do {                                                                                           \
        if (__builtin_expect((object)->magic != (number), 0)) {                                    \
            fatal_wrong_object(__FILE__, __LINE__, #number);                                       \
        }                                                                                          \
    } while (0)

#endif
