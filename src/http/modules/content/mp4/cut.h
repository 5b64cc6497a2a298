/* A part of a video: a moov box that tells of a part of the samples, and where in the file these
 * are. Pure. */
#ifndef HTTP_MODULES_CONTENT_MP4_CUT_H
#define HTTP_MODULES_CONTENT_MP4_CUT_H

#include "http/modules/content/mp4/boxes.h"

#define CUT_TRACKS_MAX 64
#define CUT_TO_THE_END UINT64_MAX

/* Where a table of chunk offsets stands in the new moov. */
struct cut_offsets {
    size_t at;
    uint32_t count;
    bool is_large; /* 64 bits each */
};

struct cut {
    /* What is wanted. */
    uint64_t start_ms;
    uint64_t end_ms;   /* CUT_TO_THE_END; else it is after start_ms */
    bool at_key_frame; /* pictures begin with a key frame, and are shown from the start on */
    bool is_large;     /* offsets may need 64 bits */
    uint64_t file_size;

    /* What comes of it. */
    struct buf moov;     /* the new box; the caller frees it */
    uint64_t first;      /* bytes of the file from here */
    uint64_t last;       /* the first byte of the file that no longer belongs to it */
    const char *problem; /* why there is none */

    struct cut_offsets offsets[CUT_TRACKS_MAX];
    unsigned tracks;   /* that have samples in the part */
    uint64_t duration; /* the longest of them, in units of the video */
    uint32_t units;    /* of the video, in a second */
};

/* Cuts by the contents of the file's moov box. False: `problem` says why. In the new box offsets of
 * chunks count from `first`. */
bool cut_video(struct cut *cut, struct str moov);
/* In the answer the byte at `first` stands here. */
void cut_position(struct cut *cut, uint64_t at);

/* Is it a video in fragments, whose samples the moov box does not tell of? */
bool cut_is_fragmented(struct str moov);

#endif
