/* ngx_http_zstd_static_module: files that were compressed before, FILE.zst beside FILE. */
#include "http/codings/static_module.h"

CODED_FILES_MODULE(
    zstd_static, coding_zstd,
    "Sends FILE.zst in place of FILE to clients that take zstd; with always, to all.");
