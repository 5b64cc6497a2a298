/* Fragmented videos: which fragments hold a part, and how an answer that begins with that describes
 * them. Pure. */
#ifndef HTTP_MODULES_CONTENT_MP4_FRAGMENTS_H
#define HTTP_MODULES_CONTENT_MP4_FRAGMENTS_H

#include "http/modules/content/mp4/cut.h"

/* What the moov box tells of a track. */
struct fragment_track {
    uint32_t number;
    uint32_t units;    /* in a second */
    uint32_t duration; /* of a sample whose fragment tells none */
    uint32_t flags;    /* of a sample whose fragment says none */
    uint64_t time;     /* units that fragments so far lasted, for those that tell no time */
};

struct fragments {
    struct fragment_track tracks[CUT_TRACKS_MAX];
    unsigned count;
    unsigned main;    /* the track whose key frames count: the first of pictures, else the first */
    bool has_samples; /* the moov box tells of some, that come before all fragments */
};

/* Reads the contents of the moov box. NULL, or what is wrong. */
const char *fragments_read(struct fragments *fragments, struct str moov);

/* What a fragment, the contents of a moof box, tells of the main track. */
struct fragment {
    bool has_main;    /* it has samples of it */
    bool is_key;      /* the first sample of that track is a key frame */
    uint64_t time_ms; /* of the first */
    uint64_t time;    /* of the first sample, in units of the track */
    uint64_t end_ms;  /* where the last ends */
};

/* Fragments are read in their order where they tell no times. False: it is malformed. */
bool fragment_read(struct fragments *fragments, struct str moof, struct fragment *out);

/* How the answer describes a fragment. */
struct fragment_move {
    uint64_t time;   /* units of the main track by which it comes earlier */
    uint64_t offset; /* added to places in the file; what is less is a negative one */
};
void fragment_move(const struct fragments *fragments, char *moof, size_t size,
                   const struct fragment_move *move);

/* Which fragments hold the part: points where one begins are given in their order. */
struct fragment_choice {
    uint64_t start_ms, end_ms; /* wanted; CUT_TO_THE_END */
    bool has_first;
    uint64_t first; /* offset: key frame at, or before, the start */
    uint64_t first_ms;
    uint64_t last;    /* offset of what comes after the part; 0: it is to the end */
    uint64_t last_ms; /* where the part ends; 0: not known */
};
void fragment_choose(struct fragment_choice *choice, uint64_t at, uint64_t at_ms, bool is_key);

/* Points by an index of segments, the contents of a sidx box that ends at `anchor`; *end: where in
 * the file it ends. False: it is none that can be used. */
bool fragments_by_segments(struct str sidx, uint64_t anchor, struct fragment_choice *choice,
                           uint64_t *end);
/* Points by an index of key frames, the contents of a mfra box. */
bool fragments_by_access(const struct fragments *fragments, struct str mfra,
                         struct fragment_choice *choice);

/* The moov box of the answer: without samples, of a video that lasts so long (0: that is not
 * known). */
void fragments_put_moov(struct buf *out, struct str moov, uint64_t duration_ms);

#endif
