/* Tests of syslog targets: what may be configured, what is sent, what happens without a receiver.
 */
#include "base/unit.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

static struct arena arena;
static char folder[] = "/tmp/test_syslog.XXXXXX";
static const char *socket_path;
static int lines_count;
static struct str last_line;

static void keep_line(struct log_sink *sink, enum log_level level, struct str line)
{
    last_line = arena_dup(&arena, line);
    lines_count++;
}

static struct log_sink memory_sink = {.level = LOG_ALERT, .write = keep_line};
static struct log memory_log = {.sinks = &memory_sink, .level = LOG_ALERT};

static int set_up(void **state)
{
    arena_init(&arena);
    if (mkdtemp(folder) == NULL) {
        return -1;
    }
    log_main = &memory_log;
    log_is_starting = false;
    return 0;
}

static int tear_down(void **state)
{
    return rmdir(folder);
}

static int each_set_up(void **state)
{
    arena_init(&arena);
    socket_path = arena_printf(&arena, "%s/socket", folder).data;
    lines_count = 0;
    return 0;
}

static int each_tear_down(void **state)
{
    unlink(socket_path);
    arena_free(&arena);
    return 0;
}

static int listen_unix(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);

    strcpy(address.sun_path, socket_path);
    assert_int_equal(bind(fd, (struct sockaddr *) &address, sizeof(address)), 0);
    return fd;
}

/* A UDP socket on a free port of the loopback; -1 where the family is missing. */
static int listen_udp(int family, unsigned *port)
{
    struct sockaddr_in ip4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 ip6 = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    struct sockaddr *address =
        family == AF_INET ? (struct sockaddr *) &ip4 : (struct sockaddr *) &ip6;
    socklen_t size = family == AF_INET ? sizeof(ip4) : sizeof(ip6);
    int fd = socket(family, SOCK_DGRAM, 0);

    if (fd < 0 || bind(fd, address, size) != 0) {
        close(fd);
        return -1;
    }
    assert_int_equal(getsockname(fd, address, &size), 0);
    *port = ntohs(family == AF_INET ? ip4.sin_port : ip6.sin6_port);
    return fd;
}

static struct str received(int fd)
{
    char bytes[4096];
    ssize_t n = recv(fd, bytes, sizeof(bytes), 0);

    assert_true(n >= 0);
    return arena_dup(&arena, (struct str){bytes, (size_t) n});
}

static struct syslog_target *target_of(const char *format, const char *value)
{
    struct str error = STR_NONE;
    char text[256];

    snprintf(text, sizeof(text), format, value);
    struct syslog_target *target = syslog_target_parse(&arena, str_of(text), &error);
    if (target == NULL) {
        fail_msg("\"%s\": %.*s", text, STR_ARG(error));
    }
    return target;
}

/* "Nov  6 08:49:37" as the C library has it. */
static const char *date_now(void)
{
    char text[32];
    struct tm tm;

    localtime_r(&clock_now.seconds, &tm);
    strftime(text, sizeof(text), "%b %e %H:%M:%S", &tm);
    return arena_cstr(&arena, str_of(text));
}

/* The reasons are those of Debian's nginx. */
static void bad_parameters_are_refused_with_a_reason(void **state)
{
    static const struct {
        const char *text;
        const char *reason;
    } bad[] = {
        {"server=unix:/a,facility=foo", "unknown syslog facility \"foo\""},
        {"server=unix:/a,facility=LOCAL7", "unknown syslog facility \"LOCAL7\""},
        {"server=unix:/a,severity=foo", "unknown syslog severity \"foo\""},
        {"server=unix:/a,severity=err", "unknown syslog severity \"err\""},
        {"server=unix:/a,tag=a-b",
         "syslog \"tag\" only allows alphanumeric characters and underscore"},
        {"server=unix:/a,tag=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "syslog tag length exceeds 32"},
        {"server=unix:/a,zz", "unknown syslog parameter \"zz\""},
        {"server=unix:/a,nohostname=1", "unknown syslog parameter \"nohostname=1\""},
        {"server=unix:/a,", "unknown syslog parameter \"\""},
        {"server=unix:/a,,nohostname", "unknown syslog parameter \"\""},
        {"", "unknown syslog parameter \"\""},
        {"facility=kern", "no syslog server specified"},
        {"server=", "no host in syslog server \"\""},
        {"server=:514", "no host in syslog server \":514\""},
        {"server=1.2.3.4:99999", "invalid port in syslog server \"1.2.3.4:99999\""},
        {"server=1.2.3.4:0", "invalid port in syslog server \"1.2.3.4:0\""},
        {"server=1.2.3.4:", "invalid port in syslog server \"1.2.3.4:\""},
        {"server=[::1", "invalid address in syslog server \"[::1\""},
        {"server=[::1]5", "invalid address in syslog server \"[::1]5\""},
        {"server=unix:", "no path in the unix domain socket in syslog server \"unix:\""},
        {"server=unix:/a,server=unix:/b", "duplicate syslog \"server\""},
        {"server=unix:/a,facility=kern,facility=kern", "duplicate syslog \"facility\""},
        {"server=unix:/a,severity=info,severity=info", "duplicate syslog \"severity\""},
        {"server=unix:/a,tag=a,tag=a", "duplicate syslog \"tag\""},
        {"zz:info", "unknown syslog facility \"zz\""},
        {":info:127.0.0.1", "unknown syslog facility \"\""},
        {"user:err", "unknown syslog severity \"err\""},
        {"user:info:127.0.0.1:0:x", "invalid port in syslog server \"127.0.0.1:0\""},
        {"user:info:[::1", "invalid address in syslog server \"[\""},
        {"user:info:/a:x:y", "unknown syslog parameter \"y\""},
        {"user:info:127.0.0.1:514:a b",
         "syslog \"tag\" only allows alphanumeric characters and underscore"},
    };

    for (size_t i = 0; i < COUNT(bad); i++) {
        struct str error = STR_NONE;
        assert_null(syslog_target_parse(&arena, str_of(bad[i].text), &error));
        assert_str(error, str_of(bad[i].reason));
    }
    struct str error;
    assert_null(syslog_target_parse(&arena, STR_NONE, &error));
    char text[300];
    snprintf(text, sizeof(text), "server=unix:/%0200d", 0);
    assert_null(syslog_target_parse(&arena, str_of(text), &error));
    assert_true(str_starts(error, STR("too long path in the unix domain socket")));
}

/* Each of Tengine's parts but the first may be missing, or be empty. */
static void colon_form_is_understood(void **state)
{
    static const char *const good[] = {
        "kern",
        "user:",
        "user:info",
        "user::",
        "user:::",
        "user::127.0.0.1",
        "user::127.0.0.1:",
        "user:info:127.0.0.1:514",
        "user:info:127.0.0.1::tag",
        "user:info:127.0.0.1:514:",
        "user:info:::tag",
        "user:info:/dev/log::tag",
        "user:info:[::1]",
        "user:info:[::1]:514:tag",
    };
    int receiver = listen_unix();
    char host[256];

    for (size_t i = 0; i < COUNT(good); i++) {
        target_of("%s", good[i]);
    }
    assert_int_equal(gethostname(host, sizeof(host)), 0);
    target_of("user:warn:%s", socket_path);
    syslog_send(target_of("user:warn:%s:my-app", socket_path), -1, STR("a"));
    assert_str(received(receiver), arena_printf(&arena, "<12>%s %s my-app: a", date_now(), host));
    syslog_send(target_of("user::%s", socket_path), -1, STR("b"));
    assert_str(received(receiver), arena_printf(&arena, "<14>%s %s nginx: b", date_now(), host));
    close(receiver);
}

static void message_has_the_form_of_rfc_3164(void **state)
{
    int receiver = listen_unix();
    char host[256];

    assert_int_equal(gethostname(host, sizeof(host)), 0);
    struct syslog_target *target = target_of("server=unix:%s", socket_path);
    syslog_send(target, -1, STR("a\0b"));
    struct str expected = arena_printf(&arena, "<190>%s %s nginx: a", date_now(), host);
    assert_str(received(receiver), arena_concat(&arena, expected, STR("\0b")));
    syslog_send(target, 0, STR_NONE);
    assert_true(str_starts(received(receiver), STR("<184>")));
    close(receiver);
}

static void parameters_show_in_the_message(void **state)
{
    int receiver = listen_unix();
    struct syslog_target *target =
        target_of("facility=auth,severity=debug,tag=ab_1,nohostname,server=unix:%s", socket_path);
    struct log_sink sink = {.level = LOG_DEBUG, .write = syslog_sink_write, .data = target};

    syslog_send(target, -1, STR("x"));
    assert_str(received(receiver), arena_printf(&arena, "<39>%s ab_1: x", date_now()));
    /* The error log's level decides, whatever severity says. */
    sink.write(&sink, LOG_ERROR, STR("line"));
    assert_str(received(receiver), arena_printf(&arena, "<35>%s ab_1: line", date_now()));
    sink.write(&sink, LOG_EMERG, STR("line"));
    assert_true(str_starts(received(receiver), STR("<32>")));
    close(receiver);
}

static void day_below_ten_is_padded_with_a_blank(void **state)
{
    int receiver = listen_unix();
    struct clock real = clock_now;

    memcpy(clock_now.log_local, "06/Nov/1994:08:49:37 +0000", 26);
    clock_now.seconds = 784111777;
    syslog_send(target_of("nohostname,tag=,server=unix:%s", socket_path), -1, STR("x"));
    clock_now = real;
    assert_text(received(receiver), "<190>Nov  6 08:49:37 : x");
    close(receiver);
}

static void udp_over_both_families(void **state)
{
    unsigned port;
    char text[32];
    int receiver = listen_udp(AF_INET, &port);

    assert_true(receiver >= 0);
    snprintf(text, sizeof(text), "127.0.0.1:%u", port);
    syslog_send(target_of("nohostname,server=%s", text), -1, STR("four"));
    assert_true(str_ends(received(receiver), STR(" nginx: four")));
    close(receiver);

    receiver = listen_udp(AF_INET6, &port);
    if (receiver >= 0) {
        snprintf(text, sizeof(text), "[::1]:%u", port);
        syslog_send(target_of("nohostname,server=%s", text), -1, STR("six"));
        assert_true(str_ends(received(receiver), STR(" nginx: six")));
        close(receiver);
    }
}

static void missing_receiver_is_told_once_a_minute(void **state)
{
    struct syslog_target *target = target_of("server=unix:%s", socket_path);

    clock_update();
    for (int i = 0; i < 10; i++) {
        syslog_send(target, -1, STR("x"));
    }
    assert_int_equal(lines_count, 1);
    struct str expected = arena_printf(&arena,
                                       "connect() failed (2: No such file or directory)"
                                       " while logging to syslog, server: unix:%s",
                                       socket_path);
    assert_true(str_ends(last_line, expected));
    clock_now.now_ms += 60000;
    syslog_send(target, -1, STR("x"));
    assert_int_equal(lines_count, 2);
}

static void receiver_that_was_started_anew_gets_the_next_message(void **state)
{
    struct syslog_target *target = target_of("server=unix:%s", socket_path);
    int receiver = listen_unix();

    syslog_send(target, -1, STR("one"));
    assert_true(str_ends(received(receiver), STR("one")));
    close(receiver);
    unlink(socket_path);
    receiver = listen_unix();
    syslog_send(target, -1, STR("two"));
    assert_true(str_ends(received(receiver), STR("two")));
    assert_int_equal(lines_count, 0);
    close(receiver);
}

static void slow_receiver_does_not_hold_us_up(void **state)
{
    struct syslog_target *target = target_of("server=unix:%s", socket_path);
    int receiver = listen_unix();

    for (int i = 0; i < 10000; i++) {
        syslog_send(target, -1, STR("x"));
    }
    assert_int_equal(lines_count, 1);
    assert_non_null(str_find(last_line, STR("send() failed (11: ")));
    close(receiver);
}

static void failure_of_the_log_itself_does_not_come_back(void **state)
{
    struct syslog_target *target = target_of("server=unix:%s", socket_path);
    struct log_sink sink = {.next = &memory_sink,
                            .level = LOG_DEBUG,
                            .write = syslog_sink_write,
                            .data = target};
    struct log log = {.sinks = &sink, .level = LOG_DEBUG};

    log_main = &log;
    log_alert(log_main, 0, "x");
    log_main = &memory_log;
    assert_int_equal(lines_count, 2); /* the record and the failure, once each */
}

#define test(function) cmocka_unit_test_setup_teardown(function, each_set_up, each_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(bad_parameters_are_refused_with_a_reason),
        test(colon_form_is_understood),
        test(message_has_the_form_of_rfc_3164),
        test(parameters_show_in_the_message),
        test(day_below_ten_is_padded_with_a_blank),
        test(udp_over_both_families),
        test(missing_receiver_is_told_once_a_minute),
        test(receiver_that_was_started_anew_gets_the_next_message),
        test(slow_receiver_does_not_hold_us_up),
        test(failure_of_the_log_itself_does_not_come_back),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
