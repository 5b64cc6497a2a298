/* Heads of responses for wires with streams; and their fields, in the order that nginx has, for
 * wires that encode each field (HTTP/3). */
#ifndef HTTP_REQUEST_HEAD_FIELDS_H
#define HTTP_REQUEST_HEAD_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#include "http/message/fields.h"

struct request;

/* What encodes a field. It is embedded in the wire's own struct. */
struct head_encoder {
    /* stays_out: the field is not worth an entry in a table, or secret. Name and value are valid
     * during the call. */
    void (*put)(struct head_encoder *encoder, struct str name, struct str value, bool stays_out);
};

/*
 * The head is about to be sent: its progress, is_header_only, and the status as HTTP/2 and HTTP/3
 * have it. is_websocket: the request is an extended CONNECT. True: nothing follows the head.
 */
bool head_begin(struct request *request, bool is_websocket);

/* All fields of the head, without the status. */
void head_fields_put(struct request *request, struct head_encoder *encoder);
/* Those of a list: of an interim response, or trailers. */
void head_fields_put_list(const struct fields *fields, struct head_encoder *encoder);

/* Bytes that they take, where each needs `overhead` beside its name and value. */
size_t head_fields_size(const struct request *request, size_t overhead);
size_t head_fields_list_size(const struct fields *fields, size_t overhead);

#endif
