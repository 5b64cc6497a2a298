/* datagram_floor: the least that a server of QUIC can do for a large download, for the tables to be
 * read against: no connection, no stream, no frame but bytes. One process sends so many megabytes
 * in datagrams to another one, and prints the bytes of payload for a second of its CPU time:
 *
 *   datagram_floor WAY SIZE PACKETS MEGABYTES [FILE]
 *
 * WAY is a list of what is done for each train of PACKETS datagrams of SIZE bytes:
 *   read   the bytes are read from FILE by one preadv() of a train
 *   seal   AES-128-GCM of libcrypto, one context, and the masks of the headers by one call
 *   mb     the same, but for the masks by libipsec-mb, where it was compiled with it
 *   send   one sendmsg() with UDP_SEGMENT to a peer that reads datagrams one by one, and an
 *          acknowledgement of 45 bytes for every 25 of them, read by recvmmsg()
 *   join   the same to a peer that sets UDP_GRO, so that trains reach it whole
 * for example read,seal,send. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/udp.h>
#include <openssl/evp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#ifdef HAVE_IPSEC_MB
#include <intel-ipsec-mb.h>
#endif

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#define UDP_GRO 104
#endif

enum {
    SIZE_MOST = 65507,
    PACKETS_MOST = 64,
    HEAD = 16, /* of a short header and a STREAM frame; so many are not payload, nor is the tag */
    HEADER = 4,
    TAG = 16,
    ACK_SIZE = 45,
    ACK_EVERY = 25,        /* datagrams */
    IN_FLIGHT_MOST = 1000, /* datagrams */
    ACKS_AT_ONCE = 64,
    BUFFER_BYTES = 8 << 20 /* of the peer's socket */
};

static struct {
    bool reads, seals, sends, joins;
    size_t size;      /* of a datagram */
    unsigned packets; /* of a train */
    int file, sock;
    off_t at, file_size;
    EVP_CIPHER_CTX *aead, *block;
#ifdef HAVE_IPSEC_MB
    IMB_MGR *mb; /* NULL: libcrypto seals */
    _Alignas(64) struct gcm_key_data mb_key;
#endif
    unsigned char nonce[12];
    unsigned long in_flight; /* datagrams */
} floor_run;

static unsigned char train[PACKETS_MOST * SIZE_MOST];

static void die(const char *what)
{
    perror(what);
    exit(1);
}

/* ---- the peer ---- */

static size_t peer_count(struct msghdr *message, size_t bytes)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
        int segment;

        if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO) {
            memcpy(&segment, CMSG_DATA(c), sizeof segment);
            return (bytes + (size_t) segment - 1) / (size_t) segment;
        }
    }
    return 1;
}

/* Reads what comes, and acknowledges it by a number of datagrams, until it is killed. */
static void peer_run(int sock)
{
    static char room[SIZE_MOST];
    char ack[ACK_SIZE] = {0};
    size_t unacknowledged = 0;

    for (;;) {
        char control[64];
        struct iovec piece = {room, sizeof room};
        struct msghdr message = {.msg_iov = &piece,
                                 .msg_iovlen = 1,
                                 .msg_control = control,
                                 .msg_controllen = sizeof control};
        ssize_t n = recvmsg(sock, &message, 0);

        if (n < 0)
            die("recvmsg");
        for (unacknowledged += peer_count(&message, (size_t) n); unacknowledged >= ACK_EVERY;
             unacknowledged -= ACK_EVERY)
            send(sock, ack, sizeof ack, 0);
    }
}

static int socket_make(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int sock = socket(AF_INET, SOCK_DGRAM, 0), bytes = BUFFER_BYTES;

    if (sock < 0 || bind(sock, (struct sockaddr *) &address, sizeof address) < 0)
        die("socket");
    if (setsockopt(sock, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) < 0)
        setsockopt(sock, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    return sock;
}

static void socket_connect(int sock, int to)
{
    struct sockaddr_in address;
    socklen_t len = sizeof address;

    if (getsockname(to, (struct sockaddr *) &address, &len) < 0 ||
        connect(sock, (struct sockaddr *) &address, len) < 0)
        die("connect");
}

static void peer_start(void)
{
    int peer = socket_make(), yes = 1;

    floor_run.sock = socket_make();
    socket_connect(floor_run.sock, peer);
    socket_connect(peer, floor_run.sock);
    if (floor_run.joins && setsockopt(peer, IPPROTO_UDP, UDP_GRO, &yes, sizeof yes) < 0)
        die("UDP_GRO");
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        peer_run(peer);
    }
    close(peer);
}

/* ---- the server ---- */

/* One call for the whole train: each packet has its part of the bytes in its place. */
static void train_read(void)
{
    struct iovec pieces[PACKETS_MOST];
    size_t payload = floor_run.size - HEAD - TAG, all = payload * floor_run.packets;

    for (unsigned i = 0; i < floor_run.packets; i++)
        pieces[i] = (struct iovec){train + i * floor_run.size + HEAD, payload};
    if (floor_run.at + (off_t) all > floor_run.file_size)
        floor_run.at = 0;
    if (preadv(floor_run.file, pieces, (int) floor_run.packets, floor_run.at) != (ssize_t) all)
        die("preadv");
    floor_run.at += (off_t) all;
}

static void packet_seal(unsigned char *packet)
{
    size_t size = floor_run.size - HEADER - TAG;
    unsigned char *payload = packet + HEADER;
    int n;

    for (unsigned i = 12; ++floor_run.nonce[--i] == 0 && i != 4;)
        ;
#ifdef HAVE_IPSEC_MB
    struct gcm_context_data context;
    if (floor_run.mb != NULL) {
        IMB_AES128_GCM_ENC(floor_run.mb, &floor_run.mb_key, &context, payload, payload, size,
                           floor_run.nonce, packet, HEADER, payload + size, TAG);
        return;
    }
#endif
    if (EVP_EncryptInit_ex(floor_run.aead, NULL, NULL, NULL, floor_run.nonce) != 1 ||
        EVP_EncryptUpdate(floor_run.aead, NULL, &n, packet, HEADER) != 1 ||
        EVP_EncryptUpdate(floor_run.aead, payload, &n, payload, (int) size) != 1 ||
        EVP_EncryptFinal_ex(floor_run.aead, payload + size, &n) != 1 ||
        EVP_CIPHER_CTX_ctrl(floor_run.aead, EVP_CTRL_AEAD_GET_TAG, TAG, payload + size) != 1)
        die("libcrypto");
}

static void train_seal(void)
{
    unsigned char samples[PACKETS_MOST * 16], masks[sizeof samples];
    int n;

    for (unsigned i = 0; i < floor_run.packets; i++) {
        packet_seal(train + i * floor_run.size);
        memcpy(samples + 16u * i, train + i * floor_run.size + HEADER + 1, 16);
    }
    if (EVP_EncryptUpdate(floor_run.block, masks, &n, samples, (int) (16 * floor_run.packets)) != 1)
        die("libcrypto");
    for (unsigned i = 0; i < floor_run.packets; i++)
        for (unsigned j = 0; j < HEADER; j++)
            train[i * floor_run.size + j] ^= masks[16 * i + j];
}

static void acks_read(bool may_wait)
{
    static char room[ACKS_AT_ONCE][ACK_SIZE];
    struct iovec pieces[ACKS_AT_ONCE];
    struct mmsghdr messages[ACKS_AT_ONCE] = {0};
    struct pollfd ready = {.fd = floor_run.sock, .events = POLLIN};

    if (may_wait && poll(&ready, 1, 1000) != 1) {
        fprintf(stderr, "datagram_floor: the peer says nothing\n");
        exit(1);
    }
    for (unsigned i = 0; i < ACKS_AT_ONCE; i++) {
        pieces[i] = (struct iovec){room[i], ACK_SIZE};
        messages[i].msg_hdr.msg_iov = &pieces[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    int n = recvmmsg(floor_run.sock, messages, ACKS_AT_ONCE, MSG_DONTWAIT, NULL);
    floor_run.in_flight -= n > 0 ? (unsigned long) n * ACK_EVERY : 0;
}

static void train_send(void)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(uint16_t))];
    } control = {0};
    struct iovec piece = {train, floor_run.size * floor_run.packets};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    uint16_t segment = (uint16_t) floor_run.size;

    control.align.cmsg_level = IPPROTO_UDP;
    control.align.cmsg_type = UDP_SEGMENT;
    control.align.cmsg_len = CMSG_LEN(sizeof segment);
    memcpy(CMSG_DATA(&control.align), &segment, sizeof segment);
    if (sendmsg(floor_run.sock, &message, 0) < 0)
        die("sendmsg");
    floor_run.in_flight += floor_run.packets;
    while (floor_run.in_flight > IN_FLIGHT_MOST)
        acks_read(true);
}

static double cpu_seconds(void)
{
    struct timespec time;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double) time.tv_sec + (double) time.tv_nsec / 1e9;
}

static void run(const char *way, double bytes)
{
    double payload = (double) (floor_run.size - HEAD - TAG) * floor_run.packets, done = 0;
    double start = cpu_seconds();

    for (; done < bytes; done += payload) {
        if (floor_run.reads)
            train_read();
        if (floor_run.seals)
            train_seal();
        if (floor_run.sends)
            train_send();
    }
    double seconds = cpu_seconds() - start;
    printf("{\"way\": \"%s\", \"size\": %zu, \"packets\": %u, \"seconds\": %.4f, "
           "\"gigabytes_a_second\": %.3f}\n",
           way, floor_run.size, floor_run.packets, seconds, done / seconds / 1e9);
}

static bool ways_read(const char *way, const char *file)
{
    static const unsigned char key[16] = {1};

    floor_run.reads = strstr(way, "read") != NULL;
#ifdef HAVE_IPSEC_MB
    if (strstr(way, "mb") != NULL) {
        floor_run.seals = true;
        floor_run.mb = alloc_mb_mgr(0);
        init_mb_mgr_auto(floor_run.mb, NULL);
        IMB_AES128_GCM_PRE(floor_run.mb, key, &floor_run.mb_key);
    }
#endif
    floor_run.seals = floor_run.seals || strstr(way, "seal") != NULL;
    floor_run.joins = strstr(way, "join") != NULL;
    floor_run.sends = floor_run.joins || strstr(way, "send") != NULL;
    if (floor_run.reads) {
        floor_run.file = file == NULL ? -1 : open(file, O_RDONLY);
        floor_run.file_size = lseek(floor_run.file, 0, SEEK_END);
    }
    if (floor_run.seals) {
        floor_run.aead = EVP_CIPHER_CTX_new();
        floor_run.block = EVP_CIPHER_CTX_new();
        EVP_EncryptInit_ex(floor_run.aead, EVP_aes_128_gcm(), NULL, key, floor_run.nonce);
        EVP_EncryptInit_ex(floor_run.block, EVP_aes_128_ecb(), NULL, key, NULL);
    }
    return !floor_run.reads || floor_run.file_size >= (off_t) (floor_run.size * floor_run.packets);
}

int main(int count, char **words)
{
    floor_run.size = count > 2 ? strtoul(words[2], NULL, 10) : 0;
    floor_run.packets = count > 3 ? (unsigned) atoi(words[3]) : 0;
    if (count < 5 || floor_run.size < 100 || floor_run.packets == 0 ||
        floor_run.packets > PACKETS_MOST || floor_run.size * floor_run.packets > SIZE_MOST ||
        !ways_read(words[1], words[5])) {
        fprintf(stderr,
                "usage: datagram_floor [read,][seal,|mb,][send|join] SIZE PACKETS MEGABYTES "
                "[FILE]\n");
        return 1;
    }
    if (floor_run.sends)
        peer_start();
    run(words[1], 1e6 * atof(words[4]));
    return 0;
}
