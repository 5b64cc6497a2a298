/* Permissions of files that the server creates. Implemented in path.c. */
#ifndef HTTP_FILES_ACCESS_MODE_H
#define HTTP_FILES_ACCESS_MODE_H

#include "conf/directive.h"

/* Parses the arguments "user:rw group:r all:r" to a file mode; the owner always has read and write
 * permission. False after conf_error. */
bool access_mode_read(struct conf_scope *scope, const struct conf_node *node, unsigned *out);

/* The mode of directories for such files: users with read permission get search permission as
 * well. */
static inline unsigned access_mode_of_directory(unsigned mode)
{
    return (mode & 0444) >> 2 | (mode & 0777) | 0700;
}

#endif
