/* How far a head that comes in parts was looked at: where its parser continues. */
#ifndef HTTP_MESSAGE_HEAD_SCAN_H
#define HTTP_MESSAGE_HEAD_SCAN_H

#include <stdbool.h>
#include <stdint.h>

/*
 * How far header lines that come in parts were looked at, so that nothing is looked at twice. All
 * zero: not yet.
 */
struct fields_scan {
    uint32_t line;    /* where the open line begins: those before it are whole and sound */
    uint32_t seen;    /* bytes in which there is neither its end nor a fault */
    uint32_t headers; /* whole lines */
    bool is_begun;
};

/* The same of a request head. */
struct head_scan {
    uint32_t lines;  /* where the header lines begin; 0 = the request line is open */
    bool has_method; /* the space after the method was seen */
    struct fields_scan
        open; /* scan of the header lines; before them `line` and `seen` of the request line */
};

#endif
