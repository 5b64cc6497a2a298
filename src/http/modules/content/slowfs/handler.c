/* A request for a file of slow storage: served from the cache; else the file is copied, or sent
 * itself. */
#include <string.h>

#include "base/clock.h"
#include "http/client/connection.h"
#include "http/files/kept_body.h"
#include "http/files/path.h"
#include "http/modules/content/slowfs/slowfs.h"

/* How long a request waits while a small file is copied; then it sends the file itself. */
#define WAIT_MOST_MS 5000

/* A file that was changed less than this before it was copied may change again without its times
 * showing it. Longer than the coarsest timestamps of file systems. */
#define SETTLED_S 3

/* One request. */
struct slow {
    struct request *request;
    const struct slowfs_settings *settings;
    struct str path;
    struct cache_access access; /* for its key */
    struct file *file;          /* set when it was opened; referenced */
    struct str status;          /* "HIT" and others, or empty */
    bool has_copied;            /* this request has started a copy, and starts no second one */
};

static const char data_key; /* key of request_data: struct slow * */

struct str slowfs_status(struct request *request)
{
    struct slow *const *slow = request_data(request, &data_key, 0);

    return slow == NULL || *slow == NULL ? STR_NONE : (*slow)->status;
}

static void slow_end(void *arg)
{
    struct slow *slow = arg;

    cache_close(&slow->access);
    if (slow->file != NULL) {
        file_release(slow->file);
    }
}

static void note(struct slow *slow, struct str status, enum cache_counter counter)
{
    if (slow->status.len == 0) {
        slow->status = status;
        cache_count(slow->settings->cache, counter);
    }
}

static void note_found(struct slow *slow, enum cache_found found)
{
    switch (found) {
    case CACHE_FRESH:
        note(slow, STR("HIT"), CACHE_COUNT_HIT);
        break;
    case CACHE_EXPIRED:
        note(slow, STR("EXPIRED"), CACHE_COUNT_EXPIRED);
        break;
    case CACHE_SCARCE:
        note(slow, STR("MISS"), CACHE_COUNT_SCARCE);
        break;
    case CACHE_MISS:
    case CACHE_ERROR:
    case CACHE_FAILED:
        note(slow, STR("MISS"), CACHE_COUNT_MISS);
        break;
    }
}

/* ---- the cached copy ---- */

void slowfs_meta(const struct file *file, unsigned status, uint64_t seconds,
                 struct slowfs_head *head, struct cache_meta *meta)
{
    memset(head, 0, sizeof(*head)); /* its padding is stored as well */
    head->mtime = file->mtime_ns;
    head->ctime = file->ctime_ns;
    head->is_settled = clock_now.seconds - file->ctime_ns.tv_sec > SETTLED_S;
    *meta = (struct cache_meta){
        .valid_until = clock_now.seconds + (time_t) seconds,
        .date = clock_now.seconds,
        .last_modified = status == 200 ? file->mtime : -1,
        .status = status,
        .head = {(const char *) head, sizeof(*head)},
    };
}

/* Is the file still the one that was cached? */
static bool is_unchanged(const struct slow *slow, unsigned status)
{
    const struct cache_meta *meta = &slow->access.meta;
    struct slowfs_head kept;

    if (meta->status != status || meta->head.len != sizeof(kept)) {
        return false;
    }
    memcpy(&kept, meta->head.data, sizeof(kept));
    return status != 200 || (kept.is_settled && meta->body_size == slow->file->size &&
                             kept.mtime.tv_sec == slow->file->mtime_ns.tv_sec &&
                             kept.mtime.tv_nsec == slow->file->mtime_ns.tv_nsec &&
                             kept.ctime.tv_sec == slow->file->ctime_ns.tv_sec &&
                             kept.ctime.tv_nsec == slow->file->ctime_ns.tv_nsec);
}

/* Serves the file as it was when it was copied. MAY WAIT. */
static enum handler_result serve_kept_file(struct slow *slow)
{
    struct request *request = slow->request;
    const struct cache_meta *meta = &slow->access.meta;
    struct file *file = file_of_status(slow->path, meta->body_size, meta->last_modified);

    response_describe_file(request, file, meta->body_size);
    file_release(file);
    request->response.whole = kept_body_whole(&slow->access);
    enum handler_result result = response_start(request);
    if (result != HANDLER_NEXT || request->response.progress == RESPONSE_COMPLETE) {
        return result == HANDLER_NEXT ? HANDLER_DONE : result;
    }
    return response_send_kept(request, &slow->access, true) ? HANDLER_DONE : HANDLER_CLOSED;
}

static enum handler_result serve_kept(struct slow *slow)
{
    switch (slow->access.meta.status) {
    case 200:
        return serve_kept_file(slow);
    case 301:
        return response_directory_slash(slow->request);
    default:
        return request_fail(slow->request, slow->access.meta.status);
    }
}

/* ---- the slow file ---- */

/* Opens the file, once. HANDLER_NEXT: slow->file has the result. MAY WAIT. */
static enum handler_result open_slow(struct slow *slow)
{
    if (slow->file != NULL) {
        return HANDLER_NEXT;
    }
    return offload_result(slow->request, file_open_offloaded(slow->request, &slowfs_pool,
                                                             slow->path, &slow->file));
}

/* Sends the file itself, read by threads. MAY WAIT. */
static enum handler_result serve_slow(struct slow *slow)
{
    struct file *file = slow->file;

    cache_unclaim(&slow->access);
    slow->file = NULL;
    slow->request->response.reads_offloaded = true;
    return response_opened_file(slow->request, file);
}

/* ---- the choice between them ---- */

/* Caches a response without a body: an error, a redirect. */
static void keep_status(struct slow *slow, unsigned status, uint64_t seconds)
{
    struct slowfs_head head;
    struct cache_meta meta;

    slowfs_meta(slow->file, status, seconds, &head, &meta);
    if (cache_fill_begin(&slow->access, slow->settings->temp_path)) {
        cache_fill_commit(&slow->access, &meta);
    }
}

/* Is it a small file? A request waits for a copy only of these. */
static bool is_small(const struct slow *slow)
{
    return file_status(slow->file) == 200 && slow->file->size <= slow->settings->big_file_size;
}

enum kept {
    KEPT_NOW,  /* the cached copy can be served */
    KEPT_SOON, /* wait for the copy */
    KEPT_NOT,  /* send the file itself */
};

/* Called with a claim on the key: refreshes an expired copy that is unchanged, or starts a copy. */
static enum kept slowfs_answer_keep(struct slow *slow, bool is_expired)
{
    unsigned status = file_status(slow->file);
    uint64_t seconds = status == 500 ? 0 : cache_valid_seconds(&slow->settings->valid, status);
    struct slowfs_head head;
    struct cache_meta meta;

    if (seconds == 0 || slow->has_copied) {
        return KEPT_NOT;
    }
    if (is_expired && is_unchanged(slow, status)) {
        slowfs_meta(slow->file, status, seconds, &head, &meta);
        return cache_refresh(&slow->access, &meta) ? KEPT_NOW : KEPT_NOT;
    }
    if (status != 200) {
        keep_status(slow, status, seconds);
        return KEPT_NOT; /* the error is logged when the file itself is served */
    }
    slow->has_copied = true;
    cache_unclaim(&slow->access); /* the copy makes its own claim */
    return slowfs_copy_begin(slow->request, &slow->access, slow->file, seconds) && is_small(slow)
               ? KEPT_SOON
               : KEPT_NOT;
}

/* Looks the key up, and again after waiting for a copy. MAY WAIT. */
static enum handler_result look_and_wait(struct slow *slow)
{
    uint64_t until_ms = clock_now.now_ms + WAIT_MOST_MS;
    enum cache_found found;

    while ((found = cache_open(&slow->access)) != CACHE_FRESH) {
        bool is_mine = found != CACHE_SCARCE && cache_claim(&slow->access, SLOWFS_CLAIM_MS);
        enum kept kept = KEPT_SOON;

        note_found(slow, found);
        enum handler_result result = open_slow(slow);
        if (result != HANDLER_NEXT) {
            cache_unclaim(&slow->access);
            return result;
        }
        if (is_mine) {
            kept = slowfs_answer_keep(slow, found == CACHE_EXPIRED);
        } else if (found == CACHE_SCARCE || !is_small(slow)) {
            kept = KEPT_NOT;
        }
        if (kept == KEPT_NOW) {
            break;
        }
        uint64_t now = clock_now.now_ms;
        if (kept == KEPT_NOT || now >= until_ms) {
            return serve_slow(slow);
        }
        switch (cache_wait(&slow->access, until_ms - now)) {
        case CACHE_LOCK_READY:
            break;
        case CACHE_LOCK_TIMED_OUT:
            return serve_slow(slow);
        case CACHE_LOCK_CANCELLED:
            return HANDLER_CLOSED;
        }
    }
    note_found(slow, CACHE_FRESH);
    return serve_kept(slow);
}

/* ---- the request ---- */

struct str slowfs_key_of(struct request *request, struct str key)
{
    return arena_concat(&request->arena, key, file_access_key(request));
}

static struct slow *slow_new(struct request *request, const struct slowfs_settings *settings,
                             struct str path)
{
    struct slow *slow = arena_new(&request->arena, struct slow);
    struct slow **state = request_data(request, &data_key, sizeof(struct slow *));
    unsigned rounds = connection_hops(request->connection);

    slow->request = request;
    slow->settings = settings;
    slow->path = path;
    slow->access.cache = settings->cache;
    slow->access.arena = &request->arena;
    slow->access.log = &request->log;
    slow->access.min_uses = (unsigned) settings->min_uses;
    slow->access.rounds = rounds < CACHE_ROUNDS ? rounds : CACHE_ROUNDS - 1;
    slow->access.key =
        slowfs_key_of(request,
                      settings->key == NULL ? path : template_text(settings->key, &request->env));
    arena_on_free(&request->arena, slow_end, slow);
    *state = slow;
    return slow;
}

enum handler_result slowfs_answer(struct request *request)
{
    const struct slowfs_settings *settings = location_settings(request->location, &slowfs_key);
    struct str path;
    size_t root_length;

    if ((request->method & (METHOD_GET | METHOD_HEAD)) == 0 || request->uri.len == 0 ||
        request->uri.data[request->uri.len - 1] == '/') {
        return HANDLER_NEXT;
    }
    request->log.action = NULL;
    if (!request_map_path(request, &path, &root_length)) {
        return HANDLER_FAIL;
    }
    return look_and_wait(slow_new(request, settings, path));
}
