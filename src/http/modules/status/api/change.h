/* The body of POST and PATCH of a server: JSON that is not trusted. */
#ifndef HTTP_MODULES_STATUS_API_CHANGE_H
#define HTTP_MODULES_STATUS_API_CHANGE_H

#include "upstream/servers.h"

/* What a request wants of a server. */
struct server_change {
    struct server_entry entry; /* new values of what is given */
    bool has_server, has_service, has_route, has_weight, has_max_conns, has_max_fails,
        has_fail_timeout, has_slow_start, has_backup, has_down, has_drain;
};

/* What is wrong with a request. */
struct refusal {
    unsigned status;
    const char *code, *text;
};

/* Members that a server may have. */
struct server_form {
    bool is_stream;
    bool has_drain;
};

/* Reads an object (RFC 8259). Its texts are slices of the body, or in the arena. NULL, or what is
 * wrong. */
const struct refusal *server_change_read(struct str body, const struct server_form *form,
                                         struct arena *arena, struct server_change *change);
/* Gives the entry the values that the change has. */
void server_change_apply(const struct server_change *change, struct server_entry *entry);

#endif
