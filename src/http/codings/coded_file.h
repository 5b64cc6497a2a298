/* Precompressed files that are sent instead of the requested ones. */
#ifndef HTTP_CODINGS_CODED_FILE_H
#define HTTP_CODINGS_CODED_FILE_H

#include "base/str.h"
#include "conf/directive.h"
#include "http/message/handler_result.h"

struct request;

/* gzip_static, brotli_static and zstd_static: which clients get them. */
enum coded_files { CODED_FILES_OFF, CODED_FILES_ON, CODED_FILES_ALWAYS };
extern const struct directive_word coded_file_words[];

struct coded_file_settings {
    unsigned mode; /* an enum coded_files */
};

/* Responds with the precompressed file, path and suffix, in the coding that the client prefers.
 * HANDLER_NEXT: there is none. path is NUL-terminated. MAY WAIT. */
enum handler_result response_coded_file(struct request *request, struct str path);

#endif
