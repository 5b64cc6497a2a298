/* The $upstream_ variables. */
#ifndef HTTP_EXCHANGE_MODULE_VARIABLES_H
#define HTTP_EXCHANGE_MODULE_VARIABLES_H

#include "conf/template.h"
#include "http/exchange/exchange.h"
#include "upstream/peer.h"

/* Ended by an empty name. */
extern const struct variable exchange_variables[];

#endif
