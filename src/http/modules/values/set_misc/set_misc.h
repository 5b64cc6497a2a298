/* Shared by the files of ngx_http_set_misc_module. Implemented in functions.c. */
#ifndef HTTP_MODULES_VALUES_SET_MISC_SET_MISC_H
#define HTTP_MODULES_VALUES_SET_MISC_SET_MISC_H

#include "http/routing/hooks.h"

struct set_misc_settings {
    bool has_padding;    /* of base32 */
    struct str alphabet; /* of base32 */
};

extern struct settings_key set_misc_key;

/* By the name of the directive. */
extern const struct value_function set_misc_functions[];

/* Parses two non-negative numbers, the smaller one first. False: invalid, which was logged. */
bool set_misc_range(struct request *request, const char *name, const struct str texts[2],
                    uint64_t out[2]);

#endif
