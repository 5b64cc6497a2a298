/* TLS on sockets. */
#include "lua/sockets/socket.h"
const struct script_row socket_tls_rows[] = {{0}};
