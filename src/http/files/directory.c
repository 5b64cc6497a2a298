/* Opens and reads directories. */
#define _GNU_SOURCE
#include "http/files/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/fatal.h"
#include "event/loop.h"
#include "http/files/listing.h"
#include "http/files/path.h"
#include "http/routing/file_settings.h"

enum {
    NAMES_A_TURN = 32,  /* entries that are read before other requests get a turn */
    FIRST_ENTRIES = 16, /* initial size of a listing */
    RUN_LENGTH = 1024   /* entries that are sorted at once */
};

static enum handler_result fail_open(struct request *request, const char *path, int error)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG:
        if (request->location->files->log_not_found) {
            log_error(&request->log, error, "opendir() \"%s\" failed", path);
        }
        return request_fail(request, 404);
    case EACCES:
        log_error(&request->log, error, "opendir() \"%s\" failed", path);
        return request_fail(request, 403);
    default:
        log_crit(&request->log, error, "opendir() \"%s\" failed", path);
        return request_fail(request, 500);
    }
}

enum handler_result directory_open(struct directory *directory, struct request *request)
{
    size_t root_length;
    struct str path;

    *directory = (struct directory){.request = request};
    if (!request_map_path(request, &path, &root_length)) {
        return HANDLER_FAIL;
    }
    /* Without the trailing slash, except for the root directory. */
    const char *name = arena_cstr(&request->arena, str_head(path, path.len > 1 ? path.len - 1 : 1));
    directory->stream = opendir(name);
    return directory->stream != NULL ? HANDLER_NEXT : fail_open(request, name, errno);
}

/* The status of the target of a name, or of the link itself if it is dangling. */
static bool look_at_entry(struct request *request, int fd, const char *name, struct stat *st)
{
    if (fstatat(fd, name, st, 0) == 0) {
        return true;
    }
    if (errno == EACCES) {
        return false;
    }
    if (errno != ENOENT && errno != ELOOP) {
        log_crit(&request->log, errno, "stat() \"%s\" failed", name);
        return false;
    }
    if (fstatat(fd, name, st, AT_SYMLINK_NOFOLLOW) == 0) {
        return true;
    }
    if (errno != ENOENT) { /* it may have been removed since */
        log_crit(&request->log, errno, "lstat() \"%s\" failed", name);
    }
    return false;
}

static bool is_shown(const struct directory *directory, const char *name)
{
    if (name[0] != '.') {
        return true;
    }
    return directory->shows_hidden && name[1] != '\0' && (name[1] != '.' || name[2] != '\0');
}

/* Gives other requests a turn from time to time, since a directory may have any number of names.
 * MAY WAIT. False: the request ends. */
static bool has_turn(struct directory *directory)
{
    if (++directory->looked_at % NAMES_A_TURN != 0) {
        return true;
    }
    return !directory->request->main->is_over_memory && loop_share();
}

bool directory_next(struct directory *directory, struct directory_entry *out)
{
    const struct dirent *item;
    struct stat st;

    while ((item = has_turn(directory) ? readdir(directory->stream) : NULL) != NULL) {
        if (!is_shown(directory, item->d_name) ||
            (directory->hides_symlinks &&
             fstatat(dirfd(directory->stream), item->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
             S_ISLNK(st.st_mode)) ||
            !look_at_entry(directory->request, dirfd(directory->stream), item->d_name, &st)) {
            continue;
        }
        *out = (struct directory_entry){
            .name = str_of(item->d_name),
            .mtime = st.st_mtime,
            .size = (uint64_t) st.st_size,
            .is_directory = S_ISDIR(st.st_mode),
            .is_file = S_ISREG(st.st_mode),
        };
        return true;
    }
    return false;
}

void directory_close(struct directory *directory)
{
    closedir(directory->stream);
    directory->stream = NULL;
}

/* ---- whole listings ---- */

static void free_entries(void *arg)
{
    free(((struct vec *) arg)->items);
}

/* Doubles the capacity. The array is on the heap, because an arena would keep all smaller ones. */
static void grow(struct request *request, struct vec *entries)
{
    size_t added = entries->capacity == 0 ? FIRST_ENTRIES : entries->capacity;
    size_t size = (entries->capacity + added) * sizeof(struct directory_entry);
    void *items = realloc(entries->items, size);

    if (items == NULL) {
        fatal_no_memory(size);
    }
    entries->items = items;
    entries->capacity += added;
    request_count_memory(request, added * sizeof(struct directory_entry));
}

/* Merges two adjacent runs of `from` to one in `to`. */
static void merge(const struct directory_view *view, struct directory_entry *to,
                  const struct directory_entry *from, size_t left, size_t right)
{
    const struct directory_entry *a = from, *b = from + left;

    while (left != 0 && right != 0) {
        if (view->compare(a, b, view->arg) <= 0) {
            *to++ = *a++;
            left--;
        } else {
            *to++ = *b++;
            right--;
        }
    }
    memcpy(to, left != 0 ? a : b, (left + right) * sizeof(*to));
}

/* Merges runs of this length to runs of twice that. MAY WAIT. False: the request ends. */
static bool merge_runs(const struct directory_view *view, struct vec *entries,
                       struct directory_entry *to, size_t length)
{
    const struct directory_entry *from = entries->items;

    for (size_t at = 0; at < entries->count; at += 2 * length) {
        size_t left = entries->count - at < length ? entries->count - at : length;
        size_t rest = entries->count - at - left;

        merge(view, to + at, from + at, left, rest < length ? rest : length);
        if (!loop_share()) {
            return false;
        }
    }
    return true;
}

/* Merges sorted runs until only one is left. MAY WAIT. False: the request ends. */
static bool merge_all(struct request *request, const struct directory_view *view,
                      struct vec *entries)
{
    size_t size = entries->count * sizeof(struct directory_entry);
    struct directory_entry *other = malloc(size);
    bool is_good = true;

    if (other == NULL) {
        fatal_no_memory(size);
    }
    request_count_memory(request, size);
    for (size_t length = RUN_LENGTH; is_good && length < entries->count; length *= 2) {
        is_good = merge_runs(view, entries, other, length);
        struct directory_entry *former = entries->items;
        entries->items = other;
        other = former;
    }
    request_uncount_memory(request, size);
    free(other);
    return is_good;
}

/* MAY WAIT. False: the request ends. */
static bool sort(struct request *request, const struct directory_view *view, struct vec *entries)
{
    for (size_t at = 0; at < entries->count; at += RUN_LENGTH) {
        size_t left = entries->count - at;

        qsort_r(vec_at(entries, struct directory_entry, at), left < RUN_LENGTH ? left : RUN_LENGTH,
                sizeof(struct directory_entry), view->compare, view->arg);
        if (!loop_share()) {
            return false;
        }
    }
    return entries->count <= RUN_LENGTH || merge_all(request, view, entries);
}

bool directory_read(struct directory *directory, const struct directory_view *view,
                    struct vec *entries)
{
    struct request *request = directory->request;
    struct directory_entry entry;

    *entries = (struct vec){0};
    arena_on_free(&request->arena, free_entries, entries);
    while (directory_next(directory, &entry)) {
        if (view->is_ignored != NULL && view->is_ignored(view->arg, entry.name)) {
            continue;
        }
        if (entries->count == entries->capacity) {
            grow(request, entries);
        }
        entry.name = arena_dup(&request->arena, entry.name);
        *vec_at(entries, struct directory_entry, entries->count++) = entry;
    }
    directory_close(directory);
    return !request->main->is_over_memory && loop_share() && sort(request, view, entries);
}

/* ---- names in listings ---- */

void listing_put_escaped(struct buf *out, struct str text, enum escape_set set)
{
    char *at = buf_reserve(out, escape_length(text, set));

    out->len += (size_t) (escape_write(at, text, set) - at);
}

/* The first `count` characters: code points of UTF-8, or bytes. */
static struct str first_characters(struct str text, size_t count, bool is_utf8)
{
    struct str rest = text;

    if (!is_utf8) {
        return str_head(text, count);
    }
    while (count-- != 0 && rest.len != 0) {
        utf8_next(&rest);
    }
    return str_head(text, text.len - rest.len);
}

size_t listing_put_name(struct buf *out, struct str name, size_t most, size_t shown, bool is_utf8)
{
    size_t width = is_utf8 ? utf8_length(name) : name.len;

    if (width <= most) {
        listing_put_escaped(out, name, ESCAPE_HTML);
        return width;
    }
    listing_put_escaped(out, first_characters(name, shown, is_utf8), ESCAPE_HTML);
    buf_append(out, STR("..&gt;"));
    return width;
}
