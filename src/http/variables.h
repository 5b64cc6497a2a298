/* Variables of ngx_http_core_module, and what modules share with them. */
#ifndef HTTP_VARIABLES_H
#define HTTP_VARIABLES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "conf/template.h"
#include "http/request.h"

/* Every variable of the core, ended by an empty name. */
extern const struct variable core_variables[];

/* Adds names of Tengine that the configuration did not take for itself; when all of it was read. */
bool variables_add_optional(struct conf *conf, struct http_main *main);

/* The request that an environment is part of. */
static inline struct request *variable_request(struct variable_env *env)
{
    return container_of(env, struct request, env);
}

/* Is the client's connection encrypted? */
static inline bool request_is_encrypted(const struct request *request)
{
    return request->conn->transport != NULL;
}

/* The code for logs and $status: what was decided last, 0 while nothing is. */
static inline unsigned request_status(const struct request *request)
{
    return request->response.error_status != 0 ? request->response.error_status
                                               : request->response.status;
}

/* Bytes of this response that the client's socket took; the second without the head. */
uint64_t request_bytes_sent(const struct request *request);
uint64_t request_body_bytes_sent(const struct request *request);

/* User of Basic credentials (RFC 7617); false = none, or not decodable. */
bool request_remote_user(struct request *request, struct str *out);

/* For the getters: a number, or "seconds.milliseconds", in memory of the request. */
bool variable_give_number(struct variable_env *env, struct str *out, uint64_t number);
/* How long the request has taken so far: by the loop's clock, or by the system's with request_time_cache off. */
uint64_t request_age_ms(const struct request *request);

/* Milliseconds of the monotonic clock as a point in time, in seconds since the epoch with three digits, as $msec. */
bool variable_give_moment(struct variable_env *env, struct str *out, uint64_t ms);
bool variable_give_seconds(struct variable_env *env, struct str *out, uint64_t ms);

/* A value that is there. */
static inline bool variable_give(struct str *out, struct str value)
{
    *out = value;
    return true;
}

#endif
