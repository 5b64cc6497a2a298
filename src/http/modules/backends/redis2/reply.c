/* Finds the end of Redis' answers (RESP2). Pure functions. */
#include "http/modules/backends/redis2/reply.h"

/* Most bytes of a string, and values of an answer: prevents overflows. */
#define NUMBER_MAX (UINT64_C(1) << 40)

void reply_begin(struct reply *reply, uint64_t count)
{
    *reply = (struct reply){.left = count};
}

/* Evaluates a header line that is complete. */
static bool end_head(struct reply *reply)
{
    char type = reply->type;
    bool is_none = reply->is_negative;

    reply->type = '\0';
    reply->left--;
    if (type != '$' && type != '*') {
        return true;
    }
    if (!reply->has_digit || (is_none && reply->number != 1)) {
        return false;
    }
    if (type == '$' && !is_none) {
        reply->skip = reply->number + 2;
    } else if (type == '*' && !is_none) {
        reply->left += reply->number;
    }
    return reply->left <= NUMBER_MAX;
}

static bool begin_head(struct reply *reply, char c)
{
    reply->type = c;
    reply->number = 0;
    reply->is_negative = reply->has_digit = reply->has_cr = false;
    return c == '+' || c == '-' || c == ':' || c == '$' || c == '*';
}

/* A digit of the length of a string or an array. */
static bool take_digit(struct reply *reply, char c)
{
    if (c == '-' && !reply->has_digit && !reply->is_negative) {
        reply->is_negative = true;
        return true;
    }
    if (!ascii_is_digit((unsigned char) c)) {
        return false;
    }
    reply->has_digit = true;
    reply->number = reply->number * 10 + (uint64_t) (c - '0');
    return reply->number <= NUMBER_MAX;
}

/* Takes one byte outside of strings. */
static bool take_byte(struct reply *reply, char c)
{
    if (reply->type == '\0') {
        return begin_head(reply, c);
    }
    if (reply->has_cr) {
        return c == '\n' && end_head(reply);
    }
    if (c == '\r') {
        reply->has_cr = true;
        return true;
    }
    if (reply->type == '$' || reply->type == '*') {
        return take_digit(reply, c);
    }
    return c != '\n';
}

enum reply_result reply_take(struct reply *reply, struct str piece, size_t *used)
{
    size_t at = 0;

    while (at < piece.len && (reply->left != 0 || reply->skip != 0)) {
        if (reply->skip > 2) {
            uint64_t left = piece.len - at;
            uint64_t part = reply->skip - 2 < left ? reply->skip - 2 : left;
            reply->skip -= part;
            at += (size_t) part;
            continue;
        }
        char c = piece.data[at++];
        if (reply->skip != 0 ? c != (reply->skip-- == 2 ? '\r' : '\n') : !take_byte(reply, c)) {
            *used = at;
            return REPLY_BAD;
        }
    }
    *used = at;
    return reply->left == 0 && reply->skip == 0 ? REPLY_END : REPLY_MORE;
}
