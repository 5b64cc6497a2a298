/* Names of servers: "a.b", "*.a.b", "a.b.*", ".a.b" (the name itself and names below), "~regex";
 * and the lookup of a host. */
#ifndef SHARED_NAMES_SERVER_NAMES_H
#define SHARED_NAMES_SERVER_NAMES_H

#include "base/arena.h"
#include "base/map.h"
#include "conf/conf.h"
#include "conf/regex.h"
#include "conf/template.h"

enum server_name_kind { NAME_EXACT, NAME_HEAD, NAME_TAIL, NAME_BOTH, NAME_REGEX };

/* A name of a server. */
struct server_name {
    struct str name;               /* lower case, without the dots and the star of a wildcard */
    struct str written;            /* for messages */
    struct regex *regex;           /* for NAME_REGEX */
    void *owner;                   /* the server with this name */
    const struct conf_node *block; /* its block, for hints; or NULL */
    enum server_name_kind kind;    /* how it is compared */
};

/* The names of all servers of an address. All zero is empty. */
struct server_names {
    struct map exact;          /* name -> struct server_name * */
    struct map heads;          /* "example.com", for "*.example.com" */
    struct map tails;          /* "www", for "www.*" */
    struct regex_set *regexes; /* or NULL */
    struct vec by_regex;       /* struct server_name *: in the order of regexes */
};

/*
 * Adds the names of a `server_name` to a list of struct server_name, with the other members copied
 * from owner. hostname: the value of "$hostname". False after conf_error.
 */
bool server_names_read(struct conf *conf, struct conf_node *node, struct str hostname,
                       const struct server_name *owner, struct vec *names);

/*
 * Adds the names of one server to those of an address. A name that exists already is logged and
 * ignored. is_alone: the address has no other server; then nothing is logged. False after
 * conf_error.
 */
bool server_names_add(struct server_names *names, struct conf *conf, const struct vec *added,
                      struct str address, bool is_alone);
/* To be called after all names were added. */
void server_names_finish(struct server_names *names, struct conf *conf);

/*
 * The name that matches a host: the exact one, the longest wildcard, the first expression; or NULL.
 * host is in lower case, without port and trailing dot. Captures of an expression are set in env,
 * which may be NULL if there is no request.
 */
const struct server_name *server_names_find(const struct server_names *names, struct str host,
                                            struct variable_env *env);

#endif
