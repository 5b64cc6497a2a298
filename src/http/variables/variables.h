/* Variables of ngx_http_core_module, and functions for modules. Implemented in variables.c,
 * variables_connection.c, variables_request.c and variables_response.c. */
#ifndef HTTP_VARIABLES_VARIABLES_H
#define HTTP_VARIABLES_VARIABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "conf/template.h"
#include "http/client/forwarded.h"
#include "http/message/credentials.h"
#include "http/request/request.h"
#include "shared/variables/give.h"

/* All variables of the core, ended by an empty name. */
extern const struct variable core_variables[];

/* Tengine's variables that a configuration may define itself; ended likewise. */
extern const struct variable optional_variables[];
/* Adds those that the configuration has not defined; called after it was read. */
bool variables_add_optional(struct conf *conf, struct http_main *main);

/* Basic credentials of the client (RFC 7617), for CONNECT those for a proxy; false = none, or
 * malformed. */
bool request_credentials(struct request *request, struct credentials *out);
/* Requests credentials for a realm: 401, or 407 for CONNECT (RFC 9110, 11.7). */
enum handler_result request_demand_credentials(struct request *request, struct str realm);
/* Verifies credentials: HANDLER_ALLOW; HANDLER_NEXT: they are wrong, which was logged; or another
 * result of the phase. MAY WAIT. */
typedef enum handler_result credentials_check(struct request *request,
                                              const struct credentials *given);
/* The access phase of a module for passwords: nothing if its realm is "off"; a client without
 * credentials, or with wrong ones, is asked for them. MAY WAIT. */
enum handler_result request_check_credentials(struct request *request, const struct template *realm,
                                              credentials_check *check);
/* Can the realm be anything but "off"? */
bool realm_may_be_on(const struct template *realm);
/* Their user name. */
bool request_remote_user(struct request *request, struct str *out);

/* The client's address, for variables that depend on it. Subjects that are not requests provide it
 * as text (a handshake, for example), or have no client: then *out is unchanged. The second
 * function: the address in fields of the request, if its sender is trusted. */
void variable_client(struct variable_env *env, struct addr *out);
void variable_follow_client(struct variable_env *env, const struct forwarded *forwarded,
                            struct addr *client);

/* That of the request's connection, or NULL. */
const struct proxy_header *variable_proxy_header(struct variable_env *env);

/* A field that is generated from members of the response, by its name after $sent_http_
 * ("content_type"). False: there is none. */
bool response_made_field(struct request *request, struct str name, struct str *out);

/* The value of the first cookie with this name, case-insensitive. */
bool request_cookie(const struct request *request, struct str name, struct str *out);
/* Cookies whose names have a prefix: struct request_cookie in the arena, in order. */
struct request_cookie {
    struct str name, value;
};
void request_cookies(const struct request *request, struct str prefix, struct arena *arena,
                     struct vec *out);

/* The value of the first argument with this name, case-insensitive, as received. */
bool request_argument(const struct request *request, struct str name, struct str *out);

/* The time since the request began: by the loop's clock, or by the system's with request_time_cache
 * off. */
uint64_t request_age_ms(const struct request *request);

#endif
