/* A part of a video: a moov box for some of the samples, and the range of the file that contains
 * them. Pure functions. */
#ifndef HTTP_MODULES_CONTENT_MP4_CUT_H
#define HTTP_MODULES_CONTENT_MP4_CUT_H

#include "http/modules/content/mp4/boxes.h"

#define CUT_TRACKS_MAX 64
#define CUT_TO_THE_END UINT64_MAX

/* The location of a table of chunk offsets in the new moov box. */
struct cut_offsets {
    size_t at;
    uint32_t count;
    bool is_large; /* 64-bit offsets */
};

struct cut {
    /* Input. */
    uint64_t start_ms;
    uint64_t end_ms;   /* CUT_TO_THE_END; else it is after start_ms */
    bool at_key_frame; /* start with a key frame, but show pictures from start_ms on */
    bool is_large;     /* offsets may need 64 bits */
    uint64_t file_size;

    /* Output. */
    struct buf moov;     /* the new box; the caller frees it */
    uint64_t first;      /* offset in the file of the first selected byte */
    uint64_t last;       /* offset in the file after the last selected byte */
    const char *problem; /* why it failed */

    struct cut_offsets offsets[CUT_TRACKS_MAX];
    unsigned tracks;   /* tracks that have samples in the part */
    uint64_t duration; /* of the longest track, in units of the video */
    uint32_t units;    /* units per second of the video */
};

/* Cuts according to the contents of the file's moov box. False: see `problem`. Chunk offsets in the
 * new box are relative to `first`. */
bool cut_video(struct cut *cut, struct str moov);
/* Sets the chunk offsets, for a response in which the byte at `first` is at this offset. */
void cut_position(struct cut *cut, uint64_t at);

/* Is it a fragmented video, whose samples are not described by the moov box? */
bool cut_is_fragmented(struct str moov);

#endif
