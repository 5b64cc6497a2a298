/* Maps the URI to a path: root and alias, with variables, in regex locations, inherited by nested
 * ones. */
#include "http/files/access_mode.h"
#include "http/files/path.h"
#include "http/message/uri.h"
#include "http/request/request.h"
#include "http/routing/file_settings.h"

/* The location whose block has the alias that is effective in this location. */
static const struct http_location *alias_owner(const struct http_location *location)
{
    while (location->parent != NULL && location->parent->files->is_alias &&
           location->parent->files->root == location->files->root) {
        location = location->parent;
    }
    return location;
}

bool request_alias_prefix(const struct request *request, size_t *length)
{
    const struct http_location *owner = alias_owner(request->location);

    *length = owner->name.len;
    return owner->kind != LOCATION_REGEX;
}

/* its address is the key of request data */
static const char alias_key;

/* State of request_alias_add_uri. */
struct alias_state {
    const struct http_location *with_uri;
};

void request_alias_add_uri(struct request *request, const struct http_location *location)
{
    struct alias_state *state =
        request_data(request, &alias_key, location != NULL ? sizeof(*state) : 0);

    if (state != NULL) {
        state->with_uri = location;
    }
}

/* The part of the URI that is appended to the alias: what follows the location's prefix; nothing in
 * a regex location. */
static bool cut_alias(struct request *request, struct str *rest)
{
    const struct http_location *owner = alias_owner(request->location);

    if (owner->kind == LOCATION_REGEX) {
        const struct alias_state *state = request_data(request, &alias_key, 0);
        if (state == NULL || state->with_uri != request->location) {
            rest->len = 0;
        }
        return true;
    }
    if (!str_starts(*rest, owner->name)) {
        log_alert(&request->log, 0,
                  "\"alias\" cannot be used in location \"%.*s\" where URI was rewritten",
                  STR_ARG(owner->name));
        request->response.status = 500;
        return false;
    }
    *rest = str_skip(*rest, owner->name.len);
    if (uri_climbs(*rest)) {
        log_error(&request->log, 0, "\"%.*s\" leads out of the alias of location \"%.*s\"",
                  STR_ARG(request->uri), STR_ARG(owner->name));
        request->response.status = 404;
        return false;
    }
    return true;
}

bool request_map_path(struct request *request, struct str *path, size_t *root_length)
{
    const struct http_location *location = request->location;
    struct str root = template_text(location->files->root, &request->env);
    struct str rest = request->uri;

    if (location->files->is_alias) {
        if (!cut_alias(request, &rest)) {
            return false;
        }
    } else if (root.len == 1 && root.data[0] == '/' && location->files->root->is_constant) {
        root.len = 0; /* "root /": the URI has the slash */
    }
    char *text = arena_text(&request->arena, root.len + rest.len + 1);
    memcpy(text, root.data, root.len);
    if (rest.len != 0) {
        memcpy(text + root.len, rest.data, rest.len);
    }
    text[root.len + rest.len] = '\0';
    *path = (struct str){text, root.len + rest.len};
    *root_length = root.len;
    return true;
}

enum handler_result request_unanswered(struct request *request)
{
    struct str path;
    size_t root_length;

    if (request->uri.len == 0 || request->uri.data[request->uri.len - 1] != '/') {
        log_error(&request->log, 0, "no handler found");
        return request_fail(request, 404);
    }
    if (request_map_path(request, &path, &root_length)) {
        log_error(&request->log, 0, "directory index of \"%.*s\" is forbidden", STR_ARG(path));
    }
    return request_fail(request, 403);
}

struct str path_join(struct arena *arena, struct str directory, struct str name)
{
    char *text = arena_text(arena, directory.len + name.len + 1);

    memcpy(text, directory.data, directory.len);
    memcpy(text + directory.len, name.data, name.len);
    text[directory.len + name.len] = '\0';
    return (struct str){text, directory.len + name.len};
}

/* ---- permissions of new files ---- */

bool access_mode_read(struct conf_scope *scope, const struct conf_node *node, unsigned *out)
{
    static const struct {
        struct str users;
        unsigned shift;
    } groups[] = {{STR_INIT("user:"), 6}, {STR_INIT("group:"), 3}, {STR_INIT("all:"), 0}};
    unsigned access = 0600; /* the owner always has access */

    for (unsigned i = 1; i < node->count; i++) {
        struct str value = node->args[i];
        unsigned g = 0;

        while (g < 3 && !str_starts(value, groups[g].users)) {
            g++;
        }
        struct str rights = g < 3 ? str_skip(value, groups[g].users.len) : STR_NONE;
        if (str_is(rights, "rw")) {
            access |= 6u << groups[g].shift;
        } else if (str_is(rights, "r")) {
            access |= 4u << groups[g].shift;
        } else {
            return conf_error(scope->conf, node, "invalid value \"%.*s\"", STR_ARG(value));
        }
    }
    *out = access;
    return true;
}
