/* Where our rows differ from the facts, each with its reason. Read by test_directives.c alone. */
#ifndef TESTS_REFERENCE_DEVIATIONS_H
#define TESTS_REFERENCE_DEVIATIONS_H

#include <stddef.h>

/* What differs; MISSING: we have no such row, EXTRA: the facts know none in this module. */
enum aspect { CONTEXTS, KIND, ARGUMENTS, DEFAULT, MISSING, EXTRA };

struct deviation {
    const char *module; /* ours */
    const char *name;
    enum aspect aspect;
    const char
        *ours; /* what our row says; NULL: that depends on configure; empty for MISSING and EXTRA */
    const char *reason;
};

#define CORE "ngx_core_module"
#define HTTP "ngx_http_core_module"

static const struct deviation deviations[] = {
    /* Defaults that a table cannot hold, or that say the same in other words. */
    {CORE, "user", DEFAULT, NULL, "configure says who"},
    {CORE, "force_exit", DEFAULT, "",
     "an older name: the default is in the row of worker_shutdown_timeout, none"},
    {CORE, "thread_stack_size", DEFAULT, "", "has no effect, in Tengine neither"},
    {CORE, "worker_threads", DEFAULT, "", "has no effect, in Tengine neither"},
    {"ngx_dso_module", "path", DEFAULT, NULL, "configure says where, relative to the run prefix"},
    {"ngx_regex_module", "pcre_jit", DEFAULT, "on",
     "expressions match the same, faster; nginx has it off for builds of PCRE of long ago"},
    {HTTP, "client_body_temp_path", DEFAULT, "",
     "configure says where; made when no level of the configuration has one"},
    {HTTP, "error_log", DEFAULT, "", "inherited from the main level, which has the default"},
    {HTTP, "listen", DEFAULT, "",
     "depends on the user, so code decides: *:80, or *:8000 without root's rights"},
    {HTTP, "max_ranges", DEFAULT, "2147483647", "no limit, as a number"},
    {HTTP, "open_file_cache_retest", DEFAULT, "",
     "an older name: the default is in the row of open_file_cache_valid"},
    {HTTP, "optimize_server_names", DEFAULT, "",
     "an older name: the default is in the row of server_name_in_redirect"},
    {HTTP, "client_body_buffers", DEFAULT, "", "has no effect, in Tengine since 2.3 neither"},
    {HTTP, "client_body_postpone_size", DEFAULT, "", "has no effect, in Tengine since 2.3 neither"},
    {HTTP, "server_info", DEFAULT, "off",
     "users of nginx expect plain pages; server_admin, which only Tengine has, turns it on"},
    {HTTP, "satisfy_any", DEFAULT, "", "an older name: the default is in the row of satisfy"},
    {HTTP, "server_name", DEFAULT, "",
     "a server without names gets the empty one when its block was read"},
    {HTTP, "types", DEFAULT, "", "the three types are there when no level has a block of its own"},
    {"ngx_http_log_module", "access_log", DEFAULT, "",
     "the default log is opened when no level has one"},
    {"ngx_http_log_module", "log_format", DEFAULT, "", "\"combined\" is always there"},

    /* Arguments. */
    {HTTP, "error_page", ARGUMENTS, "1+",
     "Tengine's \"error_page default\" has one; the count is checked when the row is read"},
    {HTTP, "keepalive_disable", ARGUMENTS, "1+",
     "all three words may be named, each more than once"},

    /* Not there yet: these are unknown directives until what they belong to is built. */
    {CORE, "pipe_set_size", MISSING, "", "comes with logs to a pipe"},
    {HTTP, "gzip_disable", MISSING, "", "comes with gzip"},
    {HTTP, "gzip_http_version", MISSING, "", "comes with gzip"},
    {HTTP, "gzip_proxied", MISSING, "", "comes with gzip"},
    {HTTP, "gzip_vary", MISSING, "", "comes with gzip"},
    {HTTP, "retry_cached_connection", MISSING, "", "comes with upstream connections"},

    /* Ours by another name or place. */
    {"ngx_dso_module", "include", MISSING, "",
     "the include of ngx_conf_module works in this block, too"},
    {HTTP, "try_files", MISSING, "",
     "in ngx_http_try_files_module, as nginx has it; Tengine 2 had it here"},
    {"ngx_errlog_module", "xquic_log", MISSING, "",
     "of Tengine's QUIC library, which is not used here"},
};

#undef CORE
#undef HTTP

#endif
