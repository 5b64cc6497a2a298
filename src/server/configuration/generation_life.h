/* The life of a generation: read, check, open, free. Private to this package. Implemented in
 * error_log.c, generation.c, generation_files.c and zones.c. */
#ifndef SERVER_CONFIGURATION_GENERATION_LIFE_H
#define SERVER_CONFIGURATION_GENERATION_LIFE_H

#include <stdbool.h>

#include "server/generation.h"

/*
 * Reads the configuration and applies it; messages go to the main log. `old` is the running
 * generation or NULL: zones with the same name and size are taken over from it. is_test: for -t and
 * -s. NULL when there were errors. May wait (disk, host names). To be freed by generation_free.
 */
struct generation *generation_read(struct generation *old, bool is_test, bool is_verbose);

/*
 * The same from a record of config_history in a directory, whose files replace those on the disk;
 * sets its `kept`. Files that the configuration only names (certificates, passwords, scripts) are
 * read from the disk.
 */
struct generation *generation_read_kept(struct generation *old, struct str directory,
                                        unsigned number, bool is_test, bool is_verbose);

/* Only the tree, without messages: for code that must work although the configuration is wrong. */
struct generation *generation_peek(void);
/* The same with these files in place of those on the disk. */
struct generation *generation_peek_kept(const struct conf_file *files);

/* Checks that need the whole configuration (after "syntax is ok"). False after a message. */
bool generation_check(struct generation *generation);

/*
 * Opens log files, directories, the pid file's path, and, unless it is a test, the listening
 * sockets. From here on the main log is the generation's own. False after messages: then everything
 * is as before, except for log files and directories that were created.
 */
bool generation_open(struct generation *generation, bool is_first_start);

/* Frees it; the main log must belong to another generation. */
void generation_free(struct generation *generation);

/* Reopens all its log files. In the master (uid is not -1) they are given to the workers' user. */
void generation_reopen_logs(struct generation *generation, uid_t uid);

/* Opens the log files; false after a message. */
bool generation_open_logs(struct generation *generation);
/* Creates the wanted directories; false after a message. */
bool generation_make_paths(struct generation *generation);

/* Does a chain of error_log have a target that keeps its lines: a file, standard error, a
 * program? */
bool error_log_is_kept(const struct log_sink *chain);

/* Do all zones have memory? False after a message. */
bool generation_check_zones(struct generation *generation);
/* Frees the memory that no other generation uses. */
void generation_free_zones(struct generation *generation);
/* Where generation_zone looks for memory to take over; NULL outside of a reload. */
void generation_inherit_zones(struct generation *old);

#endif
