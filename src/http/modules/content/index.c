/* ngx_http_index_module: the index file of a directory. */
#include <errno.h>

#include "http/files/file.h"
#include "http/files/path.h"
#include "http/routing/file_settings.h"
#include "http/routing/hooks.h"
#include "http/request/request.h"
#include "server/module.h"

struct index_settings {
    struct vec names; /* struct template *; only the last one may begin with a slash */
};

static struct settings_key key;

static bool index_apply(struct conf_scope *scope, const struct directive *row,
                        struct conf_node *node, void *settings)
{
    struct index_settings *index = settings;
    struct conf *conf = scope->conf;

    if (!conf_is_set(scope, &key, "index")) {
        index->names = (struct vec){0};
    }
    for (unsigned i = 1; i < node->count; i++) {
        struct str name = node->args[i];

        if (name.len == 0) {
            return conf_error(conf, node, "index \"%.*s\" in \"index\" directive is invalid",
                              STR_ARG(name));
        }
        if (name.data[0] == '/' && i + 1 != node->count) {
            conf_warn(conf, node, "only the last index in \"index\" directive should be absolute");
        }
        struct template *template = template_compile(conf, node, name);
        if (template == NULL) {
            return false;
        }
        *vec_add(&index->names, conf->arena, struct template *) = template;
    }
    return true;
}

static const struct directive rows[] = {
    {"index", IN_HTTP_ALL, CUSTOM_FIELD(struct index_settings, names, index_apply),
     ARGS(1, ARGS_ANY), .repeat = REPEAT_APPEND, .initial = "index.html", .syntax = "file ...",
     .doc = "Files that are served for a directory: the first that exists is used. The "
            "last parameter may be a URI that begins with a slash."},
    {0},
};

/* Sets the status after an index file, or its directory, could not be examined. */
static enum handler_result index_fail(struct request *request, int error, struct str path)
{
    bool is_forbidden = error == EACCES || error == ELOOP;

    if (is_forbidden || request->location->files->log_not_found) {
        log_error(&request->log, error, "\"%.*s\" is %s", STR_ARG(path),
                  is_forbidden ? "forbidden" : "not found");
    }
    return request_fail(request, is_forbidden ? 403 : 404);
}

/* The first index file is missing: is its directory missing as well? HANDLER_NEXT: no, it
 * exists. */
static enum handler_result check_directory(struct request *request, struct str directory,
                                           struct str path)
{
    struct arena *arena = &request->arena;
    char *text =
        arena_cstr(arena, (struct str){directory.data, directory.len > 1 ? directory.len - 1 : 1});
    struct file *file = file_stat(request, str_of(text));
    int error = file->error;
    bool is_directory = file->is_directory;

    file_release(file);
    if (error == ENOENT) {
        return index_fail(request, ENOENT, path);
    }
    if (error != 0) {
        log_crit(&request->log, error, "stat() \"%s\" failed", text);
        return request_fail(request, 500);
    }
    if (!is_directory) {
        log_alert(&request->log, 0, "\"%s\" is not a directory", text);
        return request_fail(request, 500);
    }
    return HANDLER_NEXT;
}

static enum handler_result redirect(struct request *request, struct str name)
{
    return request_redirect(request, arena_concat(&request->arena, request->uri, name),
                            request->args);
}

static enum handler_result find_index(struct request *request)
{
    const struct index_settings *settings = location_settings(request->location, &key);
    struct str directory = STR_NONE;
    bool is_directory_known = false;
    size_t root_length;

    if ((request->method & (METHOD_GET | METHOD_HEAD | METHOD_POST)) == 0) {
        return HANDLER_NEXT;
    }
    vec_each(struct template *, item, &settings->names) {
        struct str name = template_text(*item, &request->env);

        if (name.len == 0) {
            return HANDLER_NEXT;
        }
        if (name.data[0] == '/') {
            return request_redirect(request, name, request->args);
        }
        if (directory.len == 0 && !request_map_path(request, &directory, &root_length)) {
            return HANDLER_FAIL;
        }
        struct str path = path_join(&request->arena, directory, name);
        struct file *file = file_stat(request, path);
        int error = file->error;
        file_release(file);
        if (error == 0) {
            return redirect(request, name);
        }
        if (error == ENOTDIR || error == ENAMETOOLONG || error == EACCES || error == ELOOP) {
            return index_fail(request, error, path);
        }
        if (error != ENOENT) {
            log_crit(&request->log, error, "stat() \"%.*s\" failed", STR_ARG(path));
            return request_fail(request, 500);
        }
        if (!is_directory_known) {
            enum handler_result result = check_directory(request, directory, path);
            if (result != HANDLER_NEXT) {
                return result;
            }
            is_directory_known = true;
        }
    }
    return HANDLER_NEXT;
}

static const struct phase_hook phases[] = {
    {PHASE_DIRECTORY, .name = "index", .run = find_index},
    {.run = NULL},
};
static const struct http_module hooks = {.phases = phases};

const struct module ngx_http_index_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_index_module",
    .kind = MODULE_HTTP,
    .table = {.key = &key,
              .rows = rows,
              .contexts = IN_HTTP_ALL,
              .size = sizeof(struct index_settings)},
    .hooks = &hooks,
};
