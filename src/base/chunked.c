/* The decoder of the chunked transfer coding. Strict: a bare LF, an empty size or more than 15
 * digits are refused. */
#include "base/chunked.h"

#include "base/text.h"

enum state { SIZE_FIRST, SIZE, EXTENSION, SIZE_LF, DATA, DATA_CR, DATA_LF, FINISHED };

/* One byte of the size line. */
static bool size_byte(struct chunked *chunked, unsigned char c)
{
    int digit = hex_value[c];

    if (digit >= 0) {
        if (++chunked->digits > 15) {
            return false;
        }
        chunked->left = chunked->left << 4 | (uint64_t) digit;
        chunked->state = SIZE;
        return true;
    }
    if (chunked->state == SIZE_FIRST) {
        return false;
    }
    if (c == '\r') {
        chunked->state = SIZE_LF;
        return true;
    }
    if (c == ';' || c == ' ' || c == '\t') {
        chunked->state = EXTENSION;
        chunked->extension = 0;
        return true;
    }
    return false;
}

static bool extension_byte(struct chunked *chunked, unsigned char c)
{
    if (c == '\r') {
        chunked->state = SIZE_LF;
        return true;
    }
    if ((c < ' ' && c != '\t') || c == 127) {
        return false;
    }
    return ++chunked->extension <= CHUNK_EXTENSION_MAX &&
           ++chunked->extensions <= CHUNK_EXTENSIONS_MAX;
}

/* The line of a chunk size has ended: the body of the chunk or, for size 0, the end follows. */
static enum chunked_result size_ended(struct chunked *chunked)
{
    chunked->digits = 0;
    if (chunked->left == 0) {
        chunked->state = FINISHED;
        return CHUNKED_LAST;
    }
    chunked->state = DATA;
    return CHUNKED_MORE;
}

static enum chunked_result frame_byte(struct chunked *chunked, unsigned char c)
{
    switch (chunked->state) {
    case SIZE_FIRST:
    case SIZE:
        return size_byte(chunked, c) ? CHUNKED_MORE : CHUNKED_BAD;
    case EXTENSION:
        return extension_byte(chunked, c) ? CHUNKED_MORE : CHUNKED_BAD;
    case SIZE_LF:
        return c == '\n' ? size_ended(chunked) : CHUNKED_BAD;
    case DATA_CR:
        chunked->state = DATA_LF;
        return c == '\r' ? CHUNKED_MORE : CHUNKED_BAD;
    case DATA_LF:
        chunked->state = SIZE_FIRST;
        return c == '\n' ? CHUNKED_MORE : CHUNKED_BAD;
    default:
        return CHUNKED_BAD;
    }
}

enum chunked_result chunked_decode(struct chunked *chunked, struct str *input, struct str *data)
{
    while (input->len != 0) {
        if (chunked->state == DATA) {
            *data =
                str_head(*input, chunked->left < input->len ? (size_t) chunked->left : input->len);
            *input = str_skip(*input, data->len);
            chunked->left -= data->len;
            if (chunked->left == 0) {
                chunked->state = DATA_CR;
            }
            return CHUNKED_DATA;
        }
        enum chunked_result result = frame_byte(chunked, (unsigned char) input->data[0]);
        *input = str_skip(*input, 1);
        if (result != CHUNKED_MORE) {
            return result;
        }
    }
    return CHUNKED_MORE;
}
