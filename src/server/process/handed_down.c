/* The file in memory that a new binary reads once at its start. */
#define _GNU_SOURCE
#include "server/process/handed_down.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/parse.h"
#include "net/datagram/binaries.h"
#include "net/quic/quic.h"
#include "server/process/server.h"

#define VARIABLE "PORTUNUS_QUIC"
#define MAGIC (0x90c7d000u + DATAGRAM_PASSED_FORM)
#define SIZE_MOST (1024u * 1024u)

struct head {
    uint32_t magic;
    unsigned char key[QUIC_RANDOM_KEY_SIZE];
};

/* As many entries as the file has bytes for follow the head. */
struct entry {
    uint32_t number;
    int32_t fd;
};

static void add_entry(uint32_t number, int fd, void *arg)
{
    const struct entry entry = {.number = number, .fd = fd};

    fcntl(fd, F_SETFD, 0);
    buf_append(arg, (struct str){(const char *) &entry, sizeof(entry)});
}

/* Gives a file in memory with these bytes, at offset 0; -1 with errno. */
static int file_of(struct str bytes)
{
    int fd = memfd_create("quic", 0);

    if (fd >= 0 && pwrite(fd, bytes.data, bytes.len, 0) != (ssize_t) bytes.len) {
        close(fd);
        return -1;
    }
    return fd;
}

char *handed_down_make(struct arena *arena)
{
    struct head head = {.magic = MAGIC};
    struct buf bytes = {0};
    const unsigned char *key = quic_random_key();

    if (key == NULL) {
        return NULL;
    }
    memcpy(head.key, key, sizeof(head.key));
    buf_append(&bytes, (struct str){(const char *) &head, sizeof(head)});
    datagram_mailboxes_each(add_entry, &bytes);
    int fd = file_of(buf_str(&bytes));
    buf_free(&bytes);
    explicit_bzero(&head, sizeof(head));
    if (fd < 0) {
        log_alert(log_main, errno, "memfd_create() failed, QUIC connections end with this binary");
        return NULL;
    }
    return (char *) arena_printf(arena, VARIABLE "=%d", fd).data;
}

/* The number may refer to any descriptor: the environment is not under our control. */
static bool is_file_in_memory(int fd, size_t *size)
{
    struct stat facts;

    if (fcntl(fd, F_GET_SEALS) == -1 || fstat(fd, &facts) != 0 || facts.st_size < 0 ||
        (uint64_t) facts.st_size > SIZE_MOST) {
        return false;
    }
    *size = (size_t) facts.st_size;
    return true;
}

static bool has_option(int fd, int option, int value)
{
    int is = 0;
    socklen_t len = sizeof(is);

    return getsockopt(fd, SOL_SOCKET, option, &is, &len) == 0 && is == value;
}

/* Checks without side effects, since the number may be that of a listening socket. A descriptor
 * with FD_CLOEXEC did not come with the binary, or has been taken before. */
static bool is_mailbox(int fd)
{
    return fd > STDERR_FILENO && fcntl(fd, F_GETFD) == 0 && has_option(fd, SO_DOMAIN, AF_UNIX) &&
           has_option(fd, SO_TYPE, SOCK_DGRAM);
}

static void take_entry(const unsigned char *at)
{
    struct entry entry;

    memcpy(&entry, at, sizeof(entry));
    if (!is_mailbox(entry.fd) || fcntl(entry.fd, F_SETFD, FD_CLOEXEC) != 0) {
        return;
    }
    if (!datagram_mailbox_of_other(entry.number, entry.fd)) {
        close(entry.fd);
    }
}

static void take_all(const unsigned char *bytes, size_t size)
{
    struct head head;

    if (size < sizeof(head)) {
        return;
    }
    memcpy(&head, bytes, sizeof(head));
    if (head.magic == MAGIC) {
        quic_random_key_inherit(head.key);
        for (size_t at = sizeof(head); size - at >= sizeof(struct entry);
             at += sizeof(struct entry)) {
            take_entry(bytes + at);
        }
    }
    explicit_bzero(&head, sizeof(head));
}

void handed_down_take(void)
{
    const char *text = server_environment(VARIABLE);
    uint64_t number;
    size_t size;

    if (text == NULL || !parse_uint(str_of(text), &number) || number <= STDERR_FILENO ||
        number > INT_MAX || !is_file_in_memory((int) number, &size)) {
        return;
    }
    void *bytes = size == 0 ? MAP_FAILED : mmap(NULL, size, PROT_READ, MAP_SHARED, (int) number, 0);
    if (bytes != MAP_FAILED) {
        take_all(bytes, size);
        munmap(bytes, size);
    }
    close((int) number);
}
