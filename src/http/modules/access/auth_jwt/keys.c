/* Key sets from files and from subrequests. */
#include <errno.h>
#include <sys/stat.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "base/fs.h"
#include "base/list.h"
#include "http/modules/access/auth_jwt/auth_jwt.h"
#include "http/request/single_flight.h"
#include "http/request/subrequest.h"

#define KEPT_MAX 64 /* sets that a worker caches */
/* A file that was changed less than this before it was read may change again unnoticed. */
#define SETTLED_S 2
#define RENEW_PART 4 /* a set is renewed in the last quarter of its lifetime */

/* A cached set, or the state of the request for it. */
struct kept_keys {
    struct list used;            /* in kept_list, most recently used first */
    struct str name;             /* stored after this struct */
    struct jose_keys *keys;      /* or NULL */
    uint64_t read_ms;            /* when `keys` was read */
    struct stat status;          /* of a file */
    bool is_settled;             /* the file had not changed recently when it was read */
    struct single_flight flight; /* of a subrequest */
};

static struct list kept_list; /* of this worker; all zero before its first use */
static unsigned kept_count;

/* ---- the cache ---- */

static void drop(struct kept_keys *kept)
{
    list_remove(&kept->used);
    kept_count--;
    jose_keys_release(kept->keys);
    free(kept);
}

static void drop_surplus(void)
{
    list_each(item, &kept_list) {
        struct kept_keys *kept = container_of(kept_list.prev, struct kept_keys, used);
        if (kept_count <= KEPT_MAX || item->prev != &kept_list) {
            return;
        }
        if (kept->flight.users == 0) {
            drop(kept);
        }
    }
}

/* Finds or makes the entry with this name. */
static struct kept_keys *kept_of(struct str name)
{
    if (kept_list.next == NULL) {
        list_init(&kept_list);
    }
    list_each(item, &kept_list) {
        struct kept_keys *kept = container_of(item, struct kept_keys, used);
        if (str_equal(kept->name, name)) {
            list_remove(item);
            list_push_front(&kept_list, item);
            return kept;
        }
    }
    struct kept_keys *kept = calloc(1, sizeof(*kept) + name.len);
    if (kept == NULL) {
        fatal_no_memory(sizeof(*kept) + name.len);
    }
    str_put((char *) (kept + 1), name);
    kept->name = (struct str){(char *) (kept + 1), name.len};
    single_flight_init(&kept->flight);
    list_push_front(&kept_list, &kept->used);
    kept_count++;
    drop_surplus();
    return kept;
}

void jwt_keys_forget(void)
{
    if (kept_list.next != NULL) {
        list_each(item, &kept_list) {
            drop(container_of(item, struct kept_keys, used));
        }
    }
}

/* References the set as long as the request lives. */
static const struct jose_keys *lend(struct request *request, struct jose_keys *keys)
{
    keys->references++;
    arena_on_free(&request->arena, jose_keys_release, keys);
    return keys;
}

/* ---- parsing ---- */

/* A text to parse on the worker's own stack. */
struct keys_reading {
    struct str text;
    struct str name;
    const struct log *log;
    struct jose_keys *keys;
};

static void read_text(void *arg)
{
    struct keys_reading *reading = arg;

    reading->keys = jose_keys_read(reading->text, reading->log, reading->name);
}

static struct jose_keys *read_keys(const struct log *log, struct str text, struct str name)
{
    struct keys_reading reading = {.text = text, .name = name, .log = log};

    fiber_call_on_main(read_text, &reading);
    return reading.keys;
}

/* Replaces the cached set. NULL: the request failed, and the current set stays. */
static void keep(struct kept_keys *kept, struct jose_keys *keys)
{
    if (keys == NULL) {
        kept->flight.failed_ms = clock_now.now_ms;
        return;
    }
    jose_keys_release(kept->keys);
    kept->keys = keys;
    kept->read_ms = clock_now.now_ms;
    kept->flight.failed_ms = 0;
}

/* ---- files ---- */

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* NULL: unusable; logged. */
static struct jose_keys *read_file(struct request *request, struct str path)
{
    struct arena arena;
    struct str text;
    struct jose_keys *keys = NULL;

    arena_init(&arena);
    if (fs_read_all(&arena, path.data, JOSE_KEYS_TEXT_MAX, &text)) {
        keys = read_keys(&request->log, text, path);
    } else {
        log_at(&request->log, errno == ENOENT ? LOG_ERROR : LOG_CRIT, errno,
               "cannot read the keys \"%.*s\"", STR_ARG(path));
    }
    arena_free(&arena);
    return keys;
}

/* A set from a file is used until the file changes, which is checked by one stat(2), or not at all
 * within auth_jwt_key_cache. */
static enum handler_result keys_of_file(struct request *request, struct str path, uint64_t cache_ms,
                                        const struct jose_keys **out)
{
    struct kept_keys *kept = kept_of(path);
    struct stat status = {.st_size = 0};

    if (kept->keys == NULL || clock_now.now_ms >= kept->read_ms + cache_ms) {
        bool is_there = stat(path.data, &status) == 0;
        if (is_there && !S_ISREG(status.st_mode)) {
            log_error(&request->log, 0, "the keys \"%.*s\" are not a regular file", STR_ARG(path));
            return request_fail(request, 500);
        }
        if (is_there && kept->keys != NULL && kept->is_settled &&
            is_same_file(&status, &kept->status)) {
            kept->read_ms = clock_now.now_ms;
        } else {
            struct jose_keys *keys = read_file(request, path);
            if (keys == NULL) {
                return request_fail(request, 500);
            }
            keep(kept, keys);
            kept->status = status;
            kept->is_settled = status.st_ctim.tv_sec + SETTLED_S < clock_now.seconds;
        }
    }
    *out = lend(request, kept->keys);
    return HANDLER_NEXT;
}

/* ---- subrequests ---- */

/* Parses the response of the subrequest. NULL: unusable; logged. */
static struct jose_keys *read_answer(const struct subrequest *sub)
{
    const struct request *asked = sub->request;

    if (asked->response.status != 200 || sub->is_cut || sub->body.len == 0) {
        log_error(&asked->log, 0, "the request for keys \"%.*s\" was answered with %u",
                  STR_ARG(sub->uri), asked->response.status);
        return NULL;
    }
    return read_keys(&asked->log, sub->body, sub->uri);
}

/* The set is for all clients, so no field of this client is sent, such as a condition or
 * Accept-Encoding, and $host is the server's name. */
static void drop_fields(struct subrequest *sub)
{
    sub->request->headers = (struct fields){.items = NULL};
    sub->request->head.host = STR_NONE;
    sub->request->head.port = STR_NONE;
}

static bool aim(struct request *request, struct str uri, struct subrequest *sub)
{
    *sub = (struct subrequest){
        .output = SUBREQUEST_MEMORY,
        .method = STR("GET"),
        .memory_max = JOSE_KEYS_TEXT_MAX,
        .own_headers = true,
    };
    if (!subrequest_aim(request, uri, sub)) {
        log_error(&request->log, 0, "unsafe URI of auth_jwt_key_request: \"%.*s\"", STR_ARG(uri));
        return false;
    }
    return true;
}

/* Requests a set for this request only, because the URI has variables or nothing is cached. MAY
 * WAIT. */
static enum handler_result ask_alone(struct request *request, struct str uri,
                                     const struct jose_keys **out)
{
    struct subrequest sub;

    if (!aim(request, uri, &sub)) {
        return request_fail(request, 500);
    }
    enum handler_result result = subrequest_run(request, &sub);
    if (result == HANDLER_CLOSED) {
        return HANDLER_CLOSED;
    }
    struct jose_keys *keys = result == HANDLER_DONE ? read_answer(&sub) : NULL;
    if (keys == NULL) {
        return request_fail(request, 500);
    }
    *out = lend(request, keys);
    jose_keys_release(keys);
    return HANDLER_NEXT;
}

/* Requests a set for all requests. HANDLER_NEXT: `kept` has the result. MAY WAIT. */
static enum handler_result ask_for_all(struct request *request, struct str uri,
                                       struct kept_keys *kept)
{
    struct subrequest sub;
    enum handler_result result = HANDLER_FAIL;

    single_flight_begin(&kept->flight);
    if (aim(request, uri, &sub)) {
        sub.prepare = drop_fields;
        sub.own_variables = true;
        result = subrequest_run(request, &sub);
    }
    if (result != HANDLER_CLOSED) {
        keep(kept, result == HANDLER_DONE ? read_answer(&sub) : NULL);
    }
    single_flight_end(&kept->flight);
    return result == HANDLER_CLOSED ? HANDLER_CLOSED : HANDLER_NEXT;
}

/* A subrequest for which its request does not wait; in the arena of the main request. */
struct renewal {
    struct subrequest sub;
    struct kept_keys *kept;
};

static void renewal_answered(struct subrequest *sub)
{
    struct renewal *renewal = container_of(sub, struct renewal, sub);

    keep(renewal->kept, read_answer(sub));
    single_flight_end(&renewal->kept->flight);
}

/* Requests a new set while the current one is still valid, so this request does not wait for it.
 * MAY WAIT for other subrequests of it. */
static void renew(struct request *request, struct str uri, struct kept_keys *kept)
{
    struct renewal *renewal = arena_new(&request->main->arena, struct renewal);

    if (!aim(request, uri, &renewal->sub)) {
        return;
    }
    renewal->kept = kept;
    renewal->sub.prepare = drop_fields;
    renewal->sub.own_variables = true;
    renewal->sub.outlives_client = true;
    renewal->sub.answered = renewal_answered;
    single_flight_begin(&kept->flight);
    if (subrequest_begin(request, &renewal->sub) != HANDLER_DONE) {
        single_flight_end(&kept->flight);
    }
}

static struct kept_keys *kept_of_uri(struct request *request, struct str uri)
{
    struct str name = arena_printf(&request->arena, "request %p %.*s",
                                   (const void *) request->server, STR_ARG(uri));

    return kept_of(name);
}

/* MAY WAIT. */
static enum handler_result keys_for_all(struct request *request, struct str uri, uint64_t cache_ms,
                                        const struct jose_keys **out)
{
    struct kept_keys *kept = kept_of_uri(request, uri);
    enum handler_result result = HANDLER_NEXT;

    kept->flight.users++;
    while (result == HANDLER_NEXT &&
           (kept->keys == NULL || clock_now.now_ms >= kept->read_ms + cache_ms)) {
        if (kept->flight.is_busy) {
            result = single_flight_wait(&kept->flight) ? HANDLER_NEXT : HANDLER_CLOSED;
        } else if (single_flight_has_failed(&kept->flight, KEYS_RETRY_MS)) {
            log_error(&request->log, 0, "the keys \"%.*s\" are not available", STR_ARG(uri));
            result = request_fail(request, 500);
        } else {
            result = ask_for_all(request, uri, kept);
        }
    }
    if (result == HANDLER_NEXT) {
        *out = lend(request, kept->keys);
        if (clock_now.now_ms >= kept->read_ms + cache_ms - cache_ms / RENEW_PART &&
            !kept->flight.is_busy && !single_flight_has_failed(&kept->flight, KEYS_RETRY_MS)) {
            renew(request, uri, kept);
        }
    }
    kept->flight.users--;
    return result;
}

/* ---- both sources ---- */

enum handler_result jwt_keys_of(struct request *request, const struct key_source *source,
                                uint64_t cache_ms, const struct jose_keys **out)
{
    struct str text = template_text(source->text, &request->env);

    if (!source->is_request) {
        return keys_of_file(request, text, source->text->is_constant ? cache_ms : 0, out);
    }
    return source->text->is_constant && cache_ms != 0 ? keys_for_all(request, text, cache_ms, out)
                                                      : ask_alone(request, text, out);
}

/* Requests the set of this source again, unless it is recent. After a failure the cached set stays.
 * MAY WAIT. */
static enum handler_result renew_source(struct request *request, const struct key_source *source,
                                        bool *is_newer)
{
    struct kept_keys *kept = kept_of_uri(request, source->text->constant);
    const struct jose_keys *former = kept->keys;
    enum handler_result result = HANDLER_NEXT;

    if (former == NULL || clock_now.now_ms < kept->read_ms + KEYS_RENEW_MS ||
        single_flight_has_failed(&kept->flight, KEYS_RETRY_MS)) {
        return HANDLER_NEXT;
    }
    kept->flight.users++;
    if (kept->flight.is_busy) {
        result = single_flight_wait(&kept->flight) ? HANDLER_NEXT : HANDLER_CLOSED;
    } else {
        result = ask_for_all(request, source->text->constant, kept);
    }
    *is_newer = *is_newer || kept->keys != former;
    kept->flight.users--;
    return result;
}

enum handler_result jwt_keys_renew(struct request *request, const struct vec *sources,
                                   uint64_t cache_ms, bool *is_newer)
{
    enum handler_result result = HANDLER_NEXT;

    *is_newer = false;
    vec_each(const struct key_source, source, sources) {
        if (result == HANDLER_NEXT && source->is_request && source->text->is_constant &&
            cache_ms != 0) {
            result = renew_source(request, source, is_newer);
        }
    }
    return result;
}
