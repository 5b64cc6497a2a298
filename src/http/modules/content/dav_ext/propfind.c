/* PROPFIND (RFC 4918, 9.1): properties of files and directories. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/parse.h"
#include "base/text.h"
#include "fiber/fiber.h"
#include "http/files/file.h"
#include "http/message/dav_fields.h"
#include "http/modules/content/dav_ext/dav_ext.h"
#include "http/modules/content/dav_ext/dead.h"
#include "http/request/offload.h"
#include "http/request/request.h"
#include "http/routing/file_settings.h"
#include "server/generation.h"

/* Directories are read on the threads of ngx_http_dav_module. */
static struct offload_shares dav_shares;
static const struct offload_pool dav_pool = {.name = STR_INIT("dav"),
                                             .waiting = "requests wait for their files",
                                             .threads = 4,
                                             .queue = 256,
                                             .shares = &dav_shares};

#define MEMBERS_MAX                                                                                \
    ((size_t) 64 << 20) /* bytes for the members of a directory and their stored properties */
#define MEMBERS_A_TURN 16

/* One request. In its arena. */
struct listing {
    struct wanted wanted;
    struct arena arena; /* for building the response, emptied after each member */
    bool has_locks;
    struct vec locks; /* struct lock: those on the resource and on its members */
    struct str path;  /* of the resource, without a trailing slash */
    struct str uri;   /* as requested */
    int directory;    /* its members are listed; -1 = Depth 0, or not a directory */
    bool follows_links;
    bool has_dead;      /* dead properties are stored in this location */
    struct stat status; /* of the resource */
    struct buf dead;    /* stored dead properties of the resource */
    struct buf members; /* struct member: the contents of the directory */
    size_t members_max; /* limit in bytes */
    size_t at;          /* offset in `members` of the next member to write */
    struct buf *out;    /* the response is written to this buffer */
    bool has_begun;     /* the beginning has been written */
    int error;          /* errno from reading the members; 0 = none. EFBIG: there are too many */
};

/* One resource of the response. */
struct resource {
    struct str uri; /* decoded; ends with a slash for a collection */
    struct str path;
    struct str name;
    const struct stat *status;
    struct vec dead; /* struct dead_property */
};

/* ---- properties ---- */

static void put_escaped(struct buf *out, struct str text, enum escape_set set)
{
    char *at = buf_reserve(out, escape_length(text, set));

    out->len += (size_t) (escape_write(at, text, set) - at);
}

static void put_href(struct listing *listing, struct str uri)
{
    put_escaped(listing->out, escape_str(&listing->arena, uri, ESCAPE_URI), ESCAPE_HTML);
}

static void put_locks(struct listing *listing, const struct resource *resource)
{
    struct vec locks = {0};

    vec_each(const struct lock, lock, &listing->locks) {
        if (lock_covers(lock, resource->path)) {
            *vec_add(&locks, &listing->arena, struct lock) = *lock;
        }
    }
    if (locks.count == 0) {
        buf_append(listing->out, STR("<D:lockdiscovery/>\n"));
        return;
    }
    buf_append(listing->out, STR("<D:lockdiscovery>\n"));
    put_active_locks(listing->out, &listing->arena, &locks);
    buf_append(listing->out, STR("</D:lockdiscovery>\n"));
}

static void put_supported(struct buf *out, bool has_locks)
{
    if (!has_locks) {
        buf_append(out, STR("<D:supportedlock/>\n"));
        return;
    }
    buf_append(out, STR("<D:supportedlock>\n"));
    for (unsigned i = 0; i < 2; i++) {
        buf_printf(out,
                   "<D:lockentry>\n<D:lockscope><D:%s/></D:lockscope>\n"
                   "<D:locktype><D:write/></D:locktype>\n</D:lockentry>\n",
                   i == 0 ? "exclusive" : "shared");
    }
    buf_append(out, STR("</D:supportedlock>\n"));
}

static void put_modified(struct buf *out, time_t when)
{
    buf_append(out, STR("<D:getlastmodified>"));
    http_date_format(buf_reserve(out, HTTP_DATE_LENGTH), when);
    out->len += HTTP_DATE_LENGTH;
    buf_append(out, STR("</D:getlastmodified>\n"));
}

static void put_property(struct listing *listing, const struct resource *resource,
                         enum dav_property property)
{
    const struct stat *status = resource->status;
    struct buf *out = listing->out;

    switch (property) {
    case PROPERTY_DISPLAYNAME:
        buf_append(out, STR("<D:displayname>"));
        put_xml(out, resource->name);
        buf_append(out, STR("</D:displayname>\n"));
        break;
    case PROPERTY_GETCONTENTLENGTH:
        buf_printf(out, "<D:getcontentlength>%llu</D:getcontentlength>\n",
                   (unsigned long long) status->st_size);
        break;
    case PROPERTY_GETLASTMODIFIED:
        put_modified(out, status->st_mtime);
        break;
    case PROPERTY_GETETAG:
        buf_printf(out, "<D:getetag>\"%llx-%llx\"</D:getetag>\n",
                   (unsigned long long) status->st_mtime, (unsigned long long) status->st_size);
        break;
    case PROPERTY_RESOURCETYPE:
        buf_append(out, S_ISDIR(status->st_mode)
                            ? STR("<D:resourcetype><D:collection/></D:resourcetype>\n")
                            : STR("<D:resourcetype></D:resourcetype>\n"));
        break;
    case PROPERTY_LOCKDISCOVERY:
        put_locks(listing, resource);
        break;
    default:
        put_supported(out, listing->has_locks);
    }
}

/* Directories have neither a length nor an entity tag. */
static unsigned properties_of(const struct resource *resource)
{
    return S_ISDIR(resource->status->st_mode)
               ? PROPERTY_ALL &
                     ~(PROPERTY_BIT(PROPERTY_GETCONTENTLENGTH) | PROPERTY_BIT(PROPERTY_GETETAG))
               : PROPERTY_ALL;
}

/* Writes the dead properties that are requested: all, or by name. */
static void put_dead(struct listing *listing, const struct resource *resource)
{
    const struct wanted *wanted = &listing->wanted;
    struct buf *out = listing->out;

    if (wanted->names_only || wanted->properties == PROPERTY_ALL) {
        vec_each(const struct dead_property, property, &resource->dead) {
            if (wanted->names_only) {
                dead_put_name(out, &property->name);
                continue;
            }
            buf_append(out, property->element);
            buf_append_char(out, '\n');
        }
        return;
    }
    vec_each(const struct xml_name, name, &wanted->unknown) {
        const struct dead_property *property = dead_find(&resource->dead, name);
        if (property != NULL) {
            buf_append(out, property->element);
            buf_append_char(out, '\n');
        }
    }
}

/* How many of the requested unknown names are dead properties of the resource. */
static size_t count_dead(const struct listing *listing, const struct resource *resource)
{
    size_t count = 0;

    vec_each(const struct xml_name, name, &listing->wanted.unknown) {
        count += dead_find(&resource->dead, name) != NULL;
    }
    return count;
}

static void put_known(struct listing *listing, const struct resource *resource, unsigned properties)
{
    struct buf *out = listing->out;

    buf_append(out, STR("<D:propstat>\n<D:prop>\n"));
    for (unsigned i = 0; i < PROPERTY_COUNT; i++) {
        if ((properties & PROPERTY_BIT(i)) == 0) {
            continue;
        }
        if (listing->wanted.names_only) {
            buf_printf(out, "<D:%.*s/>\n", STR_ARG(property_names[i]));
        } else {
            put_property(listing, resource, i);
        }
    }
    put_dead(listing, resource);
    buf_append(out, STR("</D:prop>\n<D:status>HTTP/1.1 200 OK</D:status>\n</D:propstat>\n"));
}

/* Writes the names that were requested and do not exist. */
static void put_missing(struct listing *listing, const struct resource *resource,
                        unsigned properties)
{
    struct buf *out = listing->out;

    buf_append(out, STR("<D:propstat>\n<D:prop>\n"));
    for (unsigned i = 0; i < PROPERTY_COUNT; i++) {
        if ((properties & PROPERTY_BIT(i)) != 0) {
            buf_printf(out, "<D:%.*s/>\n", STR_ARG(property_names[i]));
        }
    }
    vec_each(const struct xml_name, name, &listing->wanted.unknown) {
        if (dead_find(&resource->dead, name) == NULL) {
            dead_put_name(out, name);
        }
    }
    buf_append(out, STR("</D:prop>\n<D:status>HTTP/1.1 404 Not Found</D:status>\n</D:propstat>\n"));
}

static void put_resource(struct listing *listing, const struct resource *resource)
{
    unsigned has = properties_of(resource);
    unsigned wants = listing->wanted.properties;
    bool is_all = wants == PROPERTY_ALL;
    unsigned missing = is_all ? 0 : wants & ~has;
    size_t dead = count_dead(listing, resource);
    size_t unknown = listing->wanted.unknown.count - dead;

    buf_append(listing->out, STR("<D:response>\n<D:href>"));
    put_href(listing, resource->uri);
    buf_append(listing->out, STR("</D:href>\n"));
    if ((wants & has) != 0 || dead != 0 || (missing == 0 && unknown == 0)) {
        put_known(listing, resource, wants & has);
    }
    if (missing != 0 || unknown != 0) {
        put_missing(listing, resource, missing);
    }
    buf_append(listing->out, STR("</D:response>\n"));
}

/* ---- members: read on a thread; formatted by the worker, which owns the arenas ---- */

/* A member of the directory, in listing->members; followed by its name with a NUL, and its stored
 * dead properties. */
struct member {
    uint32_t size; /* of this struct and what follows it, a multiple of 8 */
    uint32_t name_length;
    uint32_t dead_length;
    struct stat status;
};

static void add_member(struct listing *listing, struct str name, const struct stat *status,
                       struct str dead)
{
    size_t size = (sizeof(struct member) + name.len + 1 + dead.len + 7) & ~(size_t) 7;
    struct member member = {(uint32_t) size, (uint32_t) name.len, (uint32_t) dead.len, *status};
    char *at = buf_reserve(&listing->members, size);

    memcpy(at, &member, sizeof(member));
    at = str_put(at + sizeof(member), name);
    *at = '\0';
    str_put(at + 1, dead);
    listing->members.len += size;
}

/* Reads the stored dead properties of a member; none if they cannot be read. */
static void load_member(const struct listing *listing, int directory, const char *name,
                        struct buf *out)
{
    int flags = O_RDONLY | O_NONBLOCK | O_CLOEXEC | (listing->follows_links ? 0 : O_NOFOLLOW);

    out->len = 0;
    int fd = listing->has_dead ? openat(directory, name, flags) : -1;
    if (fd != -1) {
        dead_load(fd, out);
        close(fd);
    }
}

static void read_on_thread(void *arg)
{
    struct listing *listing = arg;
    int flags = listing->follows_links ? 0 : AT_SYMLINK_NOFOLLOW;
    DIR *directory = fdopendir(listing->directory);
    const struct dirent *item;
    struct buf dead = {0};

    if (directory == NULL) {
        listing->error = errno;
        close(listing->directory);
        return;
    }
    while ((item = readdir(directory)) != NULL && listing->error == 0) {
        struct str name = str_of(item->d_name);
        struct stat status;
        if (!str_is(name, ".") && !str_is(name, "..") &&
            fstatat(dirfd(directory), item->d_name, &status, flags) == 0 &&
            (S_ISDIR(status.st_mode) || S_ISREG(status.st_mode))) {
            load_member(listing, dirfd(directory), item->d_name, &dead);
            add_member(listing, name, &status, buf_str(&dead));
        }
        listing->error = listing->members.capacity > listing->members_max ? EFBIG : 0;
    }
    buf_free(&dead);
    closedir(directory);
}

static void put_member(struct listing *listing, const struct member *member)
{
    struct arena *arena = &listing->arena;
    struct str name = {(const char *) (member + 1), member->name_length};
    bool has_slash = str_ends(listing->uri, STR("/"));
    const struct str uri[] = {listing->uri, has_slash ? STR_NONE : STR("/"), name,
                              S_ISDIR(member->status.st_mode) ? STR("/") : STR_NONE};
    const struct str path[] = {listing->path, STR("/"), name};

    struct resource resource = {.uri = arena_join(arena, uri, 4),
                                .path = arena_join(arena, path, 3),
                                .name = name,
                                .status = &member->status};

    dead_parse(arena, (struct str){name.data + name.len + 1, member->dead_length}, &resource.dead);
    put_resource(listing, &resource);
    arena_free(arena);
}

/* Writes the beginning and the resource itself. */
static void begin_listing(struct listing *listing)
{
    struct str name = listing->uri;

    while (name.len > 1 && name.data[name.len - 1] == '/') {
        name.len--;
    }
    const char *slash = str_find_last_char(name, '/');
    if (slash != NULL && name.len > 1) {
        name = str_from(slash + 1, name.data + name.len);
    }
    buf_append(listing->out, STR("<?xml version=\"1.0\" encoding=\"utf-8\" ?>\n"
                                 "<D:multistatus xmlns:D=\"DAV:\">\n"));
    struct resource resource = {.uri = listing->uri,
                                .path = listing->path,
                                .name = name,
                                .status = &listing->status};
    dead_parse(&listing->arena, buf_str(&listing->dead), &resource.dead);
    put_resource(listing, &resource);
    arena_free(&listing->arena);
}

/* Writes some more members; a struct body_maker. */
static bool propfind_make_some(void *arg, struct buf *out)
{
    struct listing *listing = arg;

    listing->out = out;
    if (!listing->has_begun) {
        listing->has_begun = true;
        begin_listing(listing);
    }
    for (unsigned n = 0; n < MEMBERS_A_TURN && listing->at < listing->members.len; n++) {
        const struct member *member =
            (const struct member *) (const void *) (listing->members.data + listing->at);
        put_member(listing, member);
        listing->at += member->size;
    }
    if (listing->at < listing->members.len) {
        return true;
    }
    buf_append(out, STR("</D:multistatus>\n"));
    return false;
}

/* ---- the request ---- */

static void drop_listing(void *arg)
{
    struct listing *listing = arg;

    buf_free(&listing->members);
    buf_free(&listing->dead);
    arena_free(&listing->arena);
}

/* Reads the requested properties and the depth. A missing Depth means 0, as in the reference. */
static enum handler_result read_request(struct request *request, struct listing *listing,
                                        bool *is_deep)
{
    enum dav_depth depth = dav_depth_of(&request->headers);
    struct str body;

    if (depth == DEPTH_INVALID) {
        log_error(&request->log, 0, "client sent invalid \"Depth\" header: \"%.*s\"",
                  STR_ARG(fields_find(&request->headers, STR("Depth"))->value));
        return request_fail(request, 400);
    }
    if (depth == DEPTH_INFINITY) {
        return request_fail(request, 403); /* error condition propfind-finite-depth */
    }
    *is_deep = depth == DEPTH_1;
    enum handler_result result = dav_ext_read_body(request, &body);
    if (result == HANDLER_NEXT && !propfind_parse(&request->arena, body, &listing->wanted)) {
        log_error(&request->log, 0, "client sent an invalid PROPFIND body");
        return request_fail(request, 400);
    }
    return result;
}

/* Opens the resource. Symbolic links are not followed where disable_symlinks forbids them. */
static enum handler_result open_resource(struct request *request, struct listing *listing,
                                         bool is_deep)
{
    if (!dav_ext_path(request, &listing->path)) {
        return HANDLER_FAIL;
    }
    struct file *file = file_stat(request, listing->path);
    if (file->error != 0) {
        return request_fail_file(request, file);
    }
    listing->status = (struct stat){.st_mtime = file->mtime,
                                    .st_size = (off_t) file->size,
                                    .st_mode = file->is_directory ? S_IFDIR : S_IFREG};
    file_release(file);
    if (is_deep && S_ISDIR(listing->status.st_mode)) {
        int fd = file_open_directory(request, listing->path);
        listing->directory = fd == -1 ? -1 : openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int error = errno;
        if (fd != -1) {
            close(fd);
        }
        if (listing->directory == -1) {
            log_error(&request->log, error, "opendir() \"%.*s\" failed", STR_ARG(listing->path));
            return request_fail(request, error == ENOENT ? 404 : 403);
        }
    }
    return HANDLER_NEXT;
}

/* Reads the stored dead properties of the resource itself. */
static void load_resource(struct request *request, struct listing *listing)
{
    int fd = dav_ext_open(request, listing->path);

    if (fd != -1) {
        dead_load(fd, &listing->dead);
        close(fd);
    }
}

/* Reads the names in the directory. They count towards request_memory_limit and are refused where
 * they would exceed it: a client that does not read the response keeps them, and a piece of the
 * response, in memory. MAY WAIT. */
static enum handler_result read_members(struct request *request, struct listing *listing)
{
    const struct arena_account *account = request->arena.account;
    size_t left = account->limit > account->used ? account->limit - account->used : 0;

    listing->members_max = account->limit == 0 || left > MEMBERS_MAX ? MEMBERS_MAX : left;
    enum handler_result result =
        offload_result(request, offload_run(&dav_pool, request, read_on_thread, listing));
    if (result != HANDLER_NEXT) {
        close(listing->directory);
        return result;
    }
    if (listing->error != 0) {
        counters_mine->limited += listing->error == EFBIG;
        log_error(&request->log, listing->error, "the listing of \"%.*s\" failed",
                  STR_ARG(listing->path));
        return request_fail(request, listing->error == EFBIG ? 507 : 500);
    }
    request_count_memory(request, listing->members.capacity);
    return HANDLER_NEXT;
}

enum handler_result dav_propfind(struct request *request)
{
    const struct dav_ext_settings *settings = dav_ext_settings_at(request->location);
    struct listing *listing = arena_new(&request->arena, struct listing);
    bool is_deep;

    listing->directory = -1;
    listing->has_dead = (settings->methods & METHOD_PROPPATCH) != 0;
    arena_init(&listing->arena);
    enum handler_result result = read_request(request, listing, &is_deep);
    result = result != HANDLER_NEXT ? result : open_resource(request, listing, is_deep);
    if (result != HANDLER_NEXT) {
        return result;
    }
    if (listing->has_dead) {
        load_resource(request, listing);
    }
    listing->has_locks = settings->zone != NULL;
    if (listing->has_locks) {
        const struct lock_view view = {&request->arena, listing->path, clock_now.now_ms};

        lock_list(settings->zone->limit.table, &view, loop_share, &listing->locks);
    }
    listing->uri = request->uri;
    listing->follows_links = request->location->files->disable_symlinks == SYMLINKS_ALLOWED;
    arena_on_free(&request->arena, drop_listing, listing);
    result = listing->directory == -1 ? HANDLER_NEXT : read_members(request, listing);
    if (result != HANDLER_NEXT) {
        return result;
    }
    dav_ext_describe(request, 207);
    return response_produced(request, 207, STR("text/xml"),
                             &(struct body_maker){propfind_make_some, listing, NULL});
}
