/* Fuzz target: the reader of XML. Starts and ends match, and what it gives lies in the document or
 * is not longer. */
#include <stdlib.h>

#include "http/message/xml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct xml_reader reader;
    struct arena arena;
    enum xml_event event;
    size_t depth = 0;

    arena_init(&arena);
    xml_begin(&reader, &arena, (struct str){(const char *) data, size});
    do {
        event = xml_next(&reader);
        depth += event == XML_START;
        depth -= event == XML_END;
        if (depth > XML_DEPTH_MAX || (event == XML_EOF && depth != 0) ||
            (event == XML_TEXT && reader.text.len > size)) {
            abort();
        }
    } while (event != XML_EOF && event != XML_ERROR);
    arena_free(&arena);
    return 0;
}
