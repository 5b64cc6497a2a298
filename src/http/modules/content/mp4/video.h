/* A video that is being cut: what the files of the module share that read and send.
 * Implemented in fragmented.c, mp4.c and rate.c. */
#ifndef HTTP_MODULES_CONTENT_MP4_Video_H
#define HTTP_MODULES_CONTENT_MP4_Video_H

#include "http/files/file.h"
#include "http/modules/content/mp4/cut.h"
#include "http/request/request.h"

#define FTYP_MAX 1024 /* bytes of the box that tells the kind of file */

struct video {
    struct request *request;
    struct file *file;
    struct cut cut;
    char ftyp[FTYP_MAX];
    size_t ftyp_length;
    uint64_t moov_at; /* contents of the moov box: where, and how many bytes */
    uint64_t moov_size;
    struct buf moov;   /* the moov box as it was read; lives as long as the request */
    uint64_t box_most; /* bytes of a box that is read */
};

/*
 * Limits the rate of the response to the video's mean one, times factor/1000; the first after_ms of
 * it go without a limit. Nothing happens where the file does not tell how long it lasts, and where
 * a rate was assigned. moov_at and moov_size are known. Blocks for the disk.
 */
void video_limit_rate(const struct video *video, uint64_t factor, uint64_t after_ms);

/* 500, with a line about the file. */
enum handler_result video_refuse(struct video *video, const char *problem);

/* So many bytes from there, as far as the file goes; fewer where it could not be read. Blocks for
 * the disk. */
size_t video_read(const struct video *video, uint64_t offset, char *at, size_t size);

/* The head of the box that begins there. False: there is none, or it is longer than the file.
 * Blocks for the disk. */
bool video_box_at(const struct video *video, uint64_t at, struct box_head *out);

/* Answers with the fragments that hold the part. Takes over the file. MAY WAIT. */
enum handler_result video_answer_fragments(struct video *video);

#endif
