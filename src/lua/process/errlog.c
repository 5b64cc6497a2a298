/* What ngx.errlog does (library/process/errlog.lua). */
#include "lua/vm/log.h"
#include "lua/vm/names.h"
#include "lua/vm/thread.h"

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
