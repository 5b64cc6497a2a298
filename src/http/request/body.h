/* Bodies of requests. */
#ifndef HTTP_REQUEST_BODY_H
#define HTTP_REQUEST_BODY_H

#include "fiber/fiber.h"
#include "http/request/request.h"

/* A body that was read whole. */
struct request_body {
    struct str bytes;     /* when it is in memory */
    int fd;               /* temporary file, or -1; closed with the request */
    struct str file_name; /* of the file, or empty */
    uint64_t size;        /* decoded bytes */
};

/* A body that is written, to memory and from there to a file. */
struct body_writer {
    struct request *request;
    char *room; /* for what has not gone to the file */
    size_t capacity;
    size_t used;
    struct request_body *body; /* as it is so far */
    bool always_file;
};

/* A writer of an empty body with so many bytes of memory, at least 1. */
void body_writer_begin(struct request *request, size_t capacity, struct body_writer *writer);
/* More of it; to a file what is too much for the memory. False: that cannot be written, which was
 * logged. */
bool body_writer_add(struct body_writer *writer, struct str text);
/* What is in memory goes to the file, where there is one. The same. */
bool body_writer_flush(struct body_writer *writer);

/* A file, whose name has a NUL after it, as a body. False: it cannot be had, which was logged.
 * Blocks for the disk. */
bool request_body_from_file(struct request *request, struct str path, struct request_body *body);

/* A body of its own is the request's alone from here on, and so is what its head says of one. */
void request_give_body(struct request *request, struct request_body *body);

/* The part of a body that was read which a Content-Length that was set leaves. */
struct request_body *request_body_part(struct request *request);
/* What of a body that was read is passed on: all of it, or what a Content-Length that was set
 * leaves. NULL: there is none. */
static inline struct request_body *request_passed_body(struct request *request)
{
    struct request_body *body = request->incoming.body;

    return body == NULL || !request->incoming.is_length_given ? body : request_body_part(request);
}

/* Can it not be had whole any more? A part was taken, or it is malformed, or late. */
bool request_body_is_gone(const struct request *request);
/* Is the announced length above client_max_body_size? Then true: logged, status 413. */
bool request_body_exceeds(struct request *request);
/* The same for one whose length is found out as it comes: is so much of it too much? */
bool request_body_is_too_large(struct request *request, uint64_t size);
/* Reads all of the body to memory or file as the location says. MAY WAIT. HANDLER_NEXT = it is in
 * request->incoming.body; else HANDLER_FAIL (status set), HANDLER_CLOSED. One of which a part has
 * gone elsewhere is empty. */
enum handler_result request_read_body(struct request *request);
/* The body of all requests that have none. It is never changed. */
extern struct request_body request_body_none;
/* The same, at once, for a request that has no body and waits for nothing, as most GET. */
static inline enum handler_result request_have_body(struct request *request)
{
    const struct incoming_body *incoming = &request->incoming;

    if (incoming->body != NULL || !incoming->is_read || incoming->is_taken ||
        incoming->refusal != 0 || incoming->expects_continue) {
        return request_read_body(request);
    }
    request->incoming.body = &request_body_none;
    return HANDLER_NEXT;
}
/* The body that request_read_body has read, in memory whatever it is in. False with errno: its file
 * cannot be read. */
bool request_body_text(struct request *request, struct str *out);
/* For wires: how long to wait for more of the body, until when. */
uint64_t request_body_deadline(struct request *request);
/* For wires: what a wait for more of the body came to. True: there is more, or it is to be waited
 * for again. False: time is up (408, or is_body_late), or the client is gone. */
bool request_body_waited(struct request *request, enum wait_result result);
/* For wires with streams: waits for more of the body. False as above, or nothing is waited for. MAY
 * WAIT. */
bool request_body_wait(struct request *request, struct wait_point *input);
/* For wires: a read fails, with this refusal (0: the client is gone). Gives -1. */
ssize_t request_body_refuse(struct request *request, unsigned status);
/* For wires: the body is about to be read, and none of it is there: a client that waits for 100 may
 * send. */
void request_body_invite(struct request *request);
/* The body's file is somebody else's now: it is not removed with the request. */
void request_body_keep_file(struct request *request);
/* Decoded bytes as they come, for handlers that stream. MAY WAIT. */
ssize_t request_read_some(struct request *request, void *at, size_t size);
/*
 * Reads and drops what is left of the body, so that the next request can be found. MAY WAIT, within
 * lingering_time. False: there is still more, or the client is gone; the connection cannot be kept.
 */
bool request_drop_body(struct request *request);
/*
 * The part of that which is there already, before the response begins, so that a malformed body is
 * distinguished from the answer. False: response.status says what is wrong with it, and is the
 * answer's now.
 */
bool request_drop_arrived_body(struct request *request);

#endif
