/* Two small grammars of XML documents, separate from the parser. Pure functions on slices. */
#ifndef HTTP_MESSAGE_XML_WORDS_H
#define HTTP_MESSAGE_XML_WORDS_H

#include <stdbool.h>

#include "base/str.h"

/* Is it the inside of "<?xml…?>", after the name: a version 1.x, optionally an encoding, UTF-8 or a
 * subset of it, optionally standalone (XML 1.0, 2.8 and 2.9)? */
bool xml_is_declaration(struct str inner);

/* Is it a URI reference (RFC 3986, 4.1), as required for namespaces? The empty one is. */
bool xml_is_uri(struct str text);

#endif
