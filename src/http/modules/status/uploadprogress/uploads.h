/* Zones of uploadprogress: how far the uploads are that clients have named. */
#ifndef HTTP_MODULES_STATUS_UPLOADPROGRESS_UPLOADS_H
#define HTTP_MODULES_STATUS_UPLOADPROGRESS_UPLOADS_H

#include <stdatomic.h>

#include "shared/limit/zone.h"

/* One upload, in shared memory. Its lock is the table's, but `received` is written without. */
struct upload {
    struct shm_record head;
    _Atomic uint64_t
        received;       /* bytes of the body so far; of the process that has it, read by all */
    int64_t length;     /* bytes of the body that were announced; -1 = none were */
    uint64_t until_ms;  /* of one that has ended: when it is forgotten */
    uint32_t process;   /* that works on it */
    uint32_t status;    /* it was answered with, when it has ended */
    uint32_t has_ended; /* 0 or 1 */
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
    UPLOAD_RUNS, /* another one of this name is under way */
    UPLOAD_FULL, /* the zone is full of uploads under way */
};

/* Begins one; *out is its record, which stays until upload_end. An upload of the same name that has
 * ended, or whose process died, gives way. */
enum upload_begun upload_begin(struct shm_table *table, struct str name, int64_t length,
                               struct upload **out);
/* More bytes of it came. Needs no lock. */
void upload_received(struct upload *upload, uint64_t more);
/* It was answered with this status, and is remembered so long. */
void upload_end(struct shm_table *table, struct upload *upload, unsigned status, uint64_t until_ms);
/* A copy of it as it is now. False: there is none of this name. */
bool upload_find(struct shm_table *table, struct str name, struct upload *out);

#endif
