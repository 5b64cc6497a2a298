/* Files that were encoded before, sent in place of those that a request asks for. */
#ifndef HTTP_CODINGS_CODED_FILE_H
#define HTTP_CODINGS_CODED_FILE_H

#include "base/str.h"
#include "conf/directive.h"
#include "http/message/handler_result.h"

struct request;

/* Of gzip_static, brotli_static and zstd_static: to whom they are sent. */
enum coded_files { CODED_FILES_OFF, CODED_FILES_ON, CODED_FILES_ALWAYS };
extern const struct directive_word coded_file_words[];

struct coded_file_settings {
    unsigned mode; /* enum coded_files */
};

/*
 * Answers with the file that was encoded before, path and suffix, in the coding that the client
 * likes best. HANDLER_NEXT: there is none for it. path is NUL-terminated. MAY WAIT.
 */
enum handler_result response_coded_file(struct request *request, struct str path);

#endif
