/* Shared by the files of the API: requests, responses, and the collections that it shows.
 * Implemented in reply.c, keyvals.c, module.c, servers.c, figures.c, groups.c. */
#ifndef HTTP_MODULES_STATUS_API_API_H
#define HTTP_MODULES_STATUS_API_API_H

#include "base/json.h"
#include "http/request/request.h"
#include "http/routing/hooks.h"

enum { API_VERSIONS = 9 }; /* highest version in paths */

/* The segments of a path after the location's own part. */
struct api_path {
    struct str version, root, what, name, more, id;
    unsigned number; /* of the version; 0: invalid */
    bool has_more;   /* there are segments after the id */
};

/* The version of the request, since earlier ones have fewer members; API_VERSIONS if the path has
 * none. */
unsigned api_version(const struct request *request);

/* A name that exists since a version; lists end with a NULL name. */
struct api_since {
    const char *name;
    unsigned version;
};

/* ---- responses (reply.c) ---- */

/* Responds with this JSON; frees the buffer. */
enum handler_result api_answer_text(struct request *request, unsigned status, struct buf *text);
enum handler_result api_answer_nothing(struct request *request, unsigned status);
/* Responds with an error: its code, and a text for humans. */
enum handler_result api_refuse(struct request *request, unsigned status, const char *code,
                               const char *text);
enum handler_result api_refuse_path(struct request *request);
/* Responds to a method that is not allowed here. */
enum handler_result api_refuse_method(struct request *request);
bool api_is_read(const struct request *request);

/* Reads the body, of at most this many bytes. HANDLER_NEXT: it is in *out; else a response was
 * made. MAY WAIT. */
enum handler_result api_read_body(struct request *request, size_t most, struct str *out);

/* ---- collections (figures.c, groups.c) ---- */

/* An item of a collection. */
struct api_thing {
    struct str name;
    const void *thing; /* the object, in terms of the collection */
    uint64_t number;   /* in collections with numbers */
};

/* A collection: "/http/server_zones". */
struct api_collection {
    const char *root, *name; /* root "": name is the first segment of the path */
    const char *code, *text; /* for the error if an item does not exist */
    /* Appends struct api_thing, in the request's arena. */
    void (*list)(struct request *request, const struct api_collection *collection,
                 struct vec *things);
    /* Used instead of `list` if names are secret and must not be listed. False: the item does not
     * exist. */
    bool (*find)(struct request *request, struct str name, struct api_thing *thing);
    /* Writes the members of an item's object. */
    void (*put)(struct request *request, struct json *json, const struct api_thing *thing);
    /* Resets the counters; NULL: there are none. */
    void (*reset)(struct request *request, const struct api_thing *thing);
    const struct api_since
        *newer;       /* members, at any depth, that earlier versions do not have; or NULL */
    bool is_single;   /* there is only one item, without a name */
    bool is_array;    /* all items are an array without their names */
    bool resets_all;  /* DELETE without a name resets all items */
    const void *kind; /* for use by the collection */
};

extern const struct api_collection api_figures[], api_groups[]; /* the last one has root NULL */

/* GET, HEAD or DELETE of a collection or an item. */
enum handler_result api_answer_collection(struct request *request,
                                          const struct api_collection *collection, struct str name);

/* Called when the configuration is read: allocates memory for the values of counters at their
 * reset. False after conf_error. */
bool api_figures_prepare(struct conf *conf, struct conf_node *node);

/* ---- keys and values (keyvals.c), servers of groups (servers.c) ---- */

enum handler_result api_answer_keyvals(struct request *request, const struct api_path *path);
/* Handles "/http/upstreams/NAME/servers[/ID]". MAY WAIT. */
enum handler_result api_answer_servers(struct request *request, const struct api_path *path);

struct upstream_group;
struct upstream_server;
struct peer;
/* The id of a peer: that of its server, unless the server's name has several addresses. */
uint64_t api_peer_id(const struct peer *peer);
/* Finds the group with this name in "http" or "stream"; NULL: there is none. */
struct upstream_group *api_find_group(struct str root, struct str name);
/* Does the group have a `zone` or a `status_zone`? */
bool api_shows_group(const struct upstream_group *group);

#endif
