/* Commands of clients: POP3 (RFC 1939), IMAP (RFC 3501) and SMTP (RFC 5321). Pure functions on
 * slices. Implemented in commands.c and imap.c. */
#ifndef MAIL_WORDS_COMMANDS_H
#define MAIL_WORDS_COMMANDS_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

enum {
    MAIL_ARGS_MAX = 11,    /* arguments of an SMTP command, at most */
    MAIL_FEW_ARGS_MAX = 3, /* arguments of a POP3 or IMAP command, at most */
    IMAP_TAG_MAX = 32,     /* bytes of a tag */
};

/* A parsed command. */
struct mail_command {
    struct str tag;  /* IMAP; else empty */
    struct str name; /* as sent; compared without case */
    struct str args[MAIL_ARGS_MAX];
    unsigned count; /* of args */
};

/*
 * Parse a line without line end. False: it is not a command (too many arguments, a carriage return
 * inside, empty). Slices of *out point into the line.
 */
bool smtp_command_read(struct str line, struct mail_command *out);
/* Like smtp_command_read, for POP3: what follows USER and PASS is one argument, with its spaces. */
bool pop3_command_read(struct str line, struct mail_command *out);

/*
 * Finds the end of an IMAP command in the input. Its lines may end with literals ("{5}", and
 * "{5+}", for which the client does not wait: RFC 7888). `seen` is kept by the caller, zero at the
 * beginning of a command, so that nothing is searched twice.
 */
enum imap_extent {
    IMAP_MORE,    /* more input is needed */
    IMAP_LITERAL, /* the client waits for permission to send a literal; call again after it */
    IMAP_WHOLE,   /* seen->size is its length, with the last line end */
    IMAP_ENDLESS, /* a literal too large to skip follows without permission: where the next command
                     begins is unknown */
};
struct imap_seen {
    size_t size;     /* bytes of complete lines, and of the literals before them */
    size_t expected; /* bytes of the next literal */
    size_t looked;   /* bytes after that without a line end */
};
enum imap_extent imap_command_extent(struct str input, struct imap_seen *seen);

/*
 * Parses a whole command, with its line ends. Words with escapes are copied to the arena. False:
 * invalid; out->tag is the tag for the response, "*" if there is none.
 */
bool imap_command_read(struct str text, struct arena *arena, struct mail_command *out);

static inline bool mail_command_is(const struct mail_command *command, const char *name)
{
    return str_equal_nocase(command->name, str_of(name));
}

#endif
