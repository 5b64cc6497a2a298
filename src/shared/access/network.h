/* Networks as a line of the configuration names them. */
#ifndef SHARED_ACCESS_NETWORK_H
#define SHARED_ACCESS_NETWORK_H

#include "conf/conf.h"
#include "net/addr/addr.h"

/* "10.0.0.0/8", "::/0", an address. Warns of bits beyond the mask. "all", "unix:" and brackets are none: false after conf_error. */
bool network_read(struct conf *conf, const struct conf_node *node, struct str text,
                  struct cidr *out);

#endif
