/* A module that sends files which were encoded before: its rows and hooks, for one coding. */
#ifndef HTTP_CODINGS_STATIC_MODULE_H
#define HTTP_CODINGS_STATIC_MODULE_H

#include "http/codings/choice.h"
#include "http/codings/coded_file.h"
#include "server/module.h"

/*
 * Defines ngx_http_NAME_module with the directive NAME: where it is on, FILE with the suffix of CODING (a struct
 * content_coding) is sent in place of FILE. DOC says so to users.
 */
#define CODED_FILES_MODULE(NAME, CODING, DOC)                                                      \
    static struct settings_key key;                                                                \
                                                                                                   \
    static const struct directive rows[] = {                                                       \
        {#NAME, IN_HTTP_ALL, ENUM(struct coded_file_settings, mode, coded_file_words),             \
         .initial = "off", .doc = DOC},                                                            \
        {0},                                                                                       \
    };                                                                                             \
                                                                                                   \
    static bool is_forced(const struct http_location *location)                                    \
    {                                                                                              \
        const struct coded_file_settings *settings = location_settings(location, &key);            \
                                                                                                   \
        return settings->mode == CODED_FILES_ALWAYS;                                               \
    }                                                                                              \
                                                                                                   \
    static const struct coding_hook files_hook = {.coding = &(CODING),                             \
                                                  .when = SETTING(key, struct coded_file_settings, \
                                                                  mode),                           \
                                                  .is_forced = is_forced};                         \
    static const struct http_module hooks = {.coded_files = &files_hook};                          \
                                                                                                   \
    const struct module ngx_http_##NAME##_module = {                                               \
        .magic = MODULE_MAGIC,                                                                     \
        .name = "ngx_http_" #NAME "_module",                                                       \
        .kind = MODULE_HTTP,                                                                       \
        .table = {.key = &key,                                                                     \
                  .rows = rows,                                                                    \
                  .contexts = IN_HTTP_LOCATION_SETTINGS,                                           \
                  .size = sizeof(struct coded_file_settings)},                                     \
        .hooks = &hooks,                                                                           \
    }

#endif
