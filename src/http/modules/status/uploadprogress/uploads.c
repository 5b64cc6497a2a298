/* Zones of uploadprogress: the progress of uploads, by identifier. */
#include "http/modules/status/uploadprogress/uploads.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"

#define LOOKED_AT_MOST 8 /* records that are examined to make space for one */

/* May the record be removed, or reused? Even if no client has had time to ask for the result. */
static bool uploadprogress_uploads_is_over(const struct upload *upload)
{
    return upload->has_ended ? upload->until_ms <= clock_now.now_ms
                             : kill((pid_t) upload->process, 0) == -1 && errno == ESRCH;
}

/* Removes records that have expired and, if there is no space, the one that ended longest ago. */
static struct upload *add_upload(struct shm_table *table, const struct shm_key *key)
{
    struct upload *oldest;

    for (unsigned i = 0; i < LOOKED_AT_MOST; i++) {
        oldest = shm_table_oldest(table);
        if (oldest == NULL || !oldest->has_ended || !uploadprogress_uploads_is_over(oldest)) {
            break;
        }
        shm_table_drop(table, oldest);
    }
    struct upload *added = shm_table_add(table, key);
    for (unsigned i = 0; added == NULL && i < LOOKED_AT_MOST; i++) {
        oldest = shm_table_oldest(table);
        if (oldest == NULL) {
            return NULL;
        }
        if (oldest->has_ended || uploadprogress_uploads_is_over(oldest)) {
            shm_table_drop(table, oldest);
            added = shm_table_add(table, key);
        } else {
            shm_table_touch(table, oldest);
        }
    }
    return added;
}

enum upload_begun upload_begin(struct shm_table *table, struct str name, int64_t length,
                               struct upload **out)
{
    struct shm_key key = shm_table_key(table, name);
    enum upload_begun result = UPLOAD_BEGUN;

    shm_table_lock(table);
    struct upload *upload = shm_table_find(table, &key);
    if (upload != NULL && !upload->has_ended && !uploadprogress_uploads_is_over(upload)) {
        result = UPLOAD_RUNS;
    } else if (upload == NULL && (upload = add_upload(table, &key)) == NULL) {
        result = UPLOAD_FULL;
    } else {
        atomic_store_explicit(&upload->received, 0, memory_order_relaxed);
        upload->length = length;
        upload->process = (uint32_t) getpid();
        upload->status = 0;
        upload->has_ended = false;
        shm_table_touch(table, upload);
        *out = upload;
    }
    shm_table_unlock(table);
    return result;
}

void upload_received(struct upload *upload, uint64_t more)
{
    atomic_fetch_add_explicit(&upload->received, more, memory_order_relaxed);
}

void upload_end(struct shm_table *table, struct upload *upload, unsigned status, uint64_t until_ms)
{
    shm_table_lock(table);
    upload->status = status;
    upload->until_ms = until_ms;
    upload->has_ended = true;
    shm_table_touch(table, upload);
    shm_table_unlock(table);
}

bool upload_find(struct shm_table *table, struct str name, struct upload *out)
{
    struct shm_key key = shm_table_key(table, name);

    shm_table_lock(table);
    struct upload *upload = shm_table_find(table, &key);
    bool is_there = upload != NULL && !uploadprogress_uploads_is_over(upload);
    if (upload != NULL && !is_there) {
        shm_table_drop(table, upload);
    } else if (is_there) {
        *out = *upload;
    }
    shm_table_unlock(table);
    return is_there;
}
