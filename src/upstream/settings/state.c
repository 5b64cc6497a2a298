/* `state`: the file that keeps the servers of a group over restarts; read here, written by
 * peers/servers_file.c. */
#include <errno.h>

#include "base/fs.h"
#include "base/parse.h"
#include "upstream/private.h"
#include "upstream/servers.h"
#include "upstream/settings/server.h"

enum { FILE_MOST = 16 << 20 /* bytes */ };

static bool read_servers(struct conf_scope *scope, const struct directive *row,
                         const struct conf_node *root, struct upstream_group *group)
{
    for (struct conf_node *node = root->children; node != NULL; node = node->next) {
        if (!str_is(node->args[0], "server") || node->is_block || node->count < 2) {
            return conf_error(scope->conf, node, "unexpected \"%.*s\" in a state file",
                              STR_ARG(node->args[0]));
        }
        if (!upstream_server_apply(scope, row, node, group)) {
            return false;
        }
    }
    return true;
}

/* Does the first line say how many servers follow? A file that somebody else wrote has no such
 * line. */
static bool is_whole(struct str text, size_t count)
{
    const struct str head = STR(SERVERS_FILE_HEAD);
    uint64_t announced;

    if (!str_starts(text, head)) {
        return true;
    }
    text = str_skip(text, head.len);
    return parse_uint(str_cut(&text, ';'), &announced) && announced == count;
}

static bool read_text(struct conf_scope *scope, const struct directive *row,
                      const struct conf_node *node, const struct conf_file *file,
                      struct upstream_group *group)
{
    struct conf *conf = scope->conf;
    struct conf_node *outer = conf->root;
    size_t before = group->servers.count;

    conf->root = NULL;
    bool is_read = conf_parse_text(conf, file);
    const struct conf_node *root = conf->root;
    conf->root = outer;
    if (!is_read || !read_servers(scope, row, root, group)) {
        return false;
    }
    return is_whole(file->text, group->servers.count - before) ||
           conf_error(conf, node, "the state file \"%s\" is cut: repair or remove it",
                      file->name.data);
}

bool upstream_state_apply(struct conf_scope *scope, const struct directive *row,
                          struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct upstream_group *group = settings;
    struct conf_file *file = arena_new(conf->arena, struct conf_file);

    group->state_file = file->name = conf_full_name(conf, node->args[1], false);
    servers_hand_over(conf, group->set, file->name);
    if (!fs_read_all(conf->arena, file->name.data, FILE_MOST, &file->text)) {
        return errno == ENOENT ||
               conf_errno(conf, node, errno, "cannot read the state file \"%s\"", file->name.data);
    }
    return read_text(scope, row, node, file, group);
}

bool upstream_state_check(struct conf *conf, const struct upstream_group *group)
{
    if (group->state_file.len == 0) {
        return true;
    }
    if (group->zone_size == 0) {
        return conf_error(conf, group->node, "\"state\" in upstream \"%.*s\" needs a \"zone\"",
                          STR_ARG(group->name));
    }
    vec_each(struct upstream_server *, server, &group->servers) {
        if (!str_equal((*server)->node->file->name, group->state_file)) {
            return conf_error(conf, (*server)->node,
                              "\"server\" and \"state\" exclude each other in upstream \"%.*s\"",
                              STR_ARG(group->name));
        }
    }
    return true;
}
