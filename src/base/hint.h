/* Words of help after a message of the start: on a terminal, or where -t was said twice. */
#ifndef BASE_HINT_H
#define BASE_HINT_H

#include <stdbool.h>

/* Whether they are shown; false at first. The log itself never has them: its lines are for tools.
 */
extern bool hints_are_shown;

/* One line on standard error, indented, while the program starts. */
void hint_say(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

/* After a failed open() or mkdir() of the path: for EACCES who may not do what in which folder, for
 * ENOENT which folder is missing. errno stays. */
void hint_path(const char *path, int error) __attribute__((cold));

#endif
