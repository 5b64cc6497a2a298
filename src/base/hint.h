/* Hints after an error message at the start: on a terminal, or with -t -t. */
#ifndef BASE_HINT_H
#define BASE_HINT_H

#include <stdbool.h>

/* Whether hints are printed; false at first. They never go to the log, whose lines are for
 * tools. */
extern bool hints_are_shown;

/* Prints one indented line on standard error, while the program starts. */
void hint_say(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

/* After a failed open() or mkdir() of the path: for EACCES and EPERM, which user may not do what in
 * which directory; for ENOENT, which directory is missing. errno is kept. */
void hint_path(const char *path, int error) __attribute__((cold));

#endif
