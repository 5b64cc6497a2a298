/* ngx_http_random_index_module: a random file of a directory. */
#include "base/checksum.h"
#include "http/files/directory.h"
#include "http/request/request.h"
#include "http/routing/hooks.h"
#include "server/module.h"

struct random_index_settings {
    bool is_on;
};

static struct settings_key random_index_key;

/* A random file of the directory, with equal probability; empty if there is none. The directory is
 * read once, and only the name chosen so far is kept: the n-th file replaces it with probability
 * 1/n. */
static struct str choose_file(struct request *request, struct directory *directory)
{
    char chosen[sizeof(((struct dirent *) 0)->d_name)];
    struct directory_entry entry;
    uint32_t count = 0;
    size_t length = 0;

    while (directory_next(directory, &entry)) {
        if (entry.is_file && random_uint32() % ++count == 0) {
            length = (size_t) (str_put(chosen, entry.name) - chosen);
        }
    }
    return arena_dup(&request->arena, (struct str){chosen, length});
}

static enum handler_result answer_by_any(struct request *request)
{
    struct directory directory;

    if ((request->method & (METHOD_GET | METHOD_HEAD | METHOD_POST)) == 0) {
        return HANDLER_NEXT;
    }
    enum handler_result result = directory_open(&directory, request);
    if (result != HANDLER_NEXT) {
        return result;
    }
    struct str name = choose_file(request, &directory);
    directory_close(&directory);
    return name.len == 0
               ? HANDLER_NEXT
               : request_redirect(request, arena_concat(&request->arena, request->uri, name),
                                  request->args);
}

static const struct directive random_index_rows[] = {
    {"random_index", IN_LOCATION, FLAG(struct random_index_settings, is_on), .initial = "off",
     .doc = "Whether a random file is served for a directory: regular files and targets of "
            "symbolic links are considered, except names that begin with a dot. If there "
            "is none, `index` and `autoindex` are used."},
    {0},
};

static const struct phase_hook random_index_phases[] = {
    {PHASE_DIRECTORY, .name = "random_index", .run = answer_by_any,
     .when = SETTING(random_index_key, struct random_index_settings, is_on)},
    {.run = NULL},
};
static const struct http_module random_index_hooks = {.phases = random_index_phases};

const struct module ngx_http_random_index_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_random_index_module",
    .kind = MODULE_HTTP,
    .table = {.key = &random_index_key,
              .rows = random_index_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct random_index_settings)},
    .hooks = &random_index_hooks,
};
