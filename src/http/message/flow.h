/* How a run of handlers goes on. An HTTP status is another thing: it is in
 * request->response.status. */
#ifndef HTTP_MESSAGE_FLOW_H
#define HTTP_MESSAGE_FLOW_H

enum flow {
    FLOW_NEXT,   /* not for me, or nothing against it: ask the next */
    FLOW_DONE,   /* the response was given whole, to its last piece */
    FLOW_FAIL,   /* request->response.status says what to answer: error_page, then the built-in page
                  */
    FLOW_AGAIN,  /* the URI or the location was changed: request->restart says where to go on */
    FLOW_ALLOW,  /* access: this checker grants access (matters for satisfy any) */
    FLOW_CUT,    /* the response was cut short: what was given is sent, then the connection ends */
    FLOW_CLOSED, /* the client is gone, or shall be dropped without an answer (444) */
};

#endif
