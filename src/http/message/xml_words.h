/* Two small grammars of XML documents, apart from the reader. Pure functions on slices. */
#ifndef HTTP_MESSAGE_XML_WORDS_H
#define HTTP_MESSAGE_XML_WORDS_H

#include <stdbool.h>

#include "base/str.h"

/* Is it the inside of "<?xml…?>", after the name: a version 1.x, perhaps an encoding that is UTF-8
 * or a part of it, perhaps standalone (XML 1.0, 2.8 and 2.9)? */
bool xml_is_declaration(struct str inner);

/* Is it a URI reference (RFC 3986, 4.1), as names of namespaces are? The empty one is. */
bool xml_is_uri(struct str text);

#endif
