/* The keys of the settings of ngx_http_lua_module: of the main level, and of places. */
#include "http/modules/lua/lua.h"

struct settings_key lua_main_key;
struct settings_key lua_key;
