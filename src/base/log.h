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

/* "emerg" and so on; the inverse gives false for a word that is none. */
extern const struct str log_level_names[LOG_DEBUG + 1];
bool log_level_parse(struct str word, enum log_level *out);

/*
 * A place where lines go. Chained in the order of the configuration. The descriptor is shared by
 * all sinks and access logs of one path (struct log_file), so that reopening replaces it once.
 */
struct log_sink {
    struct log_sink *next;
    enum log_level level;  /* the least important level that is written */
    bool is_json;          /* lines are JSON objects */
    struct log_file *file; /* a file or standard error; NULL when write is set */
    /* Syslog or memory: takes the line without its newline. NULL for a file. */
    void (*write)(struct log_sink *, enum log_level, struct str line);
    void *data; /* of write */
};

/* An open log file, once per path and generation. */
struct log_file {
    struct log_file *next;
    struct str path; /* NUL-terminated; empty for standard error */
    int fd;          /* O_APPEND; -1 until opened */
    /* Writes the lines that an access log gathered, before a reopen; or NULL. */
    void (*flush)(struct log_file *);
    void *data;        /* of flush */
    time_t full_since; /* second in which the disk was found full; no writes in it */
    bool is_secret;    /* made for its owner's eyes alone */
};

/*
 * What a line is about. Contexts are chained: a request's points to its connection's. describe adds
 * ", client: …, server: …" to the line.
 */
struct log {
    struct log_sink *sinks; /* not owned */
    enum log_level level;   /* the least important level that any sink takes: test this first */
    uint64_t connection;    /* number after '*'; 0 = none */
    const char *action;     /* "reading client request line"; NULL = none */
    /* Adds its part to the end of the line; or NULL. Names come from log_member, so that they are
     * members in JSON, too. */
    void (*describe)(const struct log *log, struct writer *out);
    void *subject; /* of describe */
};

/* For describe: ", NAME: ", after which the value is written up to the next log_member, in quotes
 * or not. The name is static. */
void log_member(struct writer *out, const char *name);

/* Somebody who sees each line that goes to a sink, whatever the sink: as the sink gets it, but for
 * the newline. */
struct log_tap {
    struct log_tap *next;
    /* On the thread that writes. May not log. */
    void (*take)(struct log_tap *, enum log_level, struct str line);
};
void log_tap_add(struct log_tap *tap);
void log_tap_remove(struct log_tap *tap);

/* The process's own log; never NULL. Standard error until the configuration says otherwise. */
extern struct log *log_main;

/* During start, warnings and worse also go to standard error as "nginx: [level] …". */
extern bool log_is_starting;

/* Writes a record. error is an errno value or 0, shown as " (2: No such file or directory)". */
void log_write(const struct log *log, enum log_level level, int error, const char *format, ...)
    __attribute__((format(printf, 4, 5), cold));

/*
 * A message whose line ends stay: a script's, with a traceback; of any bytes. At level LOG_STDERR
 * it goes to the sinks all the same. What describe adds is one line.
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

/* Opens for appending, mode 0644; gives false and logs an emerg line when it cannot. */
bool log_file_open(struct log_file *file, const struct log *log);
/* Opens the path again and puts the new file in the old one's descriptor number (dup3). */
bool log_file_reopen(struct log_file *file, const struct log *log);

/* Syslog as RFC 3164 or RFC 5424 lines to a unix or UDP address; what error_log and access_log
 * share. */
struct syslog_target;
/*
 * Parses what follows "syslog:" (server=…,facility=…,severity=…,tag=…,nohostname, or Tengine's
 * facility[:level[:target[:port][:ident]]]; format=rfc5424). Gives NULL and a reason in *error when
 * it is not valid. A host's name is looked up, which may wait. Memory from the arena; the socket is
 * opened when first used and closed with the arena.
 */
struct syslog_target *syslog_target_parse(struct arena *arena, struct str text, struct str *error);
/* Sends one message; severity < 0: the target's own. Never waits; a failure is logged once a minute
 * at most. */
void syslog_send(struct syslog_target *target, int severity, struct str message);
/* A log_sink's write function whose data is a struct syslog_target; the level gives the severity.
 */
void syslog_sink_write(struct log_sink *sink, enum log_level level, struct str line);

#endif
