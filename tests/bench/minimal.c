/* minimal: the least that a server can do, for the tables to be read against: one process, one
 * epoll, no log, nothing parsed. Each request gets the same answer; a connection ends after it
 * where the client speaks HTTP/1.0, or TLS.
 *
 *   minimal PORT                          accept4, recv, send, close, and epoll_ctl for a
 * connection that stays minimal PORT CERTIFICATE KEY TICKETS  full handshakes, with so many session
 * tickets for each */

#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    EVENTS_MAX = 512,      /* taken by one epoll_wait */
    SESSIONS_MAX = 1 << 16 /* descriptors beyond are closed */
};

static const char answer[] =
    "HTTP/1.1 200 OK\r\nServer: minimal/1.0.00\r\nDate: Thu, 19 Nov 2026 12:00:00 GMT\r\n"
    "Content-Type: image/gif\r\nContent-Length: 43\r\nConnection: keep-alive\r\n"
    "Last-Modified: Mon, 28 Sep 1970 06:00:00 GMT\r\n\r\n"
    "0123456789012345678901234567890123456789012";
static SSL_CTX *context;            /* NULL: plain */
static SSL *sessions[SESSIONS_MAX]; /* by descriptor */
static volatile sig_atomic_t is_stopped;

static void stop(int signo)
{
    (void) signo;
    is_stopped = 1;
}

/* One recv, one answer. True: the connection stays. */
static bool serve(int fd)
{
    char request[4096];
    ssize_t size = recv(fd, request, sizeof request, 0);
    bool is_last;

    if (size <= 0)
        return size < 0 && errno == EAGAIN;
    is_last = memmem(request, (size_t) size, "HTTP/1.0", 8) != NULL;
    /* What waits for more leaves with the FIN. */
    return send(fd, answer, sizeof answer - 1, MSG_NOSIGNAL | (is_last ? MSG_MORE : 0)) > 0 &&
           !is_last;
}

/* True: the handshake or the request is still to come. */
static bool serve_tls(SSL *session)
{
    char request[4096];
    int result = SSL_is_init_finished(session) ? 1 : SSL_accept(session);

    if (result > 0)
        result = SSL_read(session, request, sizeof request);
    if (result <= 0)
        return SSL_get_error(session, result) == SSL_ERROR_WANT_READ;
    SSL_write(session, answer, sizeof answer - 1);
    SSL_shutdown(session);
    return false;
}

static void connection_ready(int fd)
{
    if (sessions[fd] != NULL ? serve_tls(sessions[fd]) : serve(fd))
        return;
    SSL_free(sessions[fd]);
    sessions[fd] = NULL;
    close(fd);
}

static void connection_accept(int epoll_fd, int listener)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET};
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);

    if (fd >= SESSIONS_MAX)
        close(fd);
    if (fd < 0 || fd >= SESSIONS_MAX)
        return;
    if (context != NULL) {
        sessions[fd] = SSL_new(context);
        SSL_set_fd(sessions[fd], fd);
    } else if (!serve(fd)) {
        close(fd);
        return;
    }
    event.data.fd = fd;
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static bool context_make(char **words)
{
    context = SSL_CTX_new(TLS_server_method());
    if (context == NULL || SSL_CTX_use_certificate_chain_file(context, words[0]) != 1 ||
        SSL_CTX_use_PrivateKey_file(context, words[1], SSL_FILETYPE_PEM) != 1)
        return false;
    SSL_CTX_set_num_tickets(context, (size_t) atoi(words[2]));
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_read_ahead(context, 1);
    return true;
}

static int listener_make(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t) port)};
    int yes = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes,
               sizeof yes); /* those that it accepts inherit it */
    if (bind(fd, (struct sockaddr *) &address, sizeof address) < 0 || listen(fd, 65535) < 0) {
        perror("minimal: listen");
        exit(1);
    }
    return fd;
}

int main(int count, char **words)
{
    struct epoll_event events[EVENTS_MAX];
    struct epoll_event event = {.events = EPOLLIN};

    if ((count != 2 && count != 5) || (count == 5 && !context_make(words + 2))) {
        fprintf(stderr, "usage: minimal PORT [CERTIFICATE KEY TICKETS]\n");
        return 1;
    }
    signal(SIGTERM, stop);
    signal(SIGPIPE, SIG_IGN);
    int listener = listener_make(atoi(words[1]));
    int epoll_fd = epoll_create1(0);
    event.data.fd = listener;
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &event);
    while (!is_stopped) {
        int ready = epoll_wait(epoll_fd, events, EVENTS_MAX, -1);

        for (int i = 0; i < ready; i++) {
            if (events[i].data.fd == listener)
                connection_accept(epoll_fd, listener);
            else
                connection_ready(events[i].data.fd);
        }
    }
    return 0;
}
