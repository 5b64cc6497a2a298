/* options: the command line of the load generator. */

#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

struct options {
    struct sockaddr_in server; /* where to connect */
    const char *host;          /* the Host header, and with TLS the name asked for */
    unsigned connections;      /* at a time */
    uint64_t requests;         /* in all; 0: go by time */
    double seconds;            /* how long, when `requests` is 0 */
    bool is_short;             /* a connection for each request */
    bool is_tls;               /* speak TLS */
    bool resumes;              /* each connection resumes the newest session */
    bool is_busy;              /* never sleep while requests are out */
    unsigned depth;            /* requests in one send */
    unsigned hold;             /* connections to hold; 0: none, make load */
    unsigned source;           /* hold: addresses left out before the first */
    int status;                /* that counts as success */
};

extern struct options opt;

/* Reads the command line into `opt` and builds the request list. Ends the program with 2 and the
 * usage if it is wrong. */
void options_read(int argc, char **argv);

#endif
