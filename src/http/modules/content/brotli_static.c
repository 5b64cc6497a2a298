/* ngx_http_brotli_static_module: files that were compressed before, FILE.br beside FILE. */
#include "http/codings/static_module.h"

CODED_FILES_MODULE(
    brotli_static, coding_brotli,
    "Sends FILE.br in place of FILE to clients that take brotli; with always, to all.");
