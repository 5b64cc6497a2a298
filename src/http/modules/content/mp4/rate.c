/* mp4_limit_rate: limits the rate of a response by the mean bit rate of the video. */
#include "http/modules/content/mp4/video.h"

#define CHILDREN_MAX 1000 /* boxes examined inside a moov box */

/* Bytes needed of a box with a duration, version and flags included: the size of the longest mvhd
 * fields, with 64-bit values. */
#define DURATION_MAX 32

/* Limits of the computed rate, in bytes per second. The lower one keeps a file that claims to last
 * for years from holding its clients for as long; even audio alone is above it. */
#define RATE_MIN 1024.0
#define RATE_MAX ((double) ((uint64_t) 1 << 40))

/* The durations in a moov box. */
struct duration {
    uint32_t units;    /* per second; 0: unknown */
    uint64_t whole;    /* of the samples in the tables, in units */
    uint64_t fragment; /* of the fragments, in units */
};

/* Reads the beginning of a box, as many bytes as there are. */
static struct box box_head_of(const struct video *video, uint64_t at, const struct box_head *head,
                              char *bytes)
{
    uint64_t size = head->size - head->length;
    size_t wanted = size > DURATION_MAX ? DURATION_MAX : (size_t) size;
    size_t length = video_read(video, at + head->length, bytes, wanted);

    return (struct box){.type = head->type, .data = {bytes, length}};
}

/* mvhd (ISO/IEC 14496-12, 8.2.2). */
static void read_mvhd(struct duration *duration, const struct box *box)
{
    const char *data = box->data.data;

    if (!box_has(box, 20, 32)) {
        return;
    }
    bool is_small = *data == 0;
    duration->units = box_get32(data + (is_small ? 12 : 20));
    duration->whole = is_small ? box_get32(data + 16) : box_get64(data + 24);
    if (duration->whole == (is_small ? UINT32_MAX : UINT64_MAX)) {
        duration->whole = 0; /* unknown */
    }
}

/* mehd (8.8.2). */
static void read_mehd(struct duration *duration, const struct box *box)
{
    const char *data = box->data.data;

    if (box_has(box, 8, 12)) {
        duration->fragment = *data == 0 ? box_get32(data + 4) : box_get64(data + 4);
    }
}

/* Reads the boxes from `at` to `end`, which is within the file, and those of a mvex box. */
static void read_durations(const struct video *video, uint64_t at, uint64_t end,
                           struct duration *duration)
{
    struct box_head head;
    char bytes[DURATION_MAX];

    for (unsigned i = 0; i < CHILDREN_MAX && at < end && video_box_at(video, at, &head); i++) {
        if (head.type == BOX('m', 'v', 'e', 'x')) {
            at += head.length; /* its boxes are examined as if they were next to it */
            continue;
        }
        struct box box = box_head_of(video, at, &head, bytes);
        if (head.type == BOX('m', 'v', 'h', 'd')) {
            read_mvhd(duration, &box);
        } else if (head.type == BOX('m', 'e', 'h', 'd')) {
            read_mehd(duration, &box);
        }
        at += head.size;
    }
}

static uint64_t bounded(double number, double least)
{
    return (uint64_t) (number < least ? least : number > RATE_MAX ? RATE_MAX : number);
}

void video_limit_rate(const struct video *video, uint64_t factor, uint64_t after_ms)
{
    struct request_delivery *delivery = &video->request->delivery;
    struct duration duration = {0};

    read_durations(video, video->moov_at, video->moov_at + video->moov_size, &duration);
    uint64_t units = duration.whole > duration.fragment ? duration.whole : duration.fragment;
    if (duration.units == 0 || units == 0 || delivery->is_limit_set) {
        return;
    }
    double rate = (double) video->file->size * duration.units / (double) units;
    delivery->limit_rate = bounded(rate * (double) factor / 1000, RATE_MIN);
    delivery->limit_rate_after = after_ms == 0 ? 0 : bounded(rate * (double) after_ms / 1000, 1);
    delivery->is_limit_set = delivery->is_after_set = true;
}
