/* The file that keeps the pairs of a zone over restarts. */
#ifndef SHARED_KEYVAL_FILE_H
#define SHARED_KEYVAL_FILE_H

#include "conf/conf.h"
#include "shared/keyval/keyval.h"

/* Reads the file into the store, which is empty; a missing file is no error. False after
 * conf_error. */
bool keyval_file_read(struct conf *conf, const struct conf_node *node, struct keyval_zone *zone);

/* Does the file lack a change, or was another file written last, since a reload has renamed it? */
bool keyval_file_is_old(const struct keyval_zone *zone);

/*
 * If so, writes another file beside it and renames that. Gives 0 or an errno. Waits for the disk,
 * and for other processes that write it: call it on a thread, or when the worker serves no more.
 */
int keyval_file_write(const struct keyval_zone *zone);

#endif
