/* options: the command line of the load generator. */

#define _GNU_SOURCE
#include "options.h"
#include "requests.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char usage_text[] =
    "usage: load -p PORT [options] [URI...]\n"
    "  -a ADDR     address of the server (127.0.0.1)\n"
    "  -c COUNT    connections at a time (32)\n"
    "  -n COUNT    requests in all; or\n"
    "  -t SECONDS  how long to go on (2)\n"
    "  -s          short: one request on each connection, and the server is to close it\n"
    "  -T          TLS 1.3; the server's certificate is not judged\n"
    "  -R          TLS: the first connection gets a session, all others resume the newest one\n"
    "  -b          busy: never sleep, so that the server need not wake us\n"
    "  -P DEPTH    pipelining: so many requests in one send (1)\n"
    "  -f FILE     more URIs, one a line; all are taken in turn\n"
    "  -h HOST     value of the Host header (localhost)\n"
    "  -H LINE     one more header line; may be given again\n"
    "  -x STATUS   the status that counts as success (200)\n"
    "  -i COUNT    hold: open COUNT connections from 127.0.0.2 on, make one request on each,\n"
    "              print {\"held\":COUNT}, and keep them until standard input ends\n"
    "  -S COUNT    hold: leave out so many addresses before the first\n"
    "Prints one line of JSON. Exit status 1 if anything went wrong.\n";

struct options opt = {.host = "localhost",
                      .connections = 32,
                      .seconds = 2,
                      .depth = 1,
                      .status = 200};

static void usage(void)
{
    fputs(usage_text, stderr);
    exit(2);
}

static char *headers_add(char *headers, const char *line)
{
    char *all;

    if (asprintf(&all, "%s%s\r\n", headers != NULL ? headers : "", line) < 0)
        usage();
    free(headers);
    return all;
}

void options_read(int argc, char **argv)
{
    char *headers = NULL;
    int option, port = 0;

    opt.server.sin_family = AF_INET;
    opt.server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    while ((option = getopt(argc, argv, "a:p:c:n:t:sTRbP:f:h:H:x:i:S:")) != -1) {
        switch (option) {
        case 'a':
            if (inet_pton(AF_INET, optarg, &opt.server.sin_addr) != 1)
                usage();
            break;
        case 'p':
            port = atoi(optarg);
            break;
        case 'c':
            opt.connections = (unsigned) atoi(optarg);
            break;
        case 'n':
            opt.requests = strtoull(optarg, NULL, 10);
            break;
        case 't':
            opt.seconds = atof(optarg);
            break;
        case 's':
            opt.is_short = true;
            break;
        case 'T':
            opt.is_tls = true;
            break;
        case 'R':
            opt.resumes = true;
            break;
        case 'b':
            opt.is_busy = true;
            break;
        case 'P':
            opt.depth = (unsigned) atoi(optarg);
            break;
        case 'f':
            requests_add_file(optarg);
            break;
        case 'h':
            opt.host = optarg;
            break;
        case 'H':
            headers = headers_add(headers, optarg);
            break;
        case 'x':
            opt.status = atoi(optarg);
            break;
        case 'i':
            opt.hold = (unsigned) atoi(optarg);
            break;
        case 'S':
            opt.source = (unsigned) atoi(optarg);
            break;
        default:
            usage();
        }
    }
    for (; optind < argc; optind++)
        requests_add(argv[optind]);
    if (port <= 0 || port > 65535 || opt.connections < 1 || opt.depth < 1 || opt.depth > 1024 ||
        (opt.is_short && opt.depth > 1) || (opt.resumes && !opt.is_tls))
        usage();
    opt.server.sin_port = htons((uint16_t) port);
    requests_build(opt.host, headers != NULL ? headers : "", opt.depth);
}
