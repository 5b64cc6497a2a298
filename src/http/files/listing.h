/* Text of directory listings. Implemented in directory.c. */
#ifndef HTTP_FILES_LISTING_H
#define HTTP_FILES_LISTING_H

#include "base/buf.h"
#include "base/text.h"

/* Appends the text, escaped. */
void listing_put_escaped(struct buf *out, struct str text, enum escape_set set);
/* Appends a name as HTML; of a name longer than `most`, its first `shown` characters and "..>".
 * Characters are code points of UTF-8, or bytes. Returns the number of characters in the name. */
size_t listing_put_name(struct buf *out, struct str name, size_t most, size_t shown, bool is_utf8);

#endif
