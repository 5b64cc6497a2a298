/* How far an incomplete header was examined, so that parsing continues there. */
#ifndef HTTP_MESSAGE_HEAD_SCAN_H
#define HTTP_MESSAGE_HEAD_SCAN_H

#include <stdbool.h>
#include <stdint.h>

/* How far incomplete header lines were examined, so that no byte is examined twice. Initially
 * zero. */
struct fields_scan {
    uint32_t line;    /* offset of the incomplete line: those before it are complete and valid */
    uint32_t seen;    /* offset up to which there is neither its end nor an error */
    uint32_t headers; /* number of complete lines */
    bool is_begun;
};

/* The same for a request header. */
struct head_scan {
    uint32_t lines;  /* offset of the header lines; 0 = the request line is incomplete */
    bool has_method; /* the space after the method was found */
    /* Scan of the header lines; before them, `line` and `seen` of the request line. */
    struct fields_scan open;
};

#endif
