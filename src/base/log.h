/* The error log: records, levels, contexts and the sinks they go to.
 * Implemented in log.c and log_syslog.c. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/str.h"

enum log_level {
    LOG_STDERR, /* always shown, without a level in brackets */
    LOG_EMERG,
    LOG_ALERT,
    LOG_CRIT,
    LOG_ERROR,
    LOG_WARN,
    LOG_NOTICE,
    LOG_INFO,
    LOG_DEBUG,
};

#define LOG_LINE_MAX                                                                               \
    4096 /* bytes of one line, its newline included; more than most frames should hold */

/* "emerg" and so on; log_level_parse is the inverse, false for an unknown word. */
extern const struct str log_level_names[LOG_DEBUG + 1];
bool log_level_parse(struct str word, enum log_level *out);

/*
 * A destination of lines. Sinks are chained in the order of the configuration. All sinks and access
 * logs with the same path share the descriptor (struct log_file), so that reopening replaces it
 * once.
 */
struct log_sink {
    struct log_sink *next;
    enum log_level level;  /* the least important level that is written */
    bool is_json;          /* lines are JSON objects */
    struct log_file *file; /* a file or standard error; NULL when write is set */
    /* Syslog or memory: gets the line without its newline. NULL for a file. */
    void (*write)(struct log_sink *, enum log_level, struct str line);
    void *data; /* for write */
};

/* An open log file, once per path and generation. */
struct log_file {
    struct log_file *next;
    struct str path; /* NUL-terminated; empty for standard error */
    int fd;          /* O_APPEND; -1 until opened */
    /* Called before a reopen: writes the lines that an access log has buffered; or NULL. */
    void (*flush)(struct log_file *);
    void *data;        /* for flush */
    time_t full_since; /* the second in which the disk was full; no writes in that second */
    bool is_secret;    /* created with mode 0600 */
};

/*
 * The context of a line: a process, a connection, a request. describe adds ", client: …, server: …"
 * to the line.
 */
struct log {
    struct log_sink *sinks; /* not owned */
    enum log_level level;   /* the least important level that any sink takes; test it first */
    uint64_t connection;    /* the number after '*'; 0 = none */
    const char *action;     /* "reading client request line"; NULL = none */
    /* Adds its part to the end of the line; or NULL. It writes names with log_member, so that they
     * are members in JSON, too. */
    void (*describe)(const struct log *log, struct writer *out);
    void *subject; /* for describe */
};

/* For describe: writes ", NAME: ". The value is what is written up to the next log_member, with or
 * without quotes. The name is static. */
void log_member(struct writer *out, const char *name);

/* Sees each line that goes to the sinks, in the text format, without its newline. */
struct log_tap {
    struct log_tap *next;
    /* Called on the thread that writes. Must not log. */
    void (*take)(struct log_tap *, enum log_level, struct str line);
};
void log_tap_add(struct log_tap *tap);
void log_tap_remove(struct log_tap *tap);

/* The log of the process; never NULL. Standard error until a configuration has its own. */
extern struct log *log_main;

/* During start, warnings and worse also go to standard error as "nginx: [level] …". */
extern bool log_is_starting;

/* Writes a record. error is an errno value or 0; it is shown as " (2: No such file or
 * directory)". */
void log_write(const struct log *log, enum log_level level, int error, const char *format, ...)
    __attribute__((format(printf, 4, 5), cold));

/*
 * Writes a message whose line ends are kept, such as that of a script with its traceback; any
 * bytes. With level LOG_STDERR it goes to the sinks as well. What describe adds is one line.
 */
void log_write_text(const struct log *log, enum log_level level, struct str text)
    __attribute__((cold));

#define log_at(log, wanted, error, ...)                                                            \
    do {                                                                                           \
        if (__builtin_expect((log)->level >= (wanted), 0)) {                                       \
            log_write(log, wanted, error, __VA_ARGS__);                                            \
        }                                                                                          \
    } while (0)

#define log_emerg(log, error, ...) log_at(log, LOG_EMERG, error, __VA_ARGS__)
#define log_alert(log, error, ...) log_at(log, LOG_ALERT, error, __VA_ARGS__)
#define log_crit(log, error, ...) log_at(log, LOG_CRIT, error, __VA_ARGS__)
#define log_error(log, error, ...) log_at(log, LOG_ERROR, error, __VA_ARGS__)
#define log_warn(log, error, ...) log_at(log, LOG_WARN, error, __VA_ARGS__)
#define log_notice(log, error, ...) log_at(log, LOG_NOTICE, error, __VA_ARGS__)
#define log_info(log, error, ...) log_at(log, LOG_INFO, error, __VA_ARGS__)
#ifdef WITH_DEBUG
#define log_debug(log, error, ...) log_at(log, LOG_DEBUG, error, __VA_ARGS__)
#else
#define log_debug(log, error, ...)                                                                 \
    do {                                                                                           \
        if (0) {                                                                                   \
            log_write(log, LOG_DEBUG, error, __VA_ARGS__);                                         \
        }                                                                                          \
    } while (0)
#endif

/* The least important level that any sink of a chain takes. */
enum log_level log_chain_level(const struct log_sink *sink);

/* For fatal_report: an emerg line to the main log. */
void log_fatal(int error, const char *text);

/* Opens for appending, with mode 0644; false after an emerg line. */
bool log_file_open(struct log_file *file, const struct log *log);
/* Opens the path again and replaces the file behind the descriptor (dup3). */
bool log_file_reopen(struct log_file *file, const struct log *log);

/* Syslog in the format of RFC 3164 or RFC 5424 to a unix or UDP address, for error_log and
 * access_log. */
struct syslog_target;
/*
 * Parses what follows "syslog:" (server=…,facility=…,severity=…,tag=…,nohostname, or Tengine's
 * facility[:level[:target[:port][:ident]]]; format=rfc5424). NULL with a reason in *error when it
 * is invalid. Resolves a host name, which may wait. Memory is from the arena; the socket is opened
 * at first use and closed with the arena.
 */
struct syslog_target *syslog_target_parse(struct arena *arena, struct str text, struct str *error);
/* Sends one message; severity < 0: the target's own. Never waits; a failure is logged at most once
 * a minute. */
void syslog_send(struct syslog_target *target, int severity, struct str message);
/* The write function of a log_sink whose data is a struct syslog_target; the severity follows from
   the level. */
void syslog_sink_write(struct log_sink *sink, enum log_level level, struct str line);

#endif
