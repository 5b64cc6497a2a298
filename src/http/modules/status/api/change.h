/* The body of POST and PATCH of a server: untrusted JSON. */
#ifndef HTTP_MODULES_STATUS_API_CHANGE_H
#define HTTP_MODULES_STATUS_API_CHANGE_H

#include "upstream/servers.h"

/* A requested change of a server. */
struct server_change {
    struct server_entry entry; /* the new values */
    bool has_server, has_service, has_route, has_weight, has_max_conns, has_max_fails,
        has_fail_timeout, has_slow_start, has_backup, has_down, has_drain;
};

/* An error of a request. */
struct refusal {
    unsigned status;
    const char *code, *text;
};

/* The members that a server may have. */
struct server_form {
    bool is_stream;
    bool has_drain;
};

/* Parses an object (RFC 8259). Its strings are slices of the body, or in the arena. NULL, or an
 * error. */
const struct refusal *server_change_read(struct str body, const struct server_form *form,
                                         struct arena *arena, struct server_change *change);
/* Copies the given values to the entry. */
void server_change_apply(const struct server_change *change, struct server_entry *entry);

#endif
