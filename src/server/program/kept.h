/* The records of config_history on the command line. Private to src/server/program. */
#ifndef SERVER_PROGRAM_KEPT_H
#define SERVER_PROGRAM_KEPT_H

#include <stdbool.h>

#include "server/generation.h"

/* The directive `name` of the main level in the file on the disk, even if the file has errors
 * elsewhere; or NULL. */
const struct conf_node *kept_row(const struct generation *peeked, const char *name);

/* --history: prints the list; gives the exit status. */
int kept_list(void);

/* --history=N: the same as generation_read for a test, from the record. NULL after a message. */
struct generation *kept_read(unsigned number, bool is_verbose);

/* --diff: prints what a reload from the disk would change. False after a message. */
bool kept_diff(const struct generation *generation);

#endif
