/* What ngx.errlog does (library/process/errlog.lua). */
#include "lua/vm/log.h"
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
