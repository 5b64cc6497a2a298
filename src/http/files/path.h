/* Maps the URI of a request to a path. */
#ifndef HTTP_FILES_PATH_H
#define HTTP_FILES_PATH_H

#include "http/routing/settings.h"

struct request;

/* The path of request->uri below root or alias (NUL-terminated). False: status set. *root_length:
 * the length of the root part. */
bool request_map_path(struct request *request, struct str *path, size_t *root_length);
/* The length of the URI's part that the effective alias replaces. False: it replaces the whole URI
 * (regex location). */
bool request_alias_prefix(const struct request *request, size_t *length);
/* In this regex location with an alias, appends the URI to the alias from now on, because try_files
 * has found a file so. NULL: undoes that. */
void request_alias_add_uri(struct request *request, const struct http_location *location);
/* The path of a name in a directory, which ends in a slash; NUL-terminated. */
struct str path_join(struct arena *arena, struct str directory, struct str name);
/* The result of a request without a content handler: 403 for a directory, else 404. */
enum handler_result request_unanswered(struct request *request);

#endif
