/* What -v and -V print, and the variables of -ll. */
#ifndef SERVER_PROGRAM_ABOUT_H
#define SERVER_PROGRAM_ABOUT_H

#include "base/buf.h"
#include "server/module.h"

/* The two version lines. */
void about_version(struct buf *out);

/* Compiler, libraries, configure arguments and modules. */
void about_build(struct buf *out, struct generation *generation);

/* Markdown: a table of variables for each module that has any. */
void about_variables(struct buf *out, const struct generation *generation);

#endif
