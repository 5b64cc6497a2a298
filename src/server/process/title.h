/* The title that ps shows, written over argv and the environment. */
#ifndef SERVER_PROCESS_TITLE_H
#define SERVER_PROCESS_TITLE_H

#include "base/str.h"

/* Finds the memory to write to; argv and the environment must have been copied before. */
void title_init(int argc, char **argv, char **environment);

/* Sets "nginx: " and the text. */
void title_set(struct str text);

#endif
