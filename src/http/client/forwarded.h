/* For whom trusted proxies speak, by the fields X-Forwarded-For of a request. Implemented in
 * connection.c. */
#ifndef HTTP_CLIENT_FORWARDED_H
#define HTTP_CLIENT_FORWARDED_H

#include "http/message/fields.h"
#include "shared/access/forwarded.h"

/* All fields X-Forwarded-For of a request, the last one first. */
void forwarded_follow_all(const struct forwarded *forwarded, const struct fields *fields,
                          struct addr *client);

#endif
