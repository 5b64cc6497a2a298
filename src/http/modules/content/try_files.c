/* ngx_http_try_files_module: the first of several files that exists, or a fallback. */
#include <errno.h>

#include "base/parse.h"
#include "http/files/file.h"
#include "http/files/path.h"
#include "http/routing/file_settings.h"
#include "http/routing/hooks.h"
#include "http/request/request.h"
#include "server/module.h"

/* A name to try. */
struct candidate {
    struct template *name;
    bool is_directory; /* it was written with a trailing slash, which is not part of the name */
};

struct try_list {
    struct vec candidates;     /* struct candidate */
    struct template *fallback; /* a URI or "@name"; NULL = status */
    unsigned status;
};

struct try_settings {
    struct try_list *list; /* NULL = no try_files at this level */
};

static bool parse_status(struct conf *conf, const struct conf_node *node, struct str word,
                         unsigned *out)
{
    uint64_t status;

    if (!parse_uint(str_skip(word, 1), &status) || status > 999) {
        return conf_error(conf, node, "invalid code \"%.*s\"", STR_ARG(word));
    }
    *out = (unsigned) status;
    return true;
}

static bool try_files_apply(struct conf_scope *scope, const struct directive *row,
                            struct conf_node *node, void *settings)
{
    struct conf *conf = scope->conf;
    struct try_list *list = arena_new(conf->arena, struct try_list);
    unsigned last = node->count - 1;

    for (unsigned i = 1; i < last; i++) {
        struct candidate *candidate = vec_add(&list->candidates, conf->arena, struct candidate);
        struct str name = node->args[i];

        if (name.len != 0 && name.data[name.len - 1] == '/') {
            candidate->is_directory = true;
            name.len--;
        }
        candidate->name = template_compile(conf, node, name);
        if (candidate->name == NULL) {
            return false;
        }
    }
    struct str word = node->args[last];
    if (word.len != 0 && word.data[0] == '=') {
        if (!parse_status(conf, node, word, &list->status)) {
            return false;
        }
    } else {
        list->fallback = template_compile(conf, node, word);
        if (list->fallback == NULL) {
            return false;
        }
    }
    ((struct try_settings *) settings)->list = list;
    return true;
}

static const struct directive rows[] = {
    {"try_files", IN_SERVER | IN_LOCATION, CUSTOM_FIELD(struct try_settings, list, try_files_apply),
     ARGS(2, ARGS_ANY), .inherit = INHERIT_NEVER, .syntax = "file ... uri | file ... =code",
     .doc = "Serves the first of the files that exists. If there is none, redirects "
            "internally to the last parameter, a URI, or responds with the status code."},
    {0},
};

static struct settings_key key;

static enum handler_result fall_back(struct request *request, const struct try_list *list)
{
    struct str uri;
    struct str args;

    if (list->fallback == NULL) {
        return request_fail(request, list->status);
    }
    struct str text = template_text(list->fallback, &request->env);
    if (text.len != 0 && text.data[0] == '@') {
        return request_redirect_named(request, text);
    }
    if (!request_split_uri(request, text, &uri, &args)) {
        return request_fail(request, 500);
    }
    return request_redirect(request, uri, args.data == NULL ? STR("") : args);
}

/* Does the file exist, and is it of the expected kind? */
static bool exists(struct request *request, const struct candidate *candidate, struct str path)
{
    struct file *file = file_stat(request, path);
    bool is_found = file->error == 0 && file->is_directory == candidate->is_directory;

    if (file->error != 0 && file->error != ENOENT && file->error != ENOTDIR &&
        file->error != ENAMETOOLONG) {
        log_crit(&request->log, file->error, "%s() \"%.*s\" failed", file->failed, STR_ARG(path));
    }
    file_release(file);
    return is_found;
}

/* Sets the URI to the name if such a file exists. Below an alias the name is mapped as a URI of
 * this location; below the alias of a regex location it is appended. */
static enum handler_result try_one(struct request *request, const struct candidate *candidate)
{
    const struct http_location *location = request->location;
    struct str before = request->uri;
    struct str name = template_text(candidate->name, &request->env);
    struct str path;
    size_t prefix_length;

    if (location->files->is_alias && !request_alias_prefix(request, &prefix_length)) {
        request_alias_add_uri(request, location);
    } else if (location->files->is_alias) {
        struct str prefix = str_head(before, prefix_length);
        struct str rest = str_starts(name, prefix) ? str_skip(name, prefix_length) : name;
        name = arena_concat(&request->arena, prefix, rest);
    }
    request_swap_uri(request, name);
    bool is_mapped = request_map_path(request, &path, &prefix_length);
    request_swap_uri(request, before);
    if (!is_mapped) {
        return HANDLER_FAIL;
    }
    if (!exists(request, candidate, path)) {
        request_alias_add_uri(request, NULL);
        return HANDLER_NEXT;
    }
    request_swap_uri(request, name);
    return HANDLER_DONE;
}

static enum handler_result try_files(struct request *request)
{
    const struct try_settings *settings = location_settings(request->location, &key);

    vec_each(const struct candidate, candidate, &settings->list->candidates) {
        switch (try_one(request, candidate)) {
        case HANDLER_NEXT:
            break;
        case HANDLER_DONE:
            return HANDLER_NEXT; /* the content handler serves the file */
        default:
            return HANDLER_FAIL;
        }
    }
    return fall_back(request, settings->list);
}

/* Not inherited by blocks of `if` and limit_except either. */
static bool try_files_is_active(const struct http_location *location)
{
    const struct try_settings *settings = location_settings(location, &key);

    return settings != NULL && settings->list != NULL;
}

static const struct phase_hook phases[] = {
    {PHASE_PRECONTENT, .name = "try_files", .run = try_files, .is_active = try_files_is_active},
    {.run = NULL},
};
static const struct http_module hooks = {.phases = phases};

const struct module ngx_http_try_files_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_try_files_module",
    .kind = MODULE_HTTP,
    .table = {.key = &key,
              .rows = rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct try_settings)},
    .hooks = &hooks,
};
