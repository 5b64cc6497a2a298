/* -s: a signal to the master of the pid file. */
#include <errno.h>
#include <signal.h>

#include "server/generation.h"
#include "server/process/pid_file.h"
#include "server/process/server.h"
#include "server/process/signals.h"

int signal_master(struct str pid_path, struct str word)
{
    int signo = signal_of_word(word);

    log_notice(log_main, 0, "signal process started");
    pid_t pid = pid_file_read(pid_path);
    if (pid == 0) {
        return 1;
    }
    if (kill(pid, signo) != 0) {
        log_alert(log_main, errno, "kill(%d, %d) failed", (int) pid, signo);
        return 1;
    }
    return 0;
}
