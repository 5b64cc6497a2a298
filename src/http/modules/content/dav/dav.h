/* What the files of the module dav share. Implemented in dav.c and transfer.c. */
#ifndef HTTP_MODULES_CONTENT_DAV_DAV_H
#define HTTP_MODULES_CONTENT_DAV_DAV_H

#include "base/fs_tree.h"
#include "http/request/request.h"
#include "http/routing/file_settings.h"

/* What a request acts on: an open parent directory, and a name in it. */
struct dav_target {
    struct str path; /* the full path, without a trailing slash; NUL-terminated */
    struct fs_location at;
    bool is_collection; /* the URI ends with a slash */
    bool is_root; /* the directory of root or alias itself: no method removes or replaces it */
};

/* Maps request->uri to a path and opens the parent directory, which is closed with the request.
 * HANDLER_NEXT; or HANDLER_FAIL: a missing directory gives missing_status. */
enum handler_result dav_target_open(struct request *request, struct dav_target *target,
                                    unsigned missing_status);

/* Calls `run` on a thread; arg must not be on the stack. MAY WAIT. HANDLER_NEXT: it has run. */
enum handler_result dav_offload(struct request *request, void (*run)(void *arg), void *arg);

/* Logs that a call failed for a path and sets the status: missing_status if something is
 * missing. */
enum handler_result dav_fail(struct request *request, int error, const char *call, struct str path,
                             unsigned missing_status);

/* True if the request has a body: logged, 415. `methods` names the methods in the log message. */
bool dav_refuses_body(struct request *request, const char *methods);

/* Checks the field Depth: absent or infinity, or 0 unless is_tree. False: logged, 400. */
bool dav_check_depth(struct request *request, bool is_tree);

/* Responds with the status 201 or 204, with a Location if has_location. */
enum handler_result dav_answer(struct request *request, unsigned status, bool has_location);

/* Does disable_symlinks allow symbolic links for this request? */
static inline bool dav_follows_links(const struct request *request)
{
    return request->location->files->disable_symlinks == SYMLINKS_ALLOWED;
}

/* COPY and MOVE. MAY WAIT. */
enum handler_result dav_transfer(struct request *request);

#endif
