/* What listings of directories have in common, as text of a page. Implemented in directory.c. */
#ifndef HTTP_FILES_LISTING_H
#define HTTP_FILES_LISTING_H

#include "base/buf.h"
#include "base/text.h"

/* The text, escaped. */
void listing_put_escaped(struct buf *out, struct str text, enum escape_set set);
/*
 * A name as HTML; of one that is longer than `most` its first `shown` characters and "..>".
 * Characters are code points of UTF-8, else bytes. Gives the characters of the name.
 */
size_t listing_put_name(struct buf *out, struct str name, size_t most, size_t shown, bool is_utf8);

#endif
