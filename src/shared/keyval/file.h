/* The file that keeps the pairs of a zone over restarts. */
#ifndef SHARED_KEYVAL_FILE_H
#define SHARED_KEYVAL_FILE_H

#include "conf/conf.h"
#include "shared/keyval/keyval.h"

/* What the file has goes to the store, which is empty; one that is not there is empty. False after conf_error. */
bool keyval_file_read(struct conf *conf, const struct conf_node *node, struct keyval_zone *zone);

/* Does the file lack a change, or was another one written last: has a reload renamed it? */
bool keyval_file_is_old(const struct keyval_zone *zone);

/* Writes it anew, if so, beside the former one, whose place it takes. False when it cannot be written, which the log says. Writes to the disk. */
bool keyval_file_write(struct keyval_zone *zone);

#endif
