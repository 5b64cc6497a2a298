/* Temporary files below the *_temp_path directories. */
#ifndef HTTP_REQUEST_TEMP_FILE_H
#define HTTP_REQUEST_TEMP_FILE_H

#include "http/request/request.h"

struct conf_node;
struct conf_scope;
struct wanted_path;

/* Reads "path [level1 [level2 [level3]]]" of a *_temp_path line. False after conf_error. */
bool temp_path_read(struct conf_scope *scope, struct conf_node *node, struct wanted_path **out);

/*
 * Makes a file of a new name there, mode 0600, open for reading and writing; the caller owns the
 * descriptor and unlinks the file. *name is in the request's arena, NUL-terminated. -1: logged
 * (crit).
 */
int temp_file_open(struct request *request, const struct wanted_path *path, struct str *name);

#endif
