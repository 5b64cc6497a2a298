/* The program: what the command line requests, in order. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "base/fs.h"
#include "base/hint.h"
#include "config.h"
#include "net/shards/listener.h"
#include "server/configuration/change.h"
#include "server/configuration/generation_life.h"
#include "server/configuration/registry.h"
#include "server/module.h"
#include "server/process/cells.h"
#include "server/process/handed_down.h"
#include "server/process/pid_file.h"
#include "server/process/server.h"
#include "server/process/signals.h"
#include "server/process/title.h"
#include "server/program/about.h"
#include "server/program/kept.h"
#include "server/program/lint_show.h"

static void put_out(struct buf *text, int fd)
{
    fs_write_all(fd, buf_str(text));
    buf_free(text);
}

/* ---- options that only print something */

/* Prints the modules and tables of the configuration, if it can be read; else the linked ones. */
static void show_lists(const struct command_line *options)
{
    struct generation *generation = registry_peek();
    struct buf text = {0};

    if (options->is_about) {
        about_build(&text, generation);
    } else if (options->is_module_list) {
        modules_list(generation, &text);
    }
    put_out(&text, options->is_about ? STDERR_FILENO : STDOUT_FILENO);
    if (options->directive_list != 0) {
        bool as_markdown = options->directive_list > 1;

        text = (struct buf){0};
        conf_list_directives(generation->conf.tables, generation->conf.table_count, &text,
                             as_markdown);
        if (as_markdown) {
            about_variables(&text, generation);
        }
        put_out(&text, STDOUT_FILENO);
    }
    generation_free(generation);
}

/* True when nothing else was requested. */
static bool show_facts(const struct command_line *options)
{
    struct buf text = {0};
    bool has_lists = options->is_about || options->is_module_list || options->directive_list != 0;

    if (options->is_version || options->is_about || options->is_help) {
        about_version(&text);
        if (options->is_help) {
            command_line_usage(&text);
        }
        put_out(&text, STDERR_FILENO);
    }
    if (has_lists) {
        show_lists(options);
    }
    return options->test == 0 && (has_lists || options->is_version || options->is_help);
}

/* ---- -t and -T */

static void dump(const struct conf *conf)
{
    for (const struct conf_file *file = conf->files; file != NULL; file = file->next) {
        if (file->name.len != 0) {
            struct buf text = {0};

            buf_printf(&text, "# configuration file %.*s:\n", STR_ARG(file->name));
            buf_append(&text, file->text);
            buf_append_char(&text, '\n');
            put_out(&text, STDOUT_FILENO);
        }
    }
}

static int test_configuration(const struct command_line *options)
{
    struct generation *generation = options->history != 0
                                        ? kept_read(options->history, hints_are_shown)
                                        : generation_read(NULL, true, hints_are_shown);
    bool is_good = false;

    if (generation != NULL) {
        if (!options->is_quiet) {
            log_write(log_main, LOG_STDERR, 0, "the configuration file %s syntax is ok",
                      server.file_name.data);
        }
        is_good = generation_check(generation) && generation_open(generation, false);
    }
    if (is_good) {
        if (!options->is_quiet) {
            log_write(log_main, LOG_STDERR, 0, "configuration file %s test is successful",
                      server.file_name.data);
        }
        if (options->is_dump) {
            dump(&generation->conf);
        }
        if (options->is_diff) {
            is_good = kept_diff(generation);
        }
    } else {
        log_write(log_main, LOG_STDERR, 0, "configuration file %s test failed",
                  server.file_name.data);
    }
    int status = is_good ? 0 : 1;

    if (is_good && options->is_lint) {
        status = lint_show(generation, options->lint_off);
    }
    if (generation != NULL) {
        log_main = server_last_log();
        generation_free(generation);
    }
    return status;
}

/* ---- serving */

/* Takes the sockets of an older binary or of systemd. */
static void inherit_sockets(void)
{
    const char *list = server_environment("NGINX");

    if (list != NULL && *list != '\0') {
        server.is_upgrade = true;
        shards_inherit(str_of(list), log_main);
        handed_down_take();
    } else {
        shards_inherit_systemd(log_main);
    }
}

static void tell_facts(void)
{
    struct utsname system;
    struct rlimit files;

    log_notice(log_main, 0, "using the \"epoll\" event method");
    log_notice(log_main, 0, "Portunus/%s", PORTUNUS_VERSION);
    log_notice(log_main, 0, "nginx/%s", NGINX_COMPAT_VERSION);
    log_notice(log_main, 0, "built by %s", BUILT_BY);
    if (uname(&system) == 0) {
        log_notice(log_main, 0, "OS: %s %s", system.sysname, system.release);
    }
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        log_notice(log_main, 0, "getrlimit(RLIMIT_NOFILE): %llu:%llu",
                   (unsigned long long) files.rlim_cur, (unsigned long long) files.rlim_max);
    }
}

static int run_service(struct generation *generation)
{
    const struct core_settings *core = generation->core;

    signals_ignore();
    if (core->daemon && !server.is_upgrade && !daemon_start(log_main)) {
        return 1;
    }
    signals_hold();
    change_started(generation); /* before other processes see the pid file */
    if (!pid_file_write(core->pid_path)) {
        return 1;
    }
    if (core->daemon) {
        standard_error_to_log(log_main);
    }
    log_is_starting = false;
    server_first_log_close();
    daemon_is_ready();
    return core->master_process ? master_run(generation) : single_run(generation);
}

static int main_serve(void)
{
    if (!cells_init()) {
        log_emerg(log_main, errno, "mmap() failed");
        return 1;
    }
    inherit_sockets();
    struct generation *generation = generation_read(NULL, false, hints_are_shown);

    if (generation == NULL) {
        return 1;
    }
    if (!generation_check(generation) || !generation_open(generation, true)) {
        generation_free(generation);
        return 1;
    }
    tell_facts();
    return run_service(generation);
}

/* -s: sends the signal to the master whose number is in the pid file. Gives the exit status. */
static int signal_master(struct str pid_path, struct str word)
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

/* For rollback, which has to work although the file is wrong. */
static int send_to_any(struct str word)
{
    struct generation *generation = generation_peek();
    const struct conf_node *row = kept_row(generation, "pid");
    int status = signal_master(conf_full_name(&generation->conf,
                                              row == NULL ? STR(DEFAULT_PID) : row->args[1], false),
                               word);

    generation_free(generation);
    return status;
}

static int send_signal(const struct command_line *options)
{
    if (str_is(options->signal, "rollback") || str_is(options->signal, "confirm")) {
        return send_to_any(options->signal);
    }
    struct generation *generation = generation_read(NULL, true, hints_are_shown);
    int status = 1;

    if (generation != NULL) {
        status = signal_master(generation->core->pid_path, options->signal);
        generation_free(generation);
    }
    return status;
}

int main(int argc, char **argv)
{
    struct buf error = {0};
    const struct command_line *options = &server.options;

    fatal_report = log_fatal;
    clock_update();
    if (!command_line_parse(&server.options, argc, argv, &error)) {
        log_write(log_main, LOG_STDERR, 0, "%.*s", STR_ARG(buf_str(&error)));
        buf_free(&error);
        return 1;
    }
    if (!server_prepare(argc, argv, environ)) {
        return 1;
    }
    if (show_facts(options)) {
        server_free();
        return 0;
    }
    hints_are_shown = options->test > (options->is_dump ? 2 : 1) || isatty(STDERR_FILENO) == 1;
    server_first_log();
    title_init(argc, argv, environ);
    environ = server.environment;

    int status = options->is_history && options->history == 0 ? kept_list()
                 : options->test != 0                         ? test_configuration(options)
                 : options->signal.len != 0                   ? send_signal(options)
                                                              : main_serve();
    server_free();
    return status;
}
