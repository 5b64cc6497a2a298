/* ngx_http_gzip_static_module: files that were compressed before, FILE.gz beside FILE. */
#include "http/codings/static_module.h"

CODED_FILES_MODULE(
    gzip_static, coding_gzip,
    "Sends FILE.gz in place of FILE to clients that take gzip; with always, to all.");
