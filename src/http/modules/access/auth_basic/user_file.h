/* The text of a user file: lines of "name:password", of which the first with a name counts. */
#ifndef HTTP_MODULES_ACCESS_AUTH_BASIC_USER_FILE_H
#define HTTP_MODULES_ACCESS_AUTH_BASIC_USER_FILE_H

#include <stdbool.h>

#include "base/str.h"

/* Longest line that is understood, without its end; longer ones are passed over. */
#define USER_LINE_MAX 8192

/* A search for one user, through a file that comes in pieces. All zero but for `user` and `room` at
 * its beginning. */
struct user_search {
    struct str user;  /* who is looked for */
    char *room;       /* USER_LINE_MAX bytes, the caller's: a line that came in parts */
    size_t held;      /* bytes in room */
    bool is_skipping; /* the line is too long: its rest is passed over */
    bool is_found;
    struct str password; /* as the file has it; points into the piece, or into room */
};

/* Looks through the next piece; an empty one is the end of the file. True: `password` is known,
 * nothing more is to be given. */
bool user_search_next(struct user_search *search, struct str piece);

#endif
