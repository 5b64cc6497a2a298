/* The directives of the main and events levels: what they set, and what is said about bad ones. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/configuration/generation_life.h"
#include "server/process/server.h"

static char directory[] = "/tmp/portunus-conf-XXXXXX";
static struct buf lines;
static struct generation *generation;

static void keep_line(struct log_sink *sink, enum log_level level, struct str line)
{
    buf_append(&lines, line);
    buf_append_char(&lines, '\n');
}

/* Reads a configuration; gives whether it is good. */
static bool read_text(const char *text)
{
    FILE *file = fopen(server.file_name.data, "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    if (generation != NULL) {
        generation_free(generation);
    }
    lines.len = 0;
    generation = generation_read(NULL, true, false);
    return generation != NULL && generation_check(generation);
}

static void assert_says(const char *text, const char *words)
{
    read_text(text);
    if (str_find(buf_str(&lines), str_of(words)) == NULL) {
        print_error("%s\nsaid: %.*s\nnot: %s\n", text, STR_ARG(buf_str(&lines)), words);
        fail();
    }
}

static void assert_refused(const char *text, const char *words)
{
    assert_says(text, words);
    assert_non_null(str_find(buf_str(&lines), STR("[emerg]")));
}

static void defaults(void **state)
{
    assert_true(read_text("events {}"));
    const struct core_settings *core = generation->core;
    const struct events_settings *events = generation->events;

    assert_true(core->daemon);
    assert_true(core->master_process);
    assert_int_equal(core->worker_processes, 1);
    assert_int_equal(core->worker_rlimit_nofile, -1);
    assert_int_equal(core->worker_rlimit_core, -1);
    assert_int_equal(core->affinity_mode, AFFINITY_OFF);
    assert_int_equal(events->worker_connections, 512);
    assert_int_equal(events->epoll_events, 512);
    assert_int_equal(events->worker_aio_requests, 32);
    assert_int_equal(events->accept_mutex_delay_ms, 500);
    assert_false(events->reuse_port_set);
    assert_int_equal(generation->slots, 1);
    assert_false(generation->is_sharded);
    assert_non_null(core->error_log);
    assert_int_equal(core->error_log->level, LOG_ERROR);
}

static void values(void **state)
{
    assert_true(read_text("daemon off; worker_processes 3; worker_priority -5; env A=b; env C;\n"
                          "worker_rlimit_nofile 100; worker_rlimit_core 1m; pid p.pid;\n"
                          "worker_shutdown_timeout 10s; working_directory /tmp; "
                          "thread_pool a threads=2 max_queue=5; worker_cpu_affinity auto 11;\n"
                          "error_log a.log warn; error_log memory:64k info;\n"
                          "events { worker_connections 2000; multi_accept on; use epoll; }"));
    const struct core_settings *core = generation->core;

    assert_false(core->daemon);
    assert_int_equal(core->worker_processes, 3);
    assert_int_equal(core->worker_priority, -5);
    assert_int_equal(core->worker_rlimit_nofile, 100);
    assert_int_equal(core->worker_rlimit_core, 1 << 20);
    assert_int_equal(core->worker_shutdown_timeout_ms, 10000);
    assert_int_equal(core->affinity_mode, AFFINITY_AUTO);
    assert_int_equal(core->affinity.count, 1);
    assert_int_equal(core->environment.count, 3); /* TZ is always there */
    assert_true(str_starts(core->pid_path, str_of(directory)));
    assert_true(str_ends(core->pid_path, STR("/p.pid")));
    assert_int_equal(generation_thread_pool(generation, STR("a"))->max_queue, 5);
    assert_int_equal(generation_thread_pool(generation, STR("default"))->threads, 32);
    assert_null(generation_thread_pool(generation, STR("b")));
    assert_int_equal(core->error_log->level, LOG_WARN);
    assert_int_equal(core->error_log->next->level, LOG_INFO);
    assert_null(core->error_log->next->next);
    assert_true(generation->events->multi_accept);
    assert_true(generation->is_sharded);
    assert_int_equal(generation->slots, 3);
}

static void sharding_follows_what_is_said(void **state)
{
    assert_true(read_text("worker_processes 2; events { reuse_port off; }"));
    assert_false(generation->is_sharded);
    assert_true(read_text("worker_processes 1; events { reuse_port on; }"));
    assert_true(generation->is_sharded);
    assert_true(read_text("worker_processes 4; master_process off; events {}"));
    assert_int_equal(generation->slots, 1);
    assert_false(generation->is_sharded);
}

static void auto_is_the_number_of_cpus(void **state)
{
    server.cpu_count = 7;
    assert_true(read_text("worker_processes auto; events {}"));
    assert_int_equal(generation->slots, 7);
}

static void bad_values_have_the_words_of_nginx(void **state)
{
    static const char *const cases[][2] = {
        {"", "no \"events\" section in configuration"},
        {"events {} events {}", "\"events\" directive is duplicate in "},
        {"worker_processes x;", "\"worker_processes\" directive invalid value in "},
        {"worker_processes -1;", "\"worker_processes\" directive invalid value"},
        {"worker_processes 0;", "\"worker_processes\" directive value must be between 1 and "},
        {"worker_priority x;", "\"worker_priority\" directive invalid number"},
        {"worker_cpu_affinity 012;", "invalid character \"2\" in \"worker_cpu_affinity\""},
        {"worker_cpu_affinity auto 2;", "invalid character \"2\" in \"worker_cpu_affinity\""},
        {"worker_cpu_affinity auto 1 1;",
         "invalid number of arguments in \"worker_cpu_affinity\" directive"},
        {"debug_points x;", "invalid value \"x\""},
        {"worker_rlimit_nofile x;", "\"worker_rlimit_nofile\" directive invalid number"},
        {"worker_rlimit_core x;", "\"worker_rlimit_core\" directive invalid value"},
        {"thread_pool a;", "invalid number of arguments in \"thread_pool\" directive"},
        {"thread_pool a threads=0;", "invalid threads value \"threads=0\""},
        {"thread_pool a threads=2 max_queue=x;", "invalid max_queue value \"max_queue=x\""},
        {"thread_pool a max_queue=1;", "\"thread_pool\" must have \"threads\" parameter"},
        {"thread_pool a threads=2; thread_pool a threads=3;", "duplicate thread pool \"a\""},
        {"events { use foo; }", "invalid event type \"foo\""},
        {"events { use epoll; use epoll; }", "\"use\" directive is duplicate"},
        {"events { worker_connections x; }", "invalid number \"x\""},
        {"events { worker_connections 0; }",
         "0 worker_connections are not enough for 0 listening sockets"},
        {"events { accept_mutex maybe; }",
         "invalid value \"maybe\" in \"accept_mutex\" directive, it must be \"on\" or \"off\""},
        {"events { epoll_events x; }", "\"epoll_events\" directive invalid number"},
        {"error_log;", "invalid number of arguments in \"error_log\" directive"},
        {"error_log e.log foo;", "invalid log level \"foo\""},
        {"error_log e.log info debug_http;", "invalid log level \"debug_http\""},
        {"error_log e.log info warn;", "duplicate log level \"warn\""},
        {"error_log syslog:foo;", "unknown syslog parameter \"foo\""},
        {"error_log memory:1;", "invalid buffer size \"1\""},
        {"events {} load_module x.so;", "\"load_module\" directive is specified too late"},
        {"lock_file l; lock_file m;", "\"lock_file\" directive is duplicate"},
        {"daemon maybe;",
         "invalid value \"maybe\" in \"daemon\" directive, it must be \"on\" or \"off\""},
        {"worker_shutdown_timeout x;", "\"worker_shutdown_timeout\" directive invalid value"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_refused(cases[i][0], cases[i][1]);
    }
}

static void modules_that_cannot_be_loaded(void **state)
{
    assert_says("load_module x.so; events {}", "dlopen() \"");
    assert_says("dso { load no_such_module.so; load other; } events {}", "/no_such_module.so\"");
    assert_non_null(str_find(buf_str(&lines), STR("/other.so\"")));
    assert_refused("load_module /lib/x86_64-linux-gnu/libc.so.6; events {}", "libc.so.6\"");
}

static void modules_that_are_linked_in_are_skipped(void **state)
{
    assert_true(read_text("dso { load ngx_core_module.so; load a ngx_regex_module; } events {}"));
    assert_non_null(str_find(buf_str(&lines), STR("module \"ngx_core_module\" is linked in")));
    assert_true(read_text("load_module modules/ngx_epoll_module.so; events {}"));
}

static void warnings(void **state)
{
    assert_says("events { connections 100; }",
                "the \"connections\" directive is deprecated, use the \"worker_connections\" "
                "directive instead");
    assert_int_equal(generation->events->worker_connections, 100);
    assert_says("worker_processes 3; worker_cpu_affinity 01 10; events {}",
                "the number of \"worker_processes\" is not equal to the number of "
                "\"worker_cpu_affinity\" masks, using last mask for remaining worker processes");
    assert_says("worker_threads 4; events {}", "worker_threads");
}

static void users(void **state)
{
    if (geteuid() != 0) {
        assert_says("user nobody; events {}", "the \"user\" directive makes sense only if");
        return;
    }
    assert_refused("user no-such-user; events {}", "getpwnam(\"no-such-user\") failed in ");
    assert_refused("user root no-such-group; events {}", "getgrnam(\"no-such-group\") failed in ");
    assert_true(read_text("user root; events {}"));
    assert_int_equal(generation->core->user, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(values),
        cmocka_unit_test(sharding_follows_what_is_said),
        cmocka_unit_test(auto_is_the_number_of_cpus),
        cmocka_unit_test(bad_values_have_the_words_of_nginx),
        cmocka_unit_test(modules_that_cannot_be_loaded),
        cmocka_unit_test(modules_that_are_linked_in_are_skipped),
        cmocka_unit_test(warnings),
        cmocka_unit_test(users),
    };
    char *argv[] = {"nginx", "-p", directory, "-c", "nginx.conf", NULL};
    struct log_sink sink = {.level = LOG_INFO, .write = keep_line};
    struct log log = {.sinks = &sink, .level = LOG_INFO};

    if (mkdtemp(directory) == NULL || !server_prepare(5, argv, environ)) {
        return 1;
    }
    log_main = &log;
    log_is_starting = false;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (generation != NULL) {
        generation_free(generation);
    }
    unlink(server.file_name.data);
    server_free();
    rmdir(directory);
    buf_free(&lines);
    return failed;
}
