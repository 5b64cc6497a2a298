/* What ngx.errlog does (library/process/errlog.lua). The captured error log is a ring of bytes,
 * with a header before each line. */
#include "lua/process/capture.h"

#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "lua/vm/log.h"
#include "lua/vm/names.h"
#include "lua/vm/thread.h"

/* What stands before a line's bytes. */
struct kept_line {
    uint32_t len;
    uint32_t level;
    double time; /* seconds since 1970, as the clock of the loop had it */
};

struct script_capture {
    struct log_tap tap;
    pthread_mutex_t lock; /* threads of pools write lines as well */
    bool is_open; /* this process serves: what it says of its own start is no script's business */
    enum log_level level; /* the least important that is kept: ngx.errlog.set_filter_level */
    size_t size;          /* bytes of ring */
    size_t start;         /* where the oldest line begins */
    size_t used;          /* bytes of all that are kept */
    char *ring;
};

/* Called by FFI (library/process/errlog.lua). 1: done; 0: lua_capture_error_log is not set; -1:
 * that is no level. */
int script_ffi_capture_filter(int level);
/* The oldest line, which is removed: its bytes (LOG_LINE_MAX at most) and their number. -1: there
 * is none; -2: lua_capture_error_log is not set. */
int script_ffi_capture_take(char *line, int *level, double *time);

/* This thread is between lock and unlock. A signal handler (lua_time_limit) that writes a line then
 * must not wait for it. */
static __thread volatile bool is_inside;

static void lock(struct script_capture *capture)
{
    is_inside = true;
    pthread_mutex_lock(&capture->lock);
}

static void unlock(struct script_capture *capture)
{
    pthread_mutex_unlock(&capture->lock);
    is_inside = false;
}

static void ring_read(const struct script_capture *capture, size_t from, void *to, size_t count)
{
    size_t at = (capture->start + from) % capture->size;
    size_t first = count < capture->size - at ? count : capture->size - at;

    memcpy(to, capture->ring + at, first);
    memcpy((char *) to + first, capture->ring, count - first);
}

static void ring_add(struct script_capture *capture, const void *data, size_t count)
{
    size_t at = (capture->start + capture->used) % capture->size;
    size_t first = count < capture->size - at ? count : capture->size - at;

    memcpy(capture->ring + at, data, first);
    memcpy(capture->ring, (const char *) data + first, count - first);
    capture->used += count;
}

static struct kept_line oldest(const struct script_capture *capture)
{
    struct kept_line kept;

    ring_read(capture, 0, &kept, sizeof(kept));
    return kept;
}

static void drop_oldest(struct script_capture *capture)
{
    size_t count = sizeof(struct kept_line) + oldest(capture).len;

    capture->start = (capture->start + count) % capture->size;
    capture->used -= count;
}

static void script_capture_take(struct log_tap *tap, enum log_level level, struct str line)
{
    struct script_capture *capture = container_of(tap, struct script_capture, tap);
    const struct kept_line kept = {.len = (uint32_t) line.len,
                                   .level = level,
                                   .time = (double) clock_now.seconds +
                                           clock_now.milliseconds / 1000.0};

    if ((!capture->is_open && script_running() == NULL) || level > capture->level ||
        sizeof(kept) + line.len > capture->size || is_inside) {
        return;
    }
    lock(capture);
    while (capture->used + sizeof(kept) + line.len > capture->size) {
        drop_oldest(capture);
    }
    ring_add(capture, &kept, sizeof(kept));
    ring_add(capture, line.data, line.len);
    unlock(capture);
}

static void script_capture_end(void *arg)
{
    struct script_capture *capture = arg;

    log_tap_remove(&capture->tap);
    pthread_mutex_destroy(&capture->lock);
}

struct script_capture *script_capture_new(struct arena *arena, size_t size)
{
    struct script_capture *capture = arena_new(arena, struct script_capture);

    *capture = (struct script_capture){.tap = {.take = script_capture_take},
                                       .level = LOG_DEBUG,
                                       .size = size,
                                       .ring = arena_alloc(arena, size)};
    pthread_mutex_init(&capture->lock, NULL);
    log_tap_add(&capture->tap);
    arena_on_free(arena, script_capture_end, capture);
    return capture;
}

void script_capture_begin(struct script_capture *capture)
{
    if (capture != NULL) {
        capture->is_open = true;
    }
}

static struct script_capture *capture_of_running(void)
{
    return script_running() != NULL ? script_running()->subject->vm->options->capture : NULL;
}

int script_ffi_capture_filter(int level)
{
    struct script_capture *capture = capture_of_running();

    if (capture == NULL) {
        return 0;
    }
    if (level < LOG_STDERR || level > LOG_DEBUG) {
        return -1;
    }
    capture->level = (enum log_level) level;
    return 1;
}

int script_ffi_capture_take(char *line, int *level, double *time)
{
    struct script_capture *capture = capture_of_running();
    int len = -1;

    if (capture == NULL) {
        return -2;
    }
    lock(capture);
    if (capture->used != 0) {
        struct kept_line kept = oldest(capture);

        ring_read(capture, sizeof(kept), line, kept.len);
        drop_oldest(capture);
        *level = (int) kept.level;
        *time = kept.time;
        len = (int) kept.len;
    }
    unlock(capture);
    return len;
}

/* ---- raw_log and get_sys_filter_level ---- */

/* Called by FFI. */
int script_ffi_log_level(void);
void script_ffi_log_raw(int level, const char *data, size_t len);

int script_ffi_log_level(void)
{
    return (int) script_log_of(script_running())->level;
}

void script_ffi_log_raw(int level, const char *data, size_t len)
{
    const struct log *log = script_log_of(script_running());

    if (level <= (int) log->level) {
        log_write_text(log, (enum log_level) level, (struct str){data, len});
    }
}

/* The same for FFI code of users. */
static int log_raw(void *r, int level, const unsigned char *data, size_t len)
{
    (void) r;
    if (level < LOG_STDERR || level > LOG_DEBUG) {
        return -1;
    }
    script_ffi_log_raw(level, (const char *) data, len);
    return 0;
}
SCRIPT_FFI_NAME(log_raw, raw_log);
