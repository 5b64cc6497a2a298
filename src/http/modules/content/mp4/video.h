/* A video that is being cut, for the files that read and send it. Implemented in fragmented.c,
 * mp4.c and rate.c. */
#ifndef HTTP_MODULES_CONTENT_MP4_Video_H
#define HTTP_MODULES_CONTENT_MP4_Video_H

#include "http/files/file.h"
#include "http/modules/content/mp4/cut.h"
#include "http/request/request.h"

#define FTYP_MAX 1024 /* most bytes of the ftyp box */

struct video {
    struct request *request;
    struct file *file;
    struct cut cut;
    char ftyp[FTYP_MAX];
    size_t ftyp_length;
    uint64_t moov_at; /* contents of the moov box: offset and size */
    uint64_t moov_size;
    struct buf moov;   /* the moov box; freed with the request */
    uint64_t box_most; /* the largest box that is read, in bytes */
};

/* Limits the rate of the response to the mean rate of the video times factor/1000, after the first
 * after_ms of it. Does nothing if the file does not have its duration, or if a rate was already
 * set. moov_at and moov_size must be set. Blocks on the disk. */
void video_limit_rate(const struct video *video, uint64_t factor, uint64_t after_ms);

/* Sets the status 500 and logs the problem with the name of the file. */
enum handler_result video_refuse(struct video *video, const char *problem);

/* Reads up to `size` bytes from this offset; returns fewer at the end of the file, and after an
 * error. Blocks on the disk. */
size_t video_read(const struct video *video, uint64_t offset, char *at, size_t size);

/* Reads the head of the box at this offset. False: there is none, or it is longer than the file.
 * Blocks on the disk. */
bool video_box_at(const struct video *video, uint64_t at, struct box_head *out);

/* Responds with the fragments of the part. Takes over the file. MAY WAIT. */
enum handler_result video_answer_fragments(struct video *video);

#endif
