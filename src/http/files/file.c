/* Files to be served: the rules of a location, the caches, and the response for a file. */
#define _GNU_SOURCE
#include "http/files/file.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/parse.h"
#include "base/text.h"
#include "event/loop.h"
#include "http/files/absent.h"
#include "http/files/file_private.h"
#include "http/files/kept_body.h"
#include "http/files/path.h"
#include "http/request/offload.h"
#include "http/request/request.h"
#include "http/routing/file_settings.h"
#include "http/routing/response_settings.h"

/* Total size of small files whose contents each worker caches without open_file_cache. */
#define CONTENTS_BYTES (16u * 1024 * 1024)

/* Descriptors of larger files that each worker keeps open without open_file_cache, and for how long
 * if unused. */
#define DESCRIPTORS 64
#define DESCRIPTOR_UNUSED_MS 2000

static struct file_cache *contents_cache; /* per worker; both caches are made on first use */
static struct file_cache *descriptors;
static struct timer descriptors_timer;

/* ---- the rules of a location ---- */

/* The length of the path's part that `from=` exempts from the check: whole components, and only if
 * the path begins with them. */
static size_t unchecked_length(struct request *request, struct str path)
{
    struct template *template = request->location->files->disable_symlinks_from;

    if (template == NULL) {
        return 0;
    }
    struct str from = template_text(template, &request->env);
    if (from.len == 0 || from.len > path.len || memcmp(path.data, from.data, from.len) != 0) {
        return 0;
    }
    if (from.len == path.len) {
        return from.len;
    }
    if (from.data[from.len - 1] == '/') {
        return from.len - 1;
    }
    return path.data[from.len] == '/' ? from.len : 0;
}

struct str file_access_key(struct request *request)
{
    const struct http_location *location = request->location;
    struct template *from = location->files->disable_symlinks_from;

    if (location->files->disable_symlinks == SYMLINKS_ALLOWED) {
        return STR("");
    }
    struct str text = from == NULL ? STR("") : template_text(from, &request->env);
    return arena_printf(&request->arena, "\ndisable_symlinks=%u from=%.*s",
                        location->files->disable_symlinks, STR_ARG(text));
}

static struct file_options options_of(struct request *request, struct str path, bool is_status_only)
{
    const struct http_location *location = request->location;
    struct file_options options = {
        .path = path,
        .is_status_only = is_status_only,
        .contents_max = location->files->aio != 0   ? 0
                        : location->files->sendfile ? FILE_CONTENTS_MAX_SENDFILE
                                                    : FILE_CONTENTS_MAX,
        .symlinks = location->files->disable_symlinks,
        .directio = location->files->directio,
        .read_ahead = location->files->read_ahead,
    };

    if (options.symlinks != SYMLINKS_ALLOWED) {
        options.symlinks_from = unchecked_length(request, path);
        if (options.symlinks_from == path.len) {
            options.symlinks = SYMLINKS_ALLOWED; /* `from=` covers the whole path */
            options.symlinks_from = 0;
        }
    }
    return options;
}

/* ---- without open_file_cache: contents and descriptors, compared with the disk at each request
 * ---- */

/* An open descriptor keeps the blocks of its file allocated after it was removed, so it is kept
 * only for a short time, which is sufficient for a file that is requested repeatedly. */
static void close_unused(struct timer *timer)
{
    file_cache_expire(descriptors, clock_now.now_ms, DESCRIPTORS);
    if (!file_cache_is_empty(descriptors)) {
        timer_set(timer, clock_now.now_ms + DESCRIPTOR_UNUSED_MS);
    }
}

static void make_checked_caches(void)
{
    static const struct file_cache_limits contents_limits = {UINT64_MAX, CONTENTS_BYTES,
                                                             UINT64_MAX};
    static const struct file_cache_limits descriptor_limits = {DESCRIPTORS, UINT64_MAX,
                                                               DESCRIPTOR_UNUSED_MS};

    contents_cache = file_cache_new(&contents_limits);
    descriptors = file_cache_new(&descriptor_limits);
    timer_init(&descriptors_timer, close_unused);
}

/* The cached file, if the file at the path is unchanged. */
static struct file *find_unchanged(struct file_cache *cache, const struct file_options *options)
{
    struct file *file = file_cache_find(cache, options);

    if (file == NULL) {
        return NULL;
    }
    if (file_is_unchanged(file) && (int64_t) file->size < options->directio) {
        file->used_ms = clock_now.now_ms;
        file->references++;
        return file;
    }
    file_cache_remove(file);
    return NULL;
}

static void keep_descriptor(struct file *file, const struct file_options *options)
{
    file_describe(file);
    file->used_ms = clock_now.now_ms;
    file_cache_put(descriptors, file, options->hash);
    if (descriptors_timer.deadline_ms == NO_DEADLINE) {
        timer_set(&descriptors_timer, clock_now.now_ms + DESCRIPTOR_UNUSED_MS);
    }
}

static struct file *open_checked(struct file_options *options)
{
    if (contents_cache == NULL) {
        make_checked_caches();
    }
    options->hash = file_cache_hash(options->path);
    struct file *file = find_unchanged(contents_cache, options);
    if (file == NULL) {
        file = find_unchanged(descriptors, options);
    }
    if (file != NULL) {
        return file;
    }
    file = file_load(options);
    if (file->contents.data != NULL) {
        if (file->is_settled) {
            file_describe(file);
            file_cache_put(contents_cache, file, options->hash);
        }
    } else if (file->fd != -1 && file->is_file && !file->is_directio) {
        keep_descriptor(file, options);
    }
    return file;
}

/* ---- open_file_cache ---- */

static void drop_cache(void *arg)
{
    struct file_cache_settings *settings = arg;

    file_cache_free(settings->cache);
    settings->cache = NULL;
}

static struct file_cache *cache_of(const struct http_location *location)
{
    struct file_cache_settings *settings = location->files->open_file_cache;

    if (settings->cache == NULL) {
        const struct file_cache_limits limits = {settings->max, UINT64_MAX,
                                                 settings->inactive_s * 1000};

        settings->cache = file_cache_new(&limits);
        arena_on_free(&location->server->main->generation->arena, drop_cache, settings);
    }
    return settings->cache;
}

/* Was it opened under the same rules? */
static bool fits_rules(const struct file *file, const struct file_options *options)
{
    return file->symlinks == options->symlinks && file->symlinks_from == options->symlinks_from &&
           (file->fd == -1 || file->is_directio == ((int64_t) file->size >= options->directio));
}

/* Does it have the descriptor or the contents that are needed? */
static bool has_wanted(const struct file *file, const struct file_options *options)
{
    return options->is_status_only || !file->is_file || file->error != 0 || file->fd != -1 ||
           (file->contents.data != NULL && options->contents_max != 0 &&
            (int64_t) file->size < options->directio);
}

/* Can the cached file be used? Compares it with the disk if open_file_cache_valid has passed. */
static bool is_valid(struct file *file, const struct file_options *options,
                     const struct http_location *location)
{
    if (file->error != 0 && !location->files->open_file_cache_errors) {
        return false;
    }
    if (!fits_rules(file, options) || !has_wanted(file, options)) {
        return false;
    }
    if (clock_now.now_ms - file->checked_ms < location->files->open_file_cache_valid_s * 1000) {
        return true;
    }
    if (file->error != 0 || file->symlinks != SYMLINKS_ALLOWED ||
        (file->contents.data != NULL && !file->is_settled) || !file_is_unchanged(file)) {
        return false;
    }
    file->checked_ms = clock_now.now_ms;
    return true;
}

/* Caches a file that was just opened. If it was used too rarely, only its status is cached, and the
 * request alone uses descriptor and contents. */
static void file_keep(struct file_cache *cache, struct file *file,
                      const struct file_options *options, const struct http_location *location)
{
    bool is_rare = (int64_t) file->uses < location->files->open_file_cache_min_uses;

    if (is_rare && (file->fd != -1 || file->contents.data != NULL)) {
        struct file *status = file_copy_status(file);
        file_cache_put(cache, status, options->hash);
        file_release(status);
    } else {
        file_cache_put(cache, file, options->hash);
    }
}

static struct file *open_kept(struct file_options *options, const struct http_location *location)
{
    struct file_cache *cache = cache_of(location);
    uint64_t uses = 0;

    options->hash = file_cache_hash(options->path);
    file_cache_expire(cache, clock_now.now_ms, 2);
    struct file *file = file_cache_find(cache, options);
    if (file != NULL) {
        if (clock_now.now_ms - file->used_ms >
            location->files->open_file_cache->inactive_s * 1000) {
            file->uses = 0;
        }
        uses = ++file->uses;
        file->used_ms = clock_now.now_ms;
        if (is_valid(file, options, location)) {
            file->references++;
            return file;
        }
        file_cache_remove(file);
    } else {
        uses = 1;
    }
    file = file_load(options);
    file->uses = uses;
    file->used_ms = file->checked_ms = clock_now.now_ms;
    if (file->error == 0 || location->files->open_file_cache_errors) {
        file_describe(file);
        file_keep(cache, file, options, location);
    }
    return file;
}

struct file *file_open(struct request *request, struct str path)
{
    const struct http_location *location = request->location;
    struct file_options options = options_of(request, path, false);

    if (location->files->open_file_cache != NULL) {
        return open_kept(&options, location);
    }
    if (location->files->disable_symlinks == SYMLINKS_ALLOWED && options.contents_max != 0) {
        return open_checked(&options);
    }
    return file_load(&options);
}

/* A file to open on a thread. */
struct open_job {
    struct file_options options;
    struct file *file; /* the result */
};

static void open_on_thread(void *arg)
{
    struct open_job *job = arg;

    job->file = file_load(&job->options);
}

enum thread_called file_open_offloaded(struct request *request, const struct offload_pool *pool,
                                       struct str path, struct file **out)
{
    struct open_job *job = arena_new(&request->arena, struct open_job);

    job->options = options_of(request, path, false);
    job->options.contents_max = 0;
    job->options.directio = INT64_MAX;
    enum thread_called called = offload_run(pool, request, open_on_thread, job);
    if (called == THREAD_CALL_DONE) {
        *out = job->file;
    }
    return called;
}

struct file *file_stat(struct request *request, struct str path)
{
    const struct http_location *location = request->location;
    struct file_options options = options_of(request, path, true);

    return location->files->open_file_cache != NULL ? open_kept(&options, location)
                                                    : file_load(&options);
}

int file_open_directory(struct request *request, struct str path)
{
    struct file_options options = options_of(request, path, true);

    return directory_load(&options);
}

void file_cache_drop(void)
{
    if (contents_cache != NULL) {
        timer_remove(&descriptors_timer);
        file_cache_free(contents_cache);
        file_cache_free(descriptors);
        contents_cache = descriptors = NULL;
    }
    absent_drop();
}

struct file *file_of_status(struct str path, uint64_t size, time_t mtime)
{
    struct file *file = file_new(path);

    file->size = size;
    file->mtime = mtime;
    file->is_file = true;
    return file;
}

/* ---- the response ---- */

static char *put_hex(char *at, uint64_t number)
{
    int shift = number == 0 ? 0 : (63 - __builtin_clzll(number)) & ~3;

    for (; shift >= 0; shift -= 4) {
        *at++ = "0123456789abcdef"[number >> shift & 15];
    }
    return at;
}

void file_describe(struct file *file)
{
    char *at = file->texts;

    if (file->etag.len != 0) {
        return;
    }
    *at++ = '"';
    at = put_hex(at, (uint64_t) file->mtime);
    *at++ = '-';
    at = put_hex(at, file->size);
    *at++ = '"';
    file->etag = str_from(file->texts, at);
    file->last_modified = str_from(at, http_date_format(at, file->mtime));
}
_Static_assert(sizeof(((struct file *) 0)->texts) >= 2 * 16 + 3 + HTTP_DATE_LENGTH,
               "both texts fit");

/* The path without the suffix of a content coding: "a.html.gz" for a request of "a.html". */
static struct str clear_path(struct str path, struct str extension)
{
    const char *dot = memrchr(path.data, '.', path.len);

    return dot == NULL || str_ends(path, extension) ? path : str_from(path.data, dot);
}

/* The type depends on the extension; a cached file has the type that was found last. */
static void set_type(struct request *request, struct file *file)
{
    const struct http_location *location = request->location;
    struct str extension = request_extension(request);

    if (request->response.content_type.len != 0) {
        return; /* set by X-Accel-Redirect of a backend */
    }
    if (extension.len != 0 && str_equal(file->extension, extension) &&
        file->types == location->files->types &&
        file->default_type.data == location->files->default_type.data) {
        request->response.content_type = file->type;
        return;
    }
    response_set_type(request);
    struct str clear = clear_path(file->path, extension);
    if (file->cache != NULL && str_ends(clear, extension)) {
        file->extension = str_skip(clear, clear.len - extension.len);
        file->types = location->files->types;
        file->default_type = location->files->default_type;
        file->type = request->response.content_type;
    }
}

void response_describe_file(struct request *request, struct file *file, uint64_t length)
{
    struct response *response = &request->response;

    response->status = 200;
    response->content_length = (int64_t) length;
    file_describe(file);
    /* Copied, since the request may outlive the file. */
    char *texts = arena_text(&request->arena, sizeof(file->texts));
    memcpy(texts, file->texts, sizeof(file->texts));
    response->last_modified = file->mtime;
    response->last_modified_text = (struct str){texts + file->etag.len, HTTP_DATE_LENGTH};
    if (request->location->responses->etag) {
        response->etag = length == file->size ? (struct str){texts, file->etag.len}
                                              : arena_printf(&request->arena, "\"%llx-%llx\"",
                                                             (unsigned long long) file->mtime,
                                                             (unsigned long long) length);
    }
    set_type(request, file);
    response->range.is_allowed = !response->is_coded_file;
    if (file->is_directio) {
        response->needs_memory = true;
    }
}

bool response_send_part(struct request *request, struct file *file, uint64_t offset, uint64_t size,
                        bool is_last)
{
    struct body_piece piece = {.fd = -1, .release = file_release, .release_arg = file};

    if (file->contents.data != NULL) {
        piece.bytes = str_head(str_skip(file->contents, offset), size);
        return response_send(request, &piece, is_last);
    }
    piece.fd = file->fd;
    piece.offset = (off_t) offset;
    piece.size = size;
    return response_send_file(request, &piece, is_last);
}

enum handler_result response_file(struct request *request, struct file *file)
{
    response_describe_file(request, file, file->size);
    request->log.action = "sending response to client";
    enum handler_result result = response_start(request);
    if (result != HANDLER_NEXT) {
        file_release(file);
        return result;
    }
    return response_send_part(request, file, 0, file->size, true) ? HANDLER_DONE : HANDLER_CLOSED;
}

void response_needs_memory(struct request *request)
{
    request->response.needs_memory = true;
}

unsigned file_status(const struct file *file)
{
    switch (file->error) {
    case 0:
        return file->is_directory ? 301 : file->is_file ? 200 : 404;
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG:
        return 404;
    case EACCES:
    case ELOOP:
    case EMLINK:
        return 403;
    default:
        return 500;
    }
}

unsigned file_failure(struct request *request, const struct file *file)
{
    unsigned status = file_status(file);

    if (status != 404 || request->location->files->log_not_found) {
        log_at(&request->log, status == 500 ? LOG_CRIT : LOG_ERROR, file->error,
               "%s() \"%.*s\" failed", file->failed, STR_ARG(file->path));
    }
    return status;
}

enum handler_result request_fail_file(struct request *request, struct file *file)
{
    unsigned status = file_failure(request, file);

    file_release(file);
    return request_fail(request, status);
}

enum handler_result response_directory_slash(struct request *request)
{
    struct arena *arena = &request->arena;
    const struct str parts[] = {
        escape_str(arena, request->uri, ESCAPE_URI),
        STR("/"),
        request->args.len == 0 ? STR_NONE : STR("?"),
        request->args,
    };

    return response_redirect(request, 301, arena_join(arena, parts, 4));
}

enum handler_result response_opened_file(struct request *request, struct file *file)
{
    if (file->error != 0) {
        return request_fail_file(request, file);
    }
    if (file->is_directory) {
        file_release(file);
        return response_directory_slash(request);
    }
    if (!file->is_file) {
        log_crit(&request->log, 0, "\"%.*s\" is not a regular file", STR_ARG(file->path));
        file_release(file);
        return request_fail(request, 404);
    }
    return response_file(request, file);
}

struct file *request_open_file(struct request *request, enum handler_result *result)
{
    struct str path;
    size_t root_length;

    *result = HANDLER_NEXT;
    if ((request->method & (METHOD_GET | METHOD_HEAD)) == 0) {
        *result = request_fail(request, 405);
        return NULL;
    }
    if (request->uri.len == 0 || request->uri.data[request->uri.len - 1] == '/') {
        return NULL;
    }
    if (!request_map_path(request, &path, &root_length)) {
        *result = HANDLER_FAIL;
        return NULL;
    }
    struct file *file = file_open(request, path);
    if (file->error != 0) {
        *result = request_fail_file(request, file);
        return NULL;
    }
    if (!file->is_file) {
        file_release(file);
        return NULL;
    }
    return file;
}

/* ---- bodies from the cache ---- */

struct str kept_body_whole(const struct cache_access *access)
{
    struct cache_body body;

    cache_body_of(access, &body);
    return body.bytes;
}

bool response_send_kept(struct request *request, const struct cache_access *access, bool is_last)
{
    struct cache_body body;

    cache_body_of(access, &body);
    struct body_piece piece = {
        .bytes = body.bytes,
        .fd = body.bytes.data != NULL ? -1 : body.fd,
        .offset = (off_t) body.offset,
        .size = body.size,
        .release = cache_content_release,
        .release_arg = access->content,
    };
    cache_content_hold(access->content);
    return response_send_file(request, &piece, is_last);
}
