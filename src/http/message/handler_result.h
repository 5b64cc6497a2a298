/* How a run of handlers continues. An HTTP status is another thing: it is in
 * request->response.status. */
#ifndef HTTP_MESSAGE_HANDLER_RESULT_H
#define HTTP_MESSAGE_HANDLER_RESULT_H

enum handler_result {
    HANDLER_NEXT,  /* not for me, or nothing against it: ask the next */
    HANDLER_DONE,  /* the response was given whole, to its last piece */
    HANDLER_FAIL,  /* request->response.status says what to answer: error_page, then the built-in
                    * page
                    */
    HANDLER_AGAIN, /* the URI or the location was changed: request->restart says where to go on */
    HANDLER_ALLOW, /* access: this checker grants access (matters for satisfy any) */
    HANDLER_CUT, /* the response was cut short: what was given is sent, then the connection ends */
    HANDLER_CLOSED, /* the client is gone, or shall be dropped without an answer (444) */
};

#endif
