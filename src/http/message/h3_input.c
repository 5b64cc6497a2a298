/* HTTP/3 frames in pieces. */
#include "http/message/h3_input.h"

#include <stdlib.h>

#include "base/fatal.h"

void h3_input_free(struct h3_input *input)
{
    free(input->block);
    input->block = NULL;
    input->block_size = 0;
}

void h3_input_collect(struct h3_input *input, struct str bytes)
{
    size_t size = input->block_size + (size_t) input->left;

    if (input->block == NULL && (input->block = malloc(size == 0 ? 1 : size)) == NULL) {
        fatal_no_memory(size);
    }
    if (bytes.len != 0) {
        memcpy(input->block + input->block_size, bytes.data, bytes.len);
    }
    input->block_size += bytes.len;
    input->left -= bytes.len;
}

bool h3_frame_is_known_control(uint64_t type)
{
    return type == H3_SETTINGS || type == H3_GOAWAY || type == H3_MAX_PUSH_ID ||
           type == H3_CANCEL_PUSH || type == H3_PRIORITY_UPDATE || type == H3_PRIORITY_UPDATE_PUSH;
}

void h3_control_read(struct h3_input *input, struct str bytes,
                     const struct h3_control_reader *reader)
{
    for (;;) {
        if (input->part == H3_PART_FRAME) {
            if (!h3_read_frame(&input->reader, &bytes, &input->type, &input->left) ||
                !reader->may_follow(reader->arg, input)) {
                return;
            }
            input->part =
                h3_frame_is_known_control(input->type) ? H3_PART_HEADERS : H3_PART_SKIPPED;
        }
        struct str part =
            str_head(bytes, input->left < bytes.len ? (size_t) input->left : bytes.len);
        if (input->part == H3_PART_HEADERS) {
            h3_input_collect(input, part);
        } else {
            input->left -= part.len;
        }
        bytes = str_skip(bytes, part.len);
        if (input->left != 0) {
            return;
        }
        bool goes_on = input->part != H3_PART_HEADERS || reader->whole(reader->arg, input);
        h3_input_free(input);
        input->part = H3_PART_FRAME;
        if (!goes_on) {
            return;
        }
    }
}
