/* What a worker changes before it serves: user, limits, priority, CPU, directory. */
#define _GNU_SOURCE
#include "server/worker/privileges.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "server/process/affinity.h"
#include "server/process/server.h"

static void set_limit(__rlimit_resource_t resource, const char *name, int64_t value)
{
    struct rlimit limit = {.rlim_cur = (rlim_t) value, .rlim_max = (rlim_t) value};

    if (value >= 0 && setrlimit(resource, &limit) != 0) {
        log_alert(log_main, errno, "setrlimit(%s, %lld) failed", name, (long long) value);
    }
}

static void set_limits(const struct core_settings *core)
{
    if (core->worker_priority != 0 &&
        setpriority(PRIO_PROCESS, 0, (int) core->worker_priority) != 0) {
        log_alert(log_main, errno, "setpriority(%d) failed", (int) core->worker_priority);
    }
    set_limit(RLIMIT_NOFILE, "RLIMIT_NOFILE", core->worker_rlimit_nofile);
    set_limit(RLIMIT_CORE, "RLIMIT_CORE", core->worker_rlimit_core);
    set_limit(RLIMIT_SIGPENDING, "RLIMIT_SIGPENDING", core->worker_rlimit_sigpending);
}

/* Keeps CAP_NET_RAW, which IP_TRANSPARENT needs, over the change of user; no other capability is
   kept. */
static bool restore_net_raw(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {
        {.effective = 1u << CAP_NET_RAW, .permitted = 1u << CAP_NET_RAW}};

    if (syscall(SYS_capset, &header, data) != 0) {
        log_emerg(log_main, errno, "capset() failed");
        return false;
    }
    return true;
}

static bool set_user(const struct core_settings *core, bool keeps_net_raw)
{
    if (geteuid() != 0 || core->user == (uid_t) -1) {
        return true;
    }
    char name[256];

    if (core->user_name.len >= sizeof(name)) {
        log_emerg(log_main, ENAMETOOLONG, "initgroups() failed");
        return false;
    }
    memcpy(name, core->user_name.data, core->user_name.len);
    name[core->user_name.len] = '\0';
    if (setgid(core->group) != 0) {
        log_emerg(log_main, errno, "setgid(%d) failed", (int) core->group);
        return false;
    }
    if (initgroups(name, core->group) != 0) {
        log_emerg(log_main, errno, "initgroups(%s, %d) failed", name, (int) core->group);
    }
    if (keeps_net_raw && prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0) {
        log_emerg(log_main, errno, "prctl(PR_SET_KEEPCAPS, 1) failed");
        return false;
    }
    if (setuid(core->user) != 0) {
        log_emerg(log_main, errno, "setuid(%d) failed", (int) core->user);
        return false;
    }
    return !keeps_net_raw || restore_net_raw();
}

/* The change of user has made the process undumpable; core files are wanted nevertheless. */
static void allow_core_files(void)
{
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0) {
        log_alert(log_main, errno, "prctl(PR_SET_DUMPABLE) failed");
    }
}

bool privileges_drop(const struct generation *generation)
{
    if (!set_user(generation->core, false)) {
        return false;
    }
    allow_core_files();
    return true;
}

bool privileges_apply(const struct generation *generation, unsigned slot)
{
    const struct core_settings *core = generation->core;
    cpu_set_t cpus;

    set_limits(core);
    if (!set_user(core, generation->binds_transparently)) {
        return false;
    }
    if (affinity_choose(core, slot, &server.cpus, &cpus)) {
        affinity_set(&cpus);
    }
    allow_core_files();
    if (core->working_directory.len != 0 && chdir(core->working_directory.data) != 0) {
        log_alert(log_main, errno, "chdir(\"%s\") failed", core->working_directory.data);
        return false;
    }
    return true;
}
