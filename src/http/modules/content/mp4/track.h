/* One track of a video: its tables, and the samples of it that are wanted. For cut.c. */
#ifndef HTTP_MODULES_CONTENT_MP4_TRACK_H
#define HTTP_MODULES_CONTENT_MP4_TRACK_H

#include "http/modules/content/mp4/cut.h"

struct track {
    struct box tkhd, mdhd, hdlr, minf, stsd;
    struct box_table times;  /* stts: samples, duration */
    struct box_table shifts; /* ctts: samples, offset; may be empty */
    struct box ctts;
    struct box_table keys;   /* stss: numbers of samples, from 1 on */
    bool has_keys;           /* else each is one */
    struct box_table groups; /* stsc: first chunk, samples in each, description */
    struct box_table sizes;  /* stsz: of each sample, where size is 0 */
    uint32_t size;           /* bytes of every sample */
    struct box_table chunks; /* stco, co64: offsets */
    bool has_large_chunks;   /* co64 */
    uint32_t units;          /* in a second */
    uint32_t samples;        /* that the tables tell of */
    uint32_t start, end;     /* samples that are wanted: from, to before; empty: none is */
    uint64_t prefix;         /* units from the first sample to what is shown first */
    uint64_t duration;       /* units of the samples that are wanted */
};

/* Reads the tables of a trak box. NULL, or what is wrong with it. */
const char *track_read(struct track *track, struct str trak);
/* Decides which samples are wanted. */
void track_choose(struct track *track, const struct cut *cut);

/* Units from the beginning to this sample. */
uint64_t track_time_of(const struct track *track, uint32_t sample);
/* Bytes of a sample. */
static inline uint32_t track_size_of(const struct track *track, uint32_t sample)
{
    return track->size != 0 ? track->size : box_get32(track->sizes.items + 4 * (size_t) sample);
}

#endif
