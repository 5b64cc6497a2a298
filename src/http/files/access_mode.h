/* Permissions of files that are made, as configurations write them. Implemented in path.c. */
#ifndef HTTP_FILES_ACCESS_MODE_H
#define HTTP_FILES_ACCESS_MODE_H

#include "conf/directive.h"

/* Reads "user:rw group:r all:r" of a line to a file mode; who made a file may always read and write
 * it. False after conf_error. */
bool access_mode_read(struct conf_scope *scope, const struct conf_node *node, unsigned *out);

/* The same for the directories above such files: users who may read may enter, too. */
static inline unsigned access_mode_of_directory(unsigned mode)
{
    return (mode & 0444) >> 2 | (mode & 0777) | 0700;
}

#endif
