/* ngx_http_static_module: files below root and alias. */
#include "http/codings/coded_file.h"
#include "http/files/file.h"
#include "http/files/path.h"
#include "http/routing/hooks.h"
#include "http/request/request.h"
#include "server/module.h"

static enum handler_result serve_file(struct request *request)
{
    struct str path;
    size_t root_length;

    if ((request->method & (METHOD_GET | METHOD_HEAD | METHOD_POST)) == 0) {
        return request_fail(request, 405);
    }
    if (request->uri.len != 0 && request->uri.data[request->uri.len - 1] == '/') {
        return HANDLER_NEXT;
    }
    request->log.action = NULL;
    if (!request_map_path(request, &path, &root_length)) {
        return HANDLER_FAIL;
    }
    if (request->location->coded_files != NULL && request->method != METHOD_POST) {
        enum handler_result result = response_coded_file(request, path);
        if (result != HANDLER_NEXT) {
            return result;
        }
    }
    struct file *file = file_open(request, path);
    if (request->method == METHOD_POST && file->is_file) {
        file_release(file);
        return request_fail(request, 405);
    }
    return response_opened_file(request, file);
}

static void forget_files(struct generation *generation)
{
    file_cache_drop();
}

static const struct phase_hook phases[] = {
    {PHASE_CONTENT, .name = "static", .run = serve_file},
    {.run = NULL},
};
static const struct http_module hooks = {.phases = phases};

const struct module ngx_http_static_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_static_module",
    .kind = MODULE_HTTP,
    .hooks = &hooks,
    .worker_end = forget_files,
};
