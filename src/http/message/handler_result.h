/* What a handler returns, to control the handlers after it. The HTTP status is separate, in
 * request->response.status. */
#ifndef HTTP_MESSAGE_HANDLER_RESULT_H
#define HTTP_MESSAGE_HANDLER_RESULT_H

enum handler_result {
    HANDLER_NEXT,   /* no decision: call the next handler */
    HANDLER_DONE,   /* the response is complete, including its last piece */
    HANDLER_FAIL,   /* respond with request->response.status: by error_page, or the built-in page */
    HANDLER_AGAIN,  /* the URI or the location was changed: request->restart tells where to continue
                     */
    HANDLER_ALLOW,  /* access phase: access is granted (relevant for satisfy any) */
    HANDLER_CUT,    /* the response was truncated: the output so far is sent, then the connection is
                       closed */
    HANDLER_CLOSED, /* the client is gone, or is to be disconnected without a response (444) */
};

#endif
