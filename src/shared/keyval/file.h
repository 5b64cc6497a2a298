/* The file that keeps the pairs of a zone over restarts. */
#ifndef SHARED_KEYVAL_FILE_H
#define SHARED_KEYVAL_FILE_H

#include "conf/conf.h"
#include "shared/keyval/keyval.h"

/* What the file has goes to the store, which is empty; one that is not there is empty. False after
 * conf_error. */
bool keyval_file_read(struct conf *conf, const struct conf_node *node, struct keyval_zone *zone);

/* Does the file lack a change, or was another one written last: has a reload renamed it? */
bool keyval_file_is_old(const struct keyval_zone *zone);

/*
 * Writes it, if so, beside the former one, whose place it takes. 0, or the errno of what failed.
 * Waits for the disk, and for other processes that write it: to be called on a thread, or where
 * nothing is served any more.
 */
int keyval_file_write(const struct keyval_zone *zone);

#endif
