/* What brings requests and takes responses: a protocol version's face to the engine. */
#ifndef HTTP_REQUEST_WIRE_H
#define HTTP_REQUEST_WIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "http/message/handler_result.h"

struct body_piece;
struct conn;
struct fields;
struct request;

/*
 * How responses of one protocol version go to the wire: v1, v2, v3. A subrequest has a wire of its
 * own, which gives to its parent: what depends on the client's is asked of request->main.
 */
struct http_wire {
    /* What it can and does, in place of a look at the version. */
    bool is_multiplexed; /* requests share the connection: their bytes have frames, which mark ends,
                            too */
    bool hides_connection_fields; /* no Connection, Upgrade and related fields in heads (RFC
                                     9113, 8.2.2) */
    bool sends_whole;             /* a short response.whole goes with the head, without waiting */
    bool reads_files; /* files are read into frames, as much as may leave: sendfile() has no part in
                         it */
    bool has_text_head; /* the head lies as the client sent it: request->head_size bytes from
                           request->head.line on */
    /* Writes the head. status, fields, content_length are final. */
    void (*send_head)(struct request *request);
    /* Takes the next piece; MAY WAIT for the client to read when much is queued already. False:
     * the client is gone. */
    bool (*send_body)(struct request *request, const struct body_piece *piece, bool is_last);
    /* Sends an interim response (100, 103 with fields). */
    void (*send_interim)(struct request *request, unsigned status, const struct fields *fields);
    /* Reads decoded body bytes into memory: bytes, 0 = complete, -1 = failure (incoming.refusal
     * set: 400, 408; 0 = client gone, or there is nothing now and reads_no_further). MAY WAIT. */
    ssize_t (*read_body)(struct request *request, void *at, size_t size);
    /* Or NULL: no. Has the whole body arrived, of so many bytes at most, so that reading it to its
     * end does not wait? It may say no where it has. */
    bool (*has_whole_body)(const struct request *request, uint64_t most);
    /* The request was worked on to its end; the last thing its fiber does. HANDLER_CLOSED: the
     * client is gone or shall be dropped. */
    void (*ended)(struct request *request, enum handler_result result);
    /* Bytes that were given for this request and the client has not taken: does it keep up?
     * UINT64_MAX: who gives `more` of them waits. */
    uint64_t (*backlog)(const struct request *request, uint64_t more);
    /* Or NULL: what was given has gone then. Waits until the client has taken all. False: it is
     * gone, or does not read. MAY WAIT. */
    bool (*drain)(struct request *request);
    /* Or NULL: its answer was given whole, though its fiber continues for others. MAY WAIT. */
    void (*answered)(struct request *request);
    /* Or NULL. All that is still to be given is in memory or in files, and stays there as long as
     * the request: from here on send_body keeps what the client does not take, and does not wait.
     */
    void (*leave)(struct request *request);
    /* What was given leaves now, not at the end of the turn. */
    void (*flush)(struct request *request);
    /* Has the connection broken? A cancelled request has is_cancelled set. */
    bool (*has_lost_client)(const struct request *request);
    /* Bytes of output so far that the client's side took, as delivery.start and delivery.end count
     * them. */
    uint64_t (*sent)(const struct request *request);
    /*
     * Or NULL: the head is the request's own. It lies in the connection's input buffer. Code that
     * reads more into that (conn_fill) while the request lives calls this first: the request takes
     * the buffer over.
     */
    void (*keep_head)(struct request *request);
    /* Or NULL: there is no such thing. The connection itself, whose bytes are this request's alone
     * from here on: a tunnel, a script. */
    struct conn *(*bare)(const struct request *request);
    /* Or NULL: one. Requests among which the client divides its connection now. */
    unsigned (*shares)(const struct request *request);
    /* Or NULL: requests of a connection do not wait for each other. It is logged before the next
     * one begins. */
    void (*log_first)(struct request *request);
    /* Or NULL: none. The request before this one on the connection if it waits only for its last
     * bytes to be sent, or NULL. */
    struct request *(*former)(const struct request *request);
};

#endif
