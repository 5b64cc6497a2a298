/* How much CPU time the control groups of this process allow. */
#ifndef SERVER_PROCESS_CPU_QUOTA_H
#define SERVER_PROCESS_CPU_QUOTA_H

/*
 * CPUs that the process may use by the quotas of its control group and of its parents (cpu.max of
 * version 2, cpu.cfs_quota_us of version 1), rounded up, at least 1; UINT_MAX = no quota, or
 * unknown. groups: "/proc/self/cgroup"; root: "/sys/fs/cgroup". In a container both may show the
 * container's view: then its own group is the root.
 */
unsigned cpu_quota(const char *groups, const char *root);

#endif
