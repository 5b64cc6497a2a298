/* Results of getters: numbers, times and addresses as text; and the variables that any kind of
 * subject has. */
#ifndef SHARED_VARIABLES_GIVE_H
#define SHARED_VARIABLES_GIVE_H

#include "conf/template.h"
#include "net/addr/addr.h"
#include "net/conn/proxy_protocol.h"

/* Gives an existing value. */
static inline bool variable_give(struct str *out, struct str value)
{
    *out = value;
    return true;
}

/* For getters: a number, or "seconds.milliseconds", in the subject's memory. */
bool variable_give_number(struct variable_env *env, struct str *out, uint64_t number);
bool variable_give_seconds(struct variable_env *env, struct str *out, uint64_t ms);
/* Converts milliseconds of the monotonic clock to seconds since the epoch with three decimals, as
 * $msec. */
bool variable_give_moment(struct variable_env *env, struct str *out, uint64_t ms);

/* An address without its port; its port, empty if it has none; its bytes, false if it is not an IP
 * address. */
bool variable_give_address(struct variable_env *env, struct str *out, const struct addr *addr);
bool variable_give_port(struct variable_env *env, struct str *out, const struct addr *addr);
bool variable_give_binary_address(struct variable_env *env, struct str *out,
                                  const struct addr *addr);

/* From the header of the PROXY protocol, which may be NULL: $proxy_protocol_addr and similar
 * variables. */
bool variable_give_proxy_address(struct variable_env *env, struct str *out,
                                 const struct proxy_header *proxy, bool is_destination);
bool variable_give_proxy_port(struct variable_env *env, struct str *out,
                              const struct proxy_header *proxy, bool is_destination);

/* Getters for any subject: $msec, $time_local, $time_iso8601, $time_iso8601_ms, $pid,
 * $nginx_version. */
bool variable_get_msec(struct variable_env *env, const struct variable *variable, struct str *out);
bool variable_get_time_local(struct variable_env *env, const struct variable *variable,
                             struct str *out);
bool variable_get_time_iso8601(struct variable_env *env, const struct variable *variable,
                               struct str *out);
bool variable_get_time_iso8601_ms(struct variable_env *env, const struct variable *variable,
                                  struct str *out);
bool variable_get_pid(struct variable_env *env, const struct variable *variable, struct str *out);
bool variable_get_nginx_version(struct variable_env *env, const struct variable *variable,
                                struct str *out);

/* The machine's name in lower case; empty when it is not known. */
struct str variable_machine_name(struct arena *arena);

#endif
