/* Settings of ngx_http_core_module about the connection to the client in a location. A member
 * without a comment has the value of the directive with its name. */
#ifndef HTTP_ROUTING_CONNECTION_SETTINGS_H
#define HTTP_ROUTING_CONNECTION_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "conf/template.h"
#include "http/routing/min_rate.h"

enum lingering { LINGERING_OFF, LINGERING_ON, LINGERING_ALWAYS };
enum keepalive_disable {
    KEEPALIVE_DISABLE_NONE = 1,
    KEEPALIVE_DISABLE_MSIE6 = 2,
    KEEPALIVE_DISABLE_SAFARI = 4
};

struct connection_settings {
    bool tcp_nopush;
    bool tcp_nodelay;
    uint64_t send_timeout_ms;
    struct min_rate send_min_rate;
    uint64_t send_lowat;
    uint64_t keepalive_timeout_ms;
    uint64_t keepalive_header_s; /* for the Keep-Alive response field; 0 = not sent */
    uint64_t keepalive_min_timeout_ms;
    uint64_t keepalive_time_ms;
    int64_t keepalive_requests;
    unsigned keepalive_disable;
    unsigned lingering_close;
    uint64_t lingering_time_ms;
    uint64_t lingering_timeout_ms;
    bool reset_timedout_connection;
    struct template *limit_rate;
    struct template *limit_rate_after;
    bool limits_rate; /* limit_rate is not the constant 0 */
};

#endif
