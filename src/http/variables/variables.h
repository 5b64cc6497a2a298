/* Variables of ngx_http_core_module, and what modules share with them.
 * Implemented in variables.c, variables_connection.c, variables_request.c and variables_response.c.
 */
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

/* Every variable of the core, ended by an empty name. */
extern const struct variable core_variables[];

/* Names of Tengine that the configuration may take for itself; ended in the same way. */
extern const struct variable optional_variables[];
/* Adds those of them that the configuration did not take; when all of it was read. */
bool variables_add_optional(struct conf *conf, struct http_main *main);

/* Basic credentials of the client (RFC 7617), for a tunnel those for its proxy; false = none, or
 * not decodable. */
bool request_credentials(struct request *request, struct credentials *out);
/* Asks for them, for a realm: 401, or 407 of a tunnel, whose client they let through a proxy (RFC
 * 9110, 11.7). */
enum handler_result request_demand_credentials(struct request *request, struct str realm);
/* How a module of passwords judges them: HANDLER_ALLOW; HANDLER_NEXT: they are wrong, as the log
 * says; or what else it returns. MAY WAIT. */
typedef enum handler_result credentials_check(struct request *request,
                                              const struct credentials *given);
/*
 * What such a module does in the access phase: nothing where its realm is "off"; else who gives no
 * credentials, or wrong ones, is asked for them. MAY WAIT.
 */
enum handler_result request_check_credentials(struct request *request, const struct template *realm,
                                              credentials_check *check);
/* Can a realm be anything but "off"? */
bool realm_may_be_on(const struct template *realm);
/* Their user. */
bool request_remote_user(struct request *request, struct str *out);

/*
 * The client's address, for variables by address. Subjects that are no request say it in text, as
 * one in its handshake does, or have no client: *out stays as it is then. The second: whom it
 * speaks for, by the fields of a request, where it is trusted.
 */
void variable_client(struct variable_env *env, struct addr *out);
void variable_follow_client(struct variable_env *env, const struct forwarded *forwarded,
                            struct addr *client);

/* Of the request's connection, or NULL. */
const struct proxy_header *variable_proxy_header(struct variable_env *env);

/* A field that the wire makes of the response's members, by its name after $sent_http_
 * ("content_type"). False: there is none. */
bool response_made_field(struct request *request, struct str name, struct str *out);

/* The value of the first cookie of this name, in any case. */
bool request_cookie(const struct request *request, struct str name, struct str *out);
/* Those whose names begin so: struct request_cookie in the arena, in their order. */
struct request_cookie {
    struct str name, value;
};
void request_cookies(const struct request *request, struct str prefix, struct arena *arena,
                     struct vec *out);

/* The value of the first argument of this name, in any case, as received. */
bool request_argument(const struct request *request, struct str name, struct str *out);

/* How long the request has taken so far: by the loop's clock, or by the system's with
 * request_time_cache off. */
uint64_t request_age_ms(const struct request *request);

#endif
