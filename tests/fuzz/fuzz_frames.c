/* Fuzzes HTTP/2's frames: heads, what they allow, padding and priorities, on payloads of their own
 * memory. */
#include <stdlib.h>
#include <string.h>

#include "http/message/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_at(const struct frame_head *head, struct str payload)
{
    struct frame_priority priority;
    bool is_stream_error;
    uint8_t urgency;
    bool is_incremental;
    struct str rest = payload;

    if (frame_check(head, FRAME_SIZE_DEFAULT, &is_stream_error) == V2_NO_ERROR &&
        head->length > FRAME_SIZE_DEFAULT) {
        abort();
    }
    if (frame_unpad(head, &rest, &priority) &&
        (rest.data < payload.data || rest.data + rest.len > payload.data + payload.len)) {
        abort();
    }
    priority_parse(payload, &urgency, &is_incremental);
    priority_merge(payload, &urgency, &is_incremental);
    if (urgency > 7) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (size_t at = 0; size - at >= FRAME_HEAD_SIZE;) {
        struct frame_head head = frame_read((const char *) data + at);
        char back[FRAME_HEAD_SIZE];

        frame_put(back, head.length, head.type, head.flags, head.stream);
        if (memcmp(back, data + at, 5) != 0) {
            abort();
        }
        at += FRAME_HEAD_SIZE;
        size_t length = head.length < size - at ? head.length : size - at;
        char *copy = malloc(length == 0 ? 1 : length);
        if (copy == NULL) {
            return 0;
        }
        memcpy(copy, data + at, length);
        look_at(&head, (struct str){copy, length});
        free(copy);
        at += length;
    }
    return 0;
}
