/* Settings of HTTP/3, where connections find them. */
#include "http/v3/v3.h"

struct settings_key v3_server_key;

bool v3_is_on(const struct http_server *server)
{
    const struct v3_settings *settings = v3_settings_of(server);

    return settings != NULL && settings->http3;
}
