/* Fuzz target: the heads of images. A size that is told is no nothing. */
#include <stdlib.h>

#include "http/message/image_head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct image_head head;

    if (image_head_parse((struct str){(const char *) data, size}, &head) &&
        (head.width == 0 || head.height == 0 || head.kind == IMAGE_NONE)) {
        abort();
    }
    return 0;
}
