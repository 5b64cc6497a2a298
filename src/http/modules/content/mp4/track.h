/* One track of a video: its tables, and its selected samples. For cut.c. */
#ifndef HTTP_MODULES_CONTENT_MP4_TRACK_H
#define HTTP_MODULES_CONTENT_MP4_TRACK_H

#include "http/modules/content/mp4/cut.h"

struct track {
    struct box tkhd, mdhd, hdlr, minf, stsd;
    struct box_table times;  /* stts: count, duration */
    struct box_table shifts; /* ctts: count, offset; may be empty */
    struct box ctts;
    struct box_table keys;   /* stss: sample numbers, from 1 on */
    bool has_keys;           /* false: every sample is a key frame */
    struct box_table groups; /* stsc: first chunk, samples per chunk, description */
    struct box_table sizes;  /* stsz: the size of each sample, if `size` is 0 */
    uint32_t size;           /* of every sample, in bytes */
    struct box_table chunks; /* stco, co64: offsets */
    bool has_large_chunks;   /* it is co64 */
    uint32_t units;          /* per second */
    uint32_t samples;        /* number of samples in the tables */
    uint32_t start,
        end;           /* selected samples: the first, and the one after the last; equal if none */
    uint64_t prefix;   /* from the first selected sample to what is shown first, in units */
    uint64_t duration; /* of the selected samples, in units */
};

/* Reads the tables of a trak box. NULL, or an error message. */
const char *track_read(struct track *track, struct str trak);
/* Selects the samples. */
void track_choose(struct track *track, const struct cut *cut);

/* The time at which this sample begins, in units. */
uint64_t track_time_of(const struct track *track, uint32_t sample);
/* The size of a sample in bytes. */
static inline uint32_t track_size_of(const struct track *track, uint32_t sample)
{
    return track->size != 0 ? track->size : box_get32(track->sizes.items + 4 * (size_t) sample);
}

#endif
