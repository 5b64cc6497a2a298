/* What the files of the API share: a call, answers, and the kinds of things that it shows.
 * Implemented in reply.c, keyvals.c, module.c, servers.c, figures.c, groups.c. */
#ifndef HTTP_MODULES_STATUS_API_API_H
#define HTTP_MODULES_STATUS_API_API_H

#include "base/json.h"
#include "http/request/request.h"
#include "http/routing/hooks.h"

enum { API_VERSIONS = 9 }; /* that clients may name */

/* The words of a path after the location's own part. */
struct api_path {
    struct str version, root, what, name, more, id;
    unsigned number; /* of the version; 0: it is none */
    bool has_more;   /* after the id */
};

/* The version that the request is for: earlier ones show what they had. API_VERSIONS where it names
 * none. */
unsigned api_version(const struct request *request);

/* What there is since a version; a list ends with a NULL name. */
struct api_since {
    const char *name;
    unsigned version;
};

/* ---- answers (reply.c) ---- */

/* JSON that was written; the buffer is freed. */
enum handler_result api_answer_text(struct request *request, unsigned status, struct buf *text);
enum handler_result api_answer_nothing(struct request *request, unsigned status);
/* An error, with the code and a text that people read. */
enum handler_result api_refuse(struct request *request, unsigned status, const char *code,
                               const char *text);
enum handler_result api_refuse_path(struct request *request);
/* A method that there is not here. */
enum handler_result api_refuse_method(struct request *request);
bool api_is_read(const struct request *request);

/* The body, of at most so many bytes, as JSON. HANDLER_NEXT: it is in *out; else the answer is
 * given. MAY WAIT. */
enum handler_result api_read_body(struct request *request, size_t most, struct str *out);

/* ---- collections (figures.c, groups.c) ---- */

/* One of the things that are shown under a name. */
struct api_thing {
    struct str name;
    const void *thing; /* of the collection */
    uint64_t number;   /* of a collection that has numbers */
};

/* Things of one kind: "/http/server_zones". */
struct api_collection {
    const char *root, *name; /* root "": name is the first word of the path */
    const char *code, *text; /* of the error that says that there is no thing of a name */
    /* Appends struct api_thing, in the request's arena. */
    void (*list)(struct request *request, const struct api_collection *collection,
                 struct vec *things);
    /* In place of `list`, where names are secrets and are not listed: the thing of this name.
     * False: there is none. */
    bool (*find)(struct request *request, struct str name, struct api_thing *thing);
    /* Members of an object. */
    void (*put)(struct request *request, struct json *json, const struct api_thing *thing);
    /* Counters begin again; NULL: there are none. */
    void (*reset)(struct request *request, const struct api_thing *thing);
    const struct api_since *newer; /* members, at any depth, that earlier versions lack; or NULL */
    bool is_single;                /* the one thing there is, without a name */
    bool is_array;                 /* all of them are shown without their names */
    bool resets_all;               /* DELETE without a name resets all */
    const void *kind;              /* of the collection's own */
};

extern const struct api_collection api_figures[], api_groups[]; /* end with root NULL */

/* GET, HEAD or DELETE of a collection, or of a thing in it. */
enum handler_result api_answer_collection(struct request *request,
                                          const struct api_collection *collection, struct str name);

/* When the configuration is read: room for what counters were when they were reset. False after
 * conf_error. */
bool api_figures_prepare(struct conf *conf, struct conf_node *node);

/* ---- keys and values (keyvals.c), servers of groups (servers.c) ---- */

enum handler_result api_answer_keyvals(struct request *request, const struct api_path *path);
/* "/http/upstreams/NAME/servers[/ID]". MAY WAIT. */
enum handler_result api_answer_servers(struct request *request, const struct api_path *path);

struct upstream_group;
struct upstream_server;
struct peer;
/* The number of a peer: that of its server, unless it is one of several addresses of a name. */
uint64_t api_peer_id(const struct peer *peer);
/* The block that is shown under this name, in the subsystem of "http" or "stream"; NULL: there is
 * none. */
struct upstream_group *api_find_group(struct str root, struct str name);
/* Has it a `zone` or a `status_zone`? */
bool api_shows_group(const struct upstream_group *group);

#endif
