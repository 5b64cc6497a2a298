/* fastcgi_chain: a FastCGI application on libfcgi that asks a second service for each request, by
 * HTTP on a connection that it keeps, and passes its body on: `fastcgi_chain PORT`. */
#define _GNU_SOURCE
#include "response.h"

#include <arpa/inet.h>
#include <fcgiapp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANSWER_MAX = 64 * 1024 }; /* bytes of the service's answer, head and body */

static const char request[] = "GET /hello HTTP/1.1\r\nHost: service\r\n\r\n";
static int service = -1; /* the kept connection; -1: none */

static int service_connect(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t) port)};
    int yes = 1;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    service = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (service < 0 || connect(service, (struct sockaddr *) &address, sizeof address) < 0)
        return -1;
    return setsockopt(service, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

/* Asks, and waits for the whole answer. Gives the bytes of its body, which lies behind `head`, or
 * -1. */
static int64_t service_ask(char *answer, struct head *head)
{
    size_t size = 0;
    ssize_t got;

    if (send(service, request, sizeof request - 1, MSG_NOSIGNAL) != sizeof request - 1)
        return -1;
    while (size < ANSWER_MAX && (got = recv(service, answer + size, ANSWER_MAX - size, 0)) > 0) {
        size += (size_t) got;
        if (head_find(answer, size, head) == 1 && head->status == 200 && head->length >= 0 &&
            size == head->size + (size_t) head->length)
            return head->length;
    }
    return -1;
}

int main(int argc, char **argv)
{
    static char answer[ANSWER_MAX];
    FCGX_Stream *in, *out, *err;
    FCGX_ParamArray params;
    struct head head;
    int64_t size;

    if (argc != 2) {
        fputs("usage: fastcgi_chain PORT, with a listener as descriptor 0\n", stderr);
        return 2;
    }
    while (FCGX_Accept(&in, &out, &err, &params) >= 0) {
        size =
            service >= 0 || service_connect(atoi(argv[1])) == 0 ? service_ask(answer, &head) : -1;
        if (size < 0) {
            FCGX_PutS("Status: 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n", out);
            close(service);
            service = -1;
            continue;
        }
        FCGX_FPrintF(out, "Content-Type: text/plain\r\nContent-Length: %d\r\n\r\n", (int) size);
        FCGX_PutStr(answer + head.size, (int) size, out);
    }
    return 0;
}
