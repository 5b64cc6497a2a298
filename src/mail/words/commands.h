/* What clients of mail say: commands of POP3 (RFC 1939), IMAP (RFC 3501) and SMTP (RFC 5321). Pure
 * functions on slices. Implemented in commands.c and imap.c. */
#ifndef MAIL_WORDS_COMMANDS_H
#define MAIL_WORDS_COMMANDS_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/str.h"

enum {
    MAIL_ARGS_MAX = 11,    /* words that a command may have after its name: of SMTP */
    MAIL_FEW_ARGS_MAX = 3, /* words that a command of POP3 or IMAP may have after its name */
    IMAP_TAG_MAX = 32,     /* bytes of a tag */
};

/* A command as it was said. */
struct mail_command {
    struct str tag;  /* of IMAP; else empty */
    struct str name; /* as written: names have no case */
    struct str args[MAIL_ARGS_MAX];
    unsigned count; /* of args */
};

/*
 * Each takes a line without its end. False: it is no command: too many words, a carriage return
 * inside, nothing. Slices of *out point into the line.
 */
bool smtp_command_read(struct str line, struct mail_command *out);
/* What follows USER and PASS is one word, blanks and all. */
bool pop3_command_read(struct str line, struct mail_command *out);

/*
 * How much of the input is one command of IMAP, whose lines may end with literals ("{5}", and
 * "{5+}" which nobody waits for: RFC 7888). `seen` is kept by the caller, zero at the command's
 * beginning: nothing is looked at twice.
 */
enum imap_extent {
    IMAP_MORE,    /* more of it must come */
    IMAP_LITERAL, /* the client waits for the permission to send a literal; ask again then */
    IMAP_WHOLE,   /* seen: its length, the end of its last line included */
    IMAP_ENDLESS, /* a literal that nobody can take follows unasked: what is command and what is not
                     is unknown from here on */
};
struct imap_seen {
    size_t size;     /* bytes of whole lines, and of the literals before them */
    size_t expected; /* bytes of the literal that comes next */
    size_t looked;   /* bytes in which no line ends after that */
};
enum imap_extent imap_command_extent(struct str input, struct imap_seen *seen);

/*
 * Reads a whole command, with its line ends. Words with escapes are made in the arena. False: it is
 * none; out->tag is what can be answered to, "*" where there is no tag.
 */
bool imap_command_read(struct str text, struct arena *arena, struct mail_command *out);

static inline bool mail_command_is(const struct mail_command *command, const char *name)
{
    return str_equal_nocase(command->name, str_of(name));
}

#endif
