/* Parser for user files: lines of "name:password"; the first line with a name counts. */
#ifndef HTTP_MODULES_ACCESS_AUTH_BASIC_USER_FILE_H
#define HTTP_MODULES_ACCESS_AUTH_BASIC_USER_FILE_H

#include <stdbool.h>

#include "base/str.h"

/* The longest line without its end; longer ones are ignored. */
#define USER_LINE_MAX 8192

/* A search for one user in a file that is read in pieces. Initially zero except for `user` and
 * `buffer`. */
struct user_search {
    struct str user; /* the name to find */
    char *buffer; /* USER_LINE_MAX bytes from the caller, for a line that is split between pieces */
    size_t held;  /* bytes in buffer */
    bool is_skipping; /* the line is too long: its remainder is ignored */
    bool is_found;
    struct str password; /* as in the file; points into the piece, or into `buffer` */
};

/* Searches the next piece; an empty one means the end of the file. True: the search is over. */
bool user_search_next(struct user_search *search, struct str piece);

#endif
