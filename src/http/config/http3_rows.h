/* Rows of the directives of HTTP/3. */
#ifndef HTTP_CONFIG_HTTP3_ROWS_H
#define HTTP_CONFIG_HTTP3_ROWS_H

#include "conf/directive.h"

extern const struct directive_table http3_table;

#endif
