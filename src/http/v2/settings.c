/* Settings of HTTP/2, where the connections find them. */
#include "http/v2/v2.h"

struct settings_key v2_server_key;
struct settings_key v2_location_key;

bool v2_is_on(const struct http_server *server)
{
    const struct v2_settings *settings = server_settings(server, &v2_server_key);

    return settings != NULL && settings->is_on;
}
