/* Settings of ngx_http_core_module about request bodies in a location. A member without a comment
 * has the value of the directive with its name. */
#ifndef HTTP_ROUTING_BODY_SETTINGS_H
#define HTTP_ROUTING_BODY_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "http/routing/min_rate.h"

struct wanted_path;

enum body_in_file { BODY_IN_FILE_OFF, BODY_IN_FILE_ON, BODY_IN_FILE_CLEAN };

struct body_settings {
    int64_t client_max_body_size;
    uint64_t client_body_buffer_size;
    uint64_t client_body_timeout_ms;
    uint64_t client_body_total_timeout_ms; /* 0 = unlimited */
    struct min_rate client_body_min_rate;
    unsigned client_body_in_file_only;
    bool client_body_in_single_buffer;
    struct wanted_path *client_body_temp_path;
};

#endif
