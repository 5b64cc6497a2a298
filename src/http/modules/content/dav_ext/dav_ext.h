/* What the files of the module dav_ext share.
 * Implemented in dav_ext.c, guard.c, lock.c, propfind.c and proppatch.c. */
#ifndef HTTP_MODULES_CONTENT_DAV_EXT_DAV_EXT_H
#define HTTP_MODULES_CONTENT_DAV_EXT_DAV_EXT_H

#include "base/buf.h"
#include "http/modules/content/dav_ext/bodies.h"
#include "http/modules/content/dav_ext/locks.h"
#include "http/request/request.h"
#include "shared/limit/zone.h"

/* A zone of locks. */
struct lock_zone {
    struct limit_zone limit;
    uint64_t timeout_ms; /* that a lock lasts at most */
};

struct dav_ext_settings {
    unsigned methods;       /* of METHOD_PROPFIND and so on */
    struct lock_zone *zone; /* NULL = there are no locks */
};

const struct dav_ext_settings *dav_ext_settings_at(const struct http_location *location);

/* What request->uri leads to: a path without a slash at its end or doubled ones, NUL-terminated.
 * False: status set. */
bool dav_ext_path(struct request *request, struct str *path);
/* The same of another URL or path of this place, as fields name it; empty where it is none of ours.
 */
struct str dav_ext_path_of(struct request *request, struct str url);

/* Opens a file or a directory to work on its attributes, as disable_symlinks allows it; the caller
 * closes it. -1 with errno. */
int dav_ext_open(struct request *request, struct str path);

/* The body of a PROPFIND, PROPPATCH or LOCK. MAY WAIT. HANDLER_NEXT: it is in *out. */
enum handler_result dav_ext_read_body(struct request *request, struct str *out);

/* Text as contents of an element: what XML has no characters for becomes '?'. */
void put_xml(struct buf *out, struct str text);
/* <D:activelock> of each (struct lock). */
void put_active_locks(struct buf *out, struct arena *arena, const struct vec *locks);

/* Charset and reason of an answer in XML. */
void dav_ext_describe(struct request *request, unsigned status);
/* The answer: XML. Takes over the buffer. */
enum handler_result dav_ext_answer(struct request *request, unsigned status, struct buf *body);

/* ---- the methods: MAY WAIT ---- */

enum handler_result dav_propfind(struct request *request);
enum handler_result dav_proppatch(struct request *request);
enum handler_result dav_lock(struct request *request);
enum handler_result dav_unlock(struct request *request);

/* ---- what locks forbid (guard.c) ---- */

/* In front of methods that change something: If is judged, locks are heeded. HANDLER_NEXT: it may
 * go on. */
enum handler_result dav_guard(struct request *request);
/* Afterwards: what is gone is not locked any more. */
enum handler_result dav_forget(struct request *request);

#endif
