/* ngx_http_concat_module: several files of a directory as one response:
 * /dir/??a.css,b/c.css?v=2. */
#include "base/text.h"
#include "http/files/file.h"
#include "http/files/path.h"
#include "http/message/type_set.h"
#include "http/message/uri.h"
#include "http/request/request.h"
#include "http/routing/hooks.h"
#include "server/module.h"

struct concat_settings {
    bool is_on;
    bool is_unique;         /* all files of one response must have the same type */
    bool ignores_errors;    /* files that cannot be opened are skipped */
    int64_t max_files;      /* in one response */
    struct str delimiter;   /* written between two files */
    struct type_set *types; /* content types that may be concatenated */
};

static struct settings_key concat_key;

/* The files of one response. */
struct concat {
    const struct concat_settings *settings;
    struct vec names;  /* struct str: paths relative to the directory */
    struct vec files;  /* struct file *: open and not empty; NULL after the file was sent */
    struct str type;   /* content type of the last name */
    uint64_t size;     /* total in bytes, delimiters included */
    time_t modified;   /* the newest modification time; -1 = no file yet */
    bool needs_memory; /* some file uses direct I/O */
};

static void release_files(struct concat *concat)
{
    vec_each(struct file *, file, &concat->files) {
        if (*file != NULL) {
            file_release(*file);
        }
    }
    concat->files.count = 0;
}

/* ---- the names ---- */

static bool concat_refuse(struct request *request, const char *why, struct str name)
{
    log_error(&request->log, 0, "concat: %s: \"%.*s\"", why, STR_ARG(name));
    request_fail(request, 400);
    return false;
}

static bool concat_add_name(struct request *request, struct concat *concat, struct str name)
{
    const struct concat_settings *settings = concat->settings;
    struct str decoded = percent_decode(&request->arena, name);

    if (name.len == 0 || !uri_is_safe(decoded)) {
        return concat_refuse(request, "a name that is none", name);
    }
    if ((int64_t) concat->names.count >= settings->max_files) {
        return concat_refuse(request, "more than concat_max_files", name);
    }
    struct str type = response_type_of(request, uri_extension(decoded));
    if (!type_set_has(settings->types, type)) {
        return concat_refuse(request, "not of concat_types", name);
    }
    if (settings->is_unique && concat->names.count != 0 && !str_equal(type, concat->type)) {
        return concat_refuse(request, "another type than the files before it", name);
    }
    concat->type = type;
    *vec_add(&concat->names, &request->arena, struct str) = decoded;
    return true;
}

/* Reads a list such as "a.css,b.css?v=1,". A '?' and what follows it only distinguishes versions
 * for caches; empty names are ignored. False: status set. */
static bool read_names(struct request *request, struct concat *concat, struct str list)
{
    while (list.data != NULL) {
        struct str version = str_cut(&list, ',');
        if (version.len != 0 && !concat_add_name(request, concat, str_cut(&version, '?'))) {
            return false;
        }
    }
    return concat->names.count != 0 || concat_refuse(request, "no name", request->args);
}

/* ---- the files ---- */

/* Opens one file. HANDLER_NEXT: it was added, is empty, or may be skipped. */
static enum handler_result open_one(struct request *request, struct concat *concat, struct str path)
{
    struct file *file = file_open(request, path);

    if (file->error != 0) {
        enum handler_result result = request_fail_file(request, file);
        return concat->settings->ignores_errors && request->response.status != 500 ? HANDLER_NEXT
                                                                                   : result;
    }
    if (!file->is_file) {
        log_crit(&request->log, 0, "\"%.*s\" is not a regular file", STR_ARG(path));
        file_release(file);
        return concat->settings->ignores_errors ? HANDLER_NEXT : request_fail(request, 404);
    }
    if (file->mtime > concat->modified) {
        concat->modified = file->mtime;
    }
    if (file->size == 0) {
        file_release(file);
        return HANDLER_NEXT;
    }
    concat->size += file->size + (concat->files.count == 0 ? 0 : concat->settings->delimiter.len);
    concat->needs_memory |= file->is_directio;
    *vec_add(&concat->files, &request->arena, struct file *) = file;
    return HANDLER_NEXT;
}

static enum handler_result open_files(struct request *request, struct concat *concat)
{
    struct str directory;
    size_t root_length;

    if (!request_map_path(request, &directory, &root_length)) {
        return HANDLER_FAIL;
    }
    vec_each(const struct str, name, &concat->names) {
        enum handler_result result =
            open_one(request, concat, path_join(&request->arena, directory, *name));
        if (result != HANDLER_NEXT) {
            release_files(concat);
            return result;
        }
    }
    request->response.status = 0; /* with concat_ignore_file_error: the status of a skipped file */
    return HANDLER_NEXT;
}

/* Cached contents are sent as they are, in one write with the delimiters next to them; larger files
 * are sent by sendfile. MAY WAIT. */
static bool send_files(struct request *request, struct concat *concat)
{
    const struct body_piece delimiter = {.bytes = concat->settings->delimiter, .fd = -1};

    if (concat->files.count == 0) {
        return response_send(request, NULL, true);
    }
    for (size_t i = 0; i < concat->files.count; i++) {
        if (i != 0 && delimiter.bytes.len != 0 && !response_send(request, &delimiter, false)) {
            return false;
        }
        struct file **file = vec_at(&concat->files, struct file *, i);
        struct file *given = *file;
        *file = NULL; /* the response owns it from here on */
        if (!response_send_part(request, given, 0, given->size, i + 1 == concat->files.count)) {
            return false;
        }
    }
    return true;
}

static enum handler_result send_answer(struct request *request, struct concat *concat)
{
    struct response *response = &request->response;

    response->status = 200;
    response->content_type = concat->type;
    response->content_length = (int64_t) concat->size;
    response->last_modified = concat->modified;
    if (concat->needs_memory) {
        response_needs_memory(request);
    }
    enum handler_result result = response_start(request);
    if (result == HANDLER_NEXT) {
        result = send_files(request, concat) ? HANDLER_DONE : HANDLER_CLOSED;
    }
    release_files(concat);
    return result;
}

static enum handler_result concat_files(struct request *request)
{
    struct concat concat = {.settings = location_settings(request->location, &concat_key),
                            .modified = -1};

    if ((request->method & (METHOD_GET | METHOD_HEAD)) == 0 || request->args.len < 2 ||
        *request->args.data != '?') {
        return HANDLER_NEXT;
    }
    if (!read_names(request, &concat, str_skip(request->args, 1))) {
        return HANDLER_FAIL;
    }
    enum handler_result result = open_files(request, &concat);
    return result == HANDLER_NEXT ? send_answer(request, &concat) : result;
}

/* ---- directives ---- */

#define S struct concat_settings
static const struct directive concat_rows[] = {
    {"concat", IN_HTTP_ALL, FLAG(S, is_on), .initial = "off",
     .doc = "Whether a request for /dir/??a.css,b.css is answered with the concatenation "
            "of these files of the directory. In a file name, everything from another ? to "
            "the next comma is ignored: /dir/??a.css?v=1,b.css?v=3."},
    {"concat_types", IN_HTTP_ALL, CUSTOM_FIELD(S, types, type_set_apply), ARGS(1, ARGS_ANY),
     .repeat = REPEAT_APPEND, .initial = "application/javascript text/css",
     .syntax = "mime-type ...",
     .doc = "Media types of files that may be concatenated, in addition to "
            "application/javascript; * matches any type. Others are refused with 400."},
    {"concat_unique", IN_HTTP_ALL, FLAG(S, is_unique), .initial = "on",
     .doc = "Whether files of different types in one request are refused with 400."},
    {"concat_max_files", IN_HTTP_ALL, NUMBER(S, max_files), .initial = "10",
     .doc = "Maximum number of files in a request. Requests for more are refused with 400."},
    {"concat_delimiter", IN_HTTP_ALL, STRING(S, delimiter), .syntax = "string",
     .doc = "String inserted between two files. For example, \"\\n\" separates a last line "
            "without a line feed from the first line of the next file."},
    {"concat_ignore_file_error", IN_HTTP_ALL, FLAG(S, ignores_errors), .initial = "off",
     .doc = "Whether files that do not exist or may not be read are skipped. Otherwise the "
            "response is 404 or 403."},
    {0},
};
#undef S

static const struct phase_hook concat_phases[] = {
    {PHASE_DIRECTORY, .name = "concat", .run = concat_files,
     .when = SETTING(concat_key, struct concat_settings, is_on)},
    {.run = NULL},
};
static const struct http_module concat_hooks = {.phases = concat_phases};

const struct module ngx_http_concat_module = {
    .magic = MODULE_MAGIC,
    .name = "ngx_http_concat_module",
    .kind = MODULE_HTTP,
    .table = {.key = &concat_key,
              .rows = concat_rows,
              .contexts = IN_HTTP_LOCATION_SETTINGS,
              .size = sizeof(struct concat_settings)},
    .hooks = &concat_hooks,
};
