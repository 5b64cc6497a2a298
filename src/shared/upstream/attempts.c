/* The attempts at backends of a request or session. */
#include "shared/upstream/attempts.h"

#include "base/clock.h"
#include "base/parse.h"

/* Space for one number and the separator after it. */
#define NUMBER_SIZE 32

struct attempt attempt_of(struct str peer)
{
    return (struct attempt){
        .peer = peer,
        .connect_ms = UINT64_MAX,
        .header_ms = UINT64_MAX,
        .response_ms = UINT64_MAX,
        .queue_ms = UINT64_MAX,
        .send_ms = UINT64_MAX,
        .sent_ms = UINT64_MAX,
        .first_byte_ms = UINT64_MAX,
        .began_ms = clock_now.now_ms,
    };
}

struct attempt *attempts_add(struct vec *attempts, struct arena *arena, struct str peer)
{
    struct attempt *attempt = vec_add(attempts, arena, struct attempt);

    *attempt = attempt_of(arena_dup(arena, peer));
    return attempt;
}

/* Seconds with milliseconds; "-" if it did not happen. */
static char *put_time(char *at, uint64_t ms)
{
    if (ms == UINT64_MAX) {
        *at++ = '-';
        return at;
    }
    at = format_uint(at, ms / 1000);
    *at++ = '.';
    *at++ = (char) ('0' + ms / 100 % 10);
    *at++ = (char) ('0' + ms / 10 % 10);
    *at++ = (char) ('0' + ms % 10);
    return at;
}

/* The time between two moments of an attempt; "-" if one of them did not happen. */
static char *put_between(char *at, uint64_t from_ms, uint64_t to_ms)
{
    return put_time(at,
                    from_ms == UINT64_MAX || to_ms == UINT64_MAX ? UINT64_MAX : to_ms - from_ms);
}

/* A moment of an attempt, in seconds since the epoch. */
static char *put_moment(char *at, const struct attempt *attempt, uint64_t ms)
{
    uint64_t wall_ms = (uint64_t) clock_now.seconds * 1000 + clock_now.milliseconds;

    return put_time(at,
                    ms == UINT64_MAX ? ms : wall_ms - (clock_now.now_ms - attempt->began_ms - ms));
}

static char *put_part(char *at, const struct attempt *attempt, enum attempt_part part)
{
    switch (part) {
    case PART_PEER:
        return str_put(at, attempt->peer);
    case PART_STATUS:
        return attempt->status == 0 ? put_time(at, UINT64_MAX) : format_uint(at, attempt->status);
    case PART_CONNECT_TIME:
        return put_time(at, attempt->connect_ms);
    case PART_HEADER_TIME:
        return put_time(at, attempt->header_ms);
    case PART_FIRST_BYTE_TIME:
        return put_time(at, attempt->first_byte_ms);
    case PART_RESPONSE_TIME:
        return put_time(at, attempt->response_ms);
    case PART_QUEUE_TIME:
        return put_time(at, attempt->queue_ms);
    case PART_BYTES_SENT:
        return format_uint(at, attempt->bytes_sent);
    case PART_BYTES_RECEIVED:
        return format_uint(at, attempt->bytes_received);
    case PART_RESPONSE_LENGTH:
        return format_uint(at, attempt->response_length);
    case PART_SEND_START:
        return put_moment(at, attempt, attempt->send_ms);
    case PART_SEND_FINISH:
        return put_moment(at, attempt, attempt->sent_ms);
    case PART_SEND_TIME:
        return put_between(at, attempt->send_ms, attempt->sent_ms);
    case PART_RECEIVE_START:
        return put_moment(at, attempt, attempt->first_byte_ms);
    case PART_RECEIVE_FINISH:
        return put_moment(at, attempt,
                          attempt->first_byte_ms == UINT64_MAX ? UINT64_MAX : attempt->response_ms);
    case PART_RECEIVE_TIME:
        return put_between(at, attempt->first_byte_ms, attempt->response_ms);
    }
    return at;
}

bool attempts_text(const struct vec *attempts, enum attempt_part part, struct arena *arena,
                   struct str *out)
{
    size_t size = 0;

    vec_each(const struct attempt, attempt, attempts) {
        if (!attempt->is_further) {
            size += NUMBER_SIZE + (part == PART_PEER ? attempt->peer.len : 0);
        }
    }
    if (size == 0) {
        return false;
    }
    char *text = arena_text(arena, size);
    char *at = text;
    vec_each(const struct attempt, attempt, attempts) {
        if (attempt->is_further) {
            continue;
        }
        if (at != text) {
            at = str_put(at, attempt->is_after_redirect ? STR(" : ") : STR(", "));
        }
        at = put_part(at, attempt, part);
    }
    *out = str_from(text, at);
    return true;
}
