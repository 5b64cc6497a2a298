/* Zones of uploadprogress: the progress of uploads, by identifier. */
#ifndef HTTP_MODULES_STATUS_UPLOADPROGRESS_UPLOADS_H
#define HTTP_MODULES_STATUS_UPLOADPROGRESS_UPLOADS_H

#include <stdatomic.h>

#include "shared/limit/zone.h"

/* One upload, in shared memory. Protected by the table's lock, except for `received`. */
struct upload {
    struct shm_record head;
    _Atomic uint64_t received; /* bytes of the body so far; written by its process, read by all */
    int64_t length;            /* Content-Length; -1 = none */
    uint64_t until_ms;         /* after its end: when it expires */
    uint32_t process;          /* pid of the process that handles it */
    uint32_t status;           /* status of its response, after its end */
    uint32_t has_ended;        /* 0 or 1 */
    uint32_t padding;
};

#define UPLOAD_ZONES                                                                               \
    {                                                                                              \
        .state = "http upload_progress", .directive = "upload_progress",                           \
        .label = "upload_progress", .size = sizeof(struct limit_zone),                             \
        .record_size = sizeof(struct upload), .head_size = 0                                       \
    }

enum upload_begun {
    UPLOAD_BEGUN,
    UPLOAD_RUNS, /* another upload with this identifier is in progress */
    UPLOAD_FULL, /* the zone is full of uploads in progress */
};

/* Begins an upload; *out is its record, which is valid until upload_end. An upload with the same
 * identifier that has ended, or whose process has died, is replaced. */
enum upload_begun upload_begin(struct shm_table *table, struct str name, int64_t length,
                               struct upload **out);
/* Adds received bytes. Needs no lock. */
void upload_received(struct upload *upload, uint64_t more);
/* Ends the upload with this status, and keeps the record until this time. */
void upload_end(struct shm_table *table, struct upload *upload, unsigned status, uint64_t until_ms);
/* Copies the current state. False: there is no such upload. */
bool upload_find(struct shm_table *table, struct str name, struct upload *out);

#endif
