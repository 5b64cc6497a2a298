/* ngx_http_gzip_static_module, ngx_http_brotli_static_module, ngx_http_zstd_static_module: send
 * files that were compressed beforehand. */
#include "http/codings/choice.h"
#include "http/codings/coded_file.h"
#include "server/module.h"

/* Defines ngx_http_NAME_module with the directive NAME. Where the directive is on, FILE plus the
 * suffix of CODING (a struct content_coding) is sent instead of FILE. DOC is the description for
 * the manual. */
#define CODED_FILES_MODULE(NAME, CODING, DOC)                                                      \
    static struct settings_key NAME##_key;                                                         \
                                                                                                   \
    static const struct directive NAME##_rows[] = {                                                \
        {#NAME, IN_HTTP_ALL, ENUM(struct coded_file_settings, mode, coded_file_words),             \
         .initial = "off", .doc = DOC},                                                            \
        {0},                                                                                       \
    };                                                                                             \
                                                                                                   \
    static bool NAME##_is_forced(const struct http_location *location)                             \
    {                                                                                              \
        const struct coded_file_settings *settings = location_settings(location, &NAME##_key);     \
                                                                                                   \
        return settings->mode == CODED_FILES_ALWAYS;                                               \
    }                                                                                              \
                                                                                                   \
    static const struct coding_hook NAME##_files = {.coding = &(CODING),                           \
                                                    .when =                                        \
                                                        SETTING(NAME##_key,                        \
                                                                struct coded_file_settings, mode), \
                                                    .is_forced = NAME##_is_forced};                \
    static const struct http_module NAME##_hooks = {.coded_files = &NAME##_files};                 \
                                                                                                   \
    const struct module ngx_http_##NAME##_module = {                                               \
        .magic = MODULE_MAGIC,                                                                     \
        .name = "ngx_http_" #NAME "_module",                                                       \
        .kind = MODULE_HTTP,                                                                       \
        .table = {.key = &NAME##_key,                                                              \
                  .rows = NAME##_rows,                                                             \
                  .contexts = IN_HTTP_LOCATION_SETTINGS,                                           \
                  .size = sizeof(struct coded_file_settings)},                                     \
        .hooks = &NAME##_hooks,                                                                    \
    }

CODED_FILES_MODULE(gzip_static, coding_gzip,
                   "Whether FILE.gz is sent instead of FILE to clients that accept gzip; with "
                   "`always`, to all clients.");

CODED_FILES_MODULE(brotli_static, coding_brotli,
                   "Whether FILE.br is sent instead of FILE to clients that accept brotli; with "
                   "`always`, to all clients.");

CODED_FILES_MODULE(zstd_static, coding_zstd,
                   "Whether FILE.zst is sent instead of FILE to clients that accept zstd; with "
                   "`always`, to all clients.");
