/* What the files of the module dav share. Implemented in dav.c and transfer.c. */
#ifndef HTTP_MODULES_CONTENT_DAV_DAV_H
#define HTTP_MODULES_CONTENT_DAV_DAV_H

#include "base/fs_tree.h"
#include "http/request/request.h"
#include "http/routing/file_settings.h"

/* A place that a request works on: an open directory, and a name in it. */
struct dav_target {
    struct str path; /* the whole of it, without a slash at its end; NUL-terminated */
    struct fs_location at;
    bool is_collection; /* its URI ends with a slash */
    bool is_root;       /* it is what root or alias names: no method removes or replaces that */
};

/*
 * Finds where request->uri leads and opens the directory that holds it, closed with the request.
 * HANDLER_NEXT; else HANDLER_FAIL: what is missing on the way is answered with missing_status.
 */
enum handler_result dav_target_open(struct request *request, struct dav_target *target,
                                    unsigned missing_status);

/* Runs it on a thread; arg may not lie on the stack. MAY WAIT. HANDLER_NEXT: it has run. */
enum handler_result dav_offload(struct request *request, void (*run)(void *arg), void *arg);

/* Logs that a call failed for a path, and answers: what is missing with missing_status. */
enum handler_result dav_fail(struct request *request, int error, const char *call, struct str path,
                             unsigned missing_status);

/* Has it a body? Then true: logged, 415. `methods` is what the log calls them. */
bool dav_refuses_body(struct request *request, const char *methods);

/* May Depth be what it is? Only infinity where is_tree. False: logged, 400. */
bool dav_check_depth(struct request *request, bool is_tree);

/* Answers 201, with Location unless the client knows where it is, or 204. */
enum handler_result dav_answer(struct request *request, unsigned status, bool has_location);

/* Are links followed where the request is? */
static inline bool dav_follows_links(const struct request *request)
{
    return request->location->files->disable_symlinks == SYMLINKS_ALLOWED;
}

/* COPY and MOVE. MAY WAIT. */
enum handler_result dav_transfer(struct request *request);

#endif
