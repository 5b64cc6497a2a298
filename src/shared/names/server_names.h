/* Names of servers: "a.b", "*.a.b", "a.b.*", ".a.b" (itself and below), "~regex"; and the search
 * for the one of a host. */
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
    struct regex *regex;           /* of NAME_REGEX */
    void *owner;                   /* the server that is called so */
    const struct conf_node *block; /* its block, for hints; or NULL */
    enum server_name_kind kind;    /* how it is compared */
};

/* The names of all servers of an address. All zero is empty. */
struct server_names {
    struct map exact;          /* name -> struct server_name * */
    struct map heads;          /* "example.com" of "*.example.com" */
    struct map tails;          /* "www" of "www.*" */
    struct regex_set *regexes; /* or NULL */
    struct vec by_regex;       /* struct server_name *: by number of regexes */
};

/*
 * Adds what a `server_name` says to a list of struct server_name; owner has the members that are
 * those of the server. hostname: what "$hostname" means. False after conf_error.
 */
bool server_names_read(struct conf *conf, struct conf_node *node, struct str hostname,
                       const struct server_name *owner, struct vec *names);

/*
 * Adds the names of one server to those of an address. A name that is there already is logged and
 * ignored. is_alone: the address has no other server; then nothing is logged. False after
 * conf_error.
 */
bool server_names_add(struct server_names *names, struct conf *conf, const struct vec *added,
                      struct str address, bool is_alone);
/* When all are added. */
void server_names_finish(struct server_names *names, struct conf *conf);

/*
 * The name that a host falls under: the exact one, the longest wildcard, the first expression; or
 * NULL. host is in lower case, without port and trailing dot. Groups of an expression are left in
 * env, which may be NULL where there is none.
 */
const struct server_name *server_names_find(const struct server_names *names, struct str host,
                                            struct variable_env *env);

#endif
