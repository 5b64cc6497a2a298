/* From the URI of a request to a path. */
#ifndef HTTP_FILES_PATH_H
#define HTTP_FILES_PATH_H

#include "http/request/request.h"

/* The path of request->uri under root or alias (NUL-terminated). False: status set. root_length
 * gets the length of the root part. */
bool request_map_path(struct request *request, struct str *path, size_t *root_length);
/* Of an alias in force: the length of the URI's part that it replaces. False: it replaces the whole
 * (regex location). */
bool request_alias_prefix(const struct request *request, size_t *length);
/*
 * At this location, whose alias a regex chose, the URI is added to it: try_files has found a file
 * so. NULL: as nobody had said anything.
 */
void request_alias_add_uri(struct request *request, const struct http_location *location);
/* The name below the directory, which ends in a slash; NUL-terminated. */
struct str path_join(struct arena *arena, struct str directory, struct str name);
/* What a request comes to that no handler answers: 403 for a directory, else 404. */
enum handler_result request_unanswered(struct request *request);

#endif
