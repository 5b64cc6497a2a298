/* `config_history`: the configurations that ran, each in a file of a directory. Private to
 * src/server. Implemented in history.c and history_record.c. */
#ifndef SERVER_CONFIGURATION_HISTORY_H
#define SERVER_CONFIGURATION_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "server/generation.h"

#define HISTORY_DIRECTORY "config_history" /* default; relative to the run prefix */
#define HISTORY_MOST 1000                  /* configurations that may be kept */
#define HISTORY_NUMBER_MOST 99999999

/* A file with a certificate or a revocation list that a configuration names. Keys are neither
 * copied nor hashed. */
struct history_certificate {
    struct history_certificate *next;
    struct str name;        /* full */
    unsigned char hash[32]; /* SHA-256 of the file; zeros: the file could not be read */
};

/* One stored configuration. */
struct history_entry {
    unsigned number;         /* from 1 */
    unsigned before;         /* the one that ran before it; 0 = none */
    uint64_t time_s;         /* when it was read, seconds since the epoch */
    struct conf_file *files; /* in the order in which they were read */
    struct history_certificate *certificates;
};

/* The contents of the directory's file `state`. */
struct history_state {
    unsigned running;   /* 0 = not known */
    unsigned return_to; /* runs again unless `running` is confirmed; 0 = it is confirmed */
};

/*
 * Parses the text of a record (without its checksum) into an entry, whose strings are slices of it.
 * False: malformed. The number of files and certificates is bounded by the text's size: each takes
 * bytes of it.
 */
bool history_parse(struct arena *arena, struct str text, struct history_entry *out);

/* Appends the text of a record, with its checksum at the end. */
void history_write(struct buf *out, const struct history_entry *entry);

/* Takes the checksum off the end of a record. False: it is missing or wrong. */
bool history_strip_checksum(struct str *text);

/* Takes the next line of *rest, which must be this name, a space and a number. */
bool history_take_number(struct str *rest, const char *name, uint64_t most, uint64_t *out);

/* Reads a record into the arena. False after a message to the main log. */
bool history_load(struct arena *arena, struct str directory, unsigned number,
                  struct history_entry *out);

/* Reads the state. False, without a message, if it cannot be read. */
bool history_state_load(struct str directory, struct history_state *out);

/* Writes the state of a generation that runs; a failure is logged. Does nothing for a generation
 * without a record. */
void history_state_keep(const struct generation *generation, unsigned return_to);

/*
 * Stores a configuration that is about to run, unless its text is that of the running one; `old` is
 * the latter, NULL at the start. Sets next->kept. Records in excess of `config_history` are
 * removed, oldest first, but not `return_to`. If a record cannot be written, that is logged and
 * there is none. Waits for the disk.
 */
void history_keep(struct generation *next, struct generation *old, unsigned return_to);

/* `nginx --history`: a line for each record. False after a message. */
bool history_list(struct str directory, struct buf *out);

/* The certificates that a tree names, with their present hashes. */
struct history_certificate *history_certificates(struct conf *conf);

#endif
