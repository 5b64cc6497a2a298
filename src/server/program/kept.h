/* Configurations of config_history on the command line. Private to src/server/program. */
#ifndef SERVER_PROGRAM_KEPT_H
#define SERVER_PROGRAM_KEPT_H

#include <stdbool.h>

#include "server/generation.h"

/* A path of the main level as the file on the disk has it, also where the file has errors: the
 * words after `name`, or NULL. */
const struct conf_node *kept_row(const struct generation *peeked, const char *name);

/* --history: the list; exit status. */
int kept_list(void);

/* --history=N: as generation_read for a test, from the record. NULL after a message. */
struct generation *kept_read(unsigned number, bool is_verbose);

/* --diff: what a reload to the files of the disk would change, on standard output. False after a
 * message. */
bool kept_diff(const struct generation *generation);

#endif
