/* A module that reads the first bytes of a client and provides variables from them, with one flag
 * as its directive. */
#ifndef STREAM_SESSION_PREREAD_H
#define STREAM_SESSION_PREREAD_H

#include "server/module.h"
#include "stream/session/hooks.h"
#include "stream/session/session.h"

/*
 * Defines the module SYMBOL with the directive DIRECTIVE: where that is on, LOOK runs in the
 * preread phase, and again when more input has arrived. VARIABLES is a table that ends with an
 * empty name. The file has `static struct settings_key preread_key`.
 */
#define PREREAD_MODULE(SYMBOL, DIRECTIVE, LOOK, VARIABLES, DOC)                                    \
    struct preread_settings {                                                                      \
        bool is_on;                                                                                \
    };                                                                                             \
                                                                                                   \
    static const struct directive preread_rows[] = {                                               \
        {DIRECTIVE, IN_STREAM | IN_STREAM_SERVER, FLAG(struct preread_settings, is_on),            \
         .initial = "off", .doc = DOC},                                                            \
        {0},                                                                                       \
    };                                                                                             \
                                                                                                   \
    static const struct session_hook preread_hooks[] = {                                           \
        {.phase = STREAM_PREREAD,                                                                  \
         .run = LOOK,                                                                              \
         .when = SETTING(preread_key, struct preread_settings, is_on)},                            \
        {.run = NULL},                                                                             \
    };                                                                                             \
    static const struct stream_module preread_module = {.variables = VARIABLES,                    \
                                                        .hooks = preread_hooks};                   \
                                                                                                   \
    const struct module SYMBOL = {                                                                 \
        .magic = MODULE_MAGIC,                                                                     \
        .name = #SYMBOL,                                                                           \
        .kind = MODULE_STREAM,                                                                     \
        .table = {.key = &preread_key,                                                             \
                  .rows = preread_rows,                                                            \
                  .contexts = IN_STREAM | IN_STREAM_SERVER,                                        \
                  .size = sizeof(struct preread_settings)},                                        \
        .hooks = &preread_module,                                                                  \
    }

#endif
