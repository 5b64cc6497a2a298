/* ngx.socket.udp. */
#include "lua/sockets/socket.h"

void script_udp_add(lua_State *L) { (void) L; }
