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
    static const struct directive_table table = {.key = &key,                                      \
                                                 .rows = rows,                                     \
                                                 .contexts = IN_HTTP_LOCATION_SETTINGS,            \
                                                 .size = sizeof(struct coded_file_settings),       \
                                                 .module_name = "ngx_http_" #NAME "_module"};      \
    static const struct directive_table *const tables[] = {&table, NULL};                          \
                                                                                                   \
    static unsigned mode_at(const struct http_location *location)                                  \
    {                                                                                              \
        return ((const struct coded_file_settings *) location_settings(location, &key))->mode;     \
    }                                                                                              \
                                                                                                   \
    static bool is_on(const struct http_location *location)                                        \
    {                                                                                              \
        return mode_at(location) != CODED_FILES_OFF;                                               \
    }                                                                                              \
                                                                                                   \
    static bool is_forced(const struct http_location *location)                                    \
    {                                                                                              \
        return mode_at(location) == CODED_FILES_ALWAYS;                                            \
    }                                                                                              \
                                                                                                   \
    static const struct coding_hook files_hook = {.coding = &(CODING),                             \
                                                  .is_active = is_on,                              \
                                                  .is_forced = is_forced};                         \
    static const struct http_module hooks = {.coded_files = &files_hook};                          \
                                                                                                   \
    const struct module ngx_http_##NAME##_module = {                                               \
        .magic = MODULE_MAGIC,                                                                     \
        .name = "ngx_http_" #NAME "_module",                                                       \
        .kind = MODULE_HTTP,                                                                       \
        .tables = tables,                                                                          \
        .hooks = &hooks,                                                                           \
    }

#endif
