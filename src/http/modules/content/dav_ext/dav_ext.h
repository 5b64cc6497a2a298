/* What the files of the module dav_ext share.
 * Implemented in dav_ext.c, guard.c, lock.c, propfind.c and proppatch.c. */
#ifndef HTTP_MODULES_CONTENT_DAV_EXT_DAV_EXT_H
#define HTTP_MODULES_CONTENT_DAV_EXT_DAV_EXT_H

#include "base/buf.h"
#include "http/modules/content/dav_ext/bodies.h"
#include "http/modules/content/dav_ext/locks.h"
#include "http/routing/settings.h"
#include "shared/limit/zone.h"

struct request;

/* A zone of locks. */
struct lock_zone {
    struct limit_zone limit;
    uint64_t timeout_ms; /* the longest duration of a lock */
};

struct dav_ext_settings {
    unsigned methods;       /* bits METHOD_PROPFIND and others */
    struct lock_zone *zone; /* NULL = no locks */
};

const struct dav_ext_settings *dav_ext_settings_at(const struct http_location *location);

/* Maps request->uri to a path without trailing or repeated slashes, NUL-terminated. False: status
 * set. */
bool dav_ext_path(struct request *request, struct str *path);
/* The same for another URL or path of this location, as header fields have it; empty if it does not
 * belong to this location. */
struct str dav_ext_path_of(struct request *request, struct str url);

/* Opens a file or directory to work on its attributes, subject to disable_symlinks; the caller
 * closes it. -1 with errno. */
int dav_ext_open(struct request *request, struct str path);

/* Reads the body of a PROPFIND, PROPPATCH or LOCK. MAY WAIT. HANDLER_NEXT: it is in *out. */
enum handler_result dav_ext_read_body(struct request *request, struct str *out);

/* Writes text as the contents of an element; characters that XML does not allow become '?'. */
void put_xml(struct buf *out, struct str text);
/* Writes <D:activelock> for each lock (struct lock). */
void put_active_locks(struct buf *out, struct arena *arena, const struct vec *locks);

/* Sets the charset and the reason phrase of an XML response. */
void dav_ext_describe(struct request *request, unsigned status);
/* Responds with this XML. Takes over the buffer. */
enum handler_result dav_ext_answer(struct request *request, unsigned status, struct buf *body);

/* ---- methods: MAY WAIT ---- */

enum handler_result dav_propfind(struct request *request);
enum handler_result dav_proppatch(struct request *request);
enum handler_result dav_lock(struct request *request);
enum handler_result dav_unlock(struct request *request);

/* ---- locks (guard.c) ---- */

/* A check before methods that change something: evaluates If, then the locks. HANDLER_NEXT: the
 * method is allowed. */
enum handler_result dav_guard(struct request *request);
/* After DELETE and MOVE: releases the locks of what was removed. */
enum handler_result dav_forget(struct request *request);

#endif
