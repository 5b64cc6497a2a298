/* Answers that are a CGI head and a body to the end of the connection, with nothing around them:
 * SCGI, uwsgi. */
#ifndef HTTP_EXCHANGE_HEADS_PLAIN_H
#define HTTP_EXCHANGE_HEADS_PLAIN_H

#include "http/exchange/exchange.h"

/* Members of struct protocol. They keep their state in x->state; the connection is never kept. */
void plain_begin_response(struct exchange *x);
/* A status line may stand before the fields, as uwsgi sends it; else `Status` tells. */
enum head_result plain_read_head(struct exchange *x);
enum body_result plain_read_body(struct exchange *x, struct str *data);
enum body_result plain_body_ended(struct exchange *x);

/*
 * What a handler of such a protocol does: an exchange to the target, whose body is read first when
 * its length is not known, for these protocols announce it. MAY WAIT.
 */
enum handler_result plain_handle(struct request *request, const struct protocol *protocol,
                                 const struct exchange_settings *settings,
                                 const void *module_settings, const struct pass_target *target);

#endif
