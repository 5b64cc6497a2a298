/* Steering: which sockets of a group get new connections, by a classic BPF program. */
#include "net/shards/private.h"

#include <errno.h>
#include <linux/filter.h>
#include <string.h>
#include <sys/socket.h>

#include "net/shards/slots.h"

#ifndef SO_DETACH_REUSEPORT_BPF
#define SO_DETACH_REUSEPORT_BPF 68
#endif

/*
 * The program returns a position in the group. Sockets join the group in the order of their slots,
 * and leave it from the top only, so slot and position are equal.
 */

/* The position is random % n. */
static bool attach(int fd, unsigned n)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t) (SKF_AD_OFF + SKF_AD_RANDOM)),
        BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, n),
        BPF_STMT(BPF_RET | BPF_A, 0),
    };
    struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program)) != 0) {
        return false;
    }
    shard_steered();
    return true;
}

/* Loads with offsets from the IP header. */
#define NET_WORD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t) (SKF_NET_OFF + (offset)))

#define MIX_IN_PORT BPF_STMT(BPF_ALU | BPF_MUL | BPF_K, 0x9e3779b1), BPF_STMT(BPF_MISC | BPF_TAX, 0)
#define MIX_IN_WORD                                                                                \
    BPF_STMT(BPF_ALU | BPF_XOR | BPF_X, 0), BPF_STMT(BPF_ALU | BPF_MUL | BPF_K, 0x85ebca6b)
#define KEEP BPF_STMT(BPF_MISC | BPF_TAX, 0)

/*
 * The position is a hash of the client's address and port, % n. For IPv4 (which an IPv6 socket may
 * get as well) the header contains its length. For IPv6 the two bytes after the fixed header are
 * taken as the port: with extension headers they are something else, which only makes the spread
 * less even.
 */
static bool attach_datagram(int fd, unsigned n)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, (uint32_t) SKF_NET_OFF),
        BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 6, 6, 0),
        /* IPv4 */
        BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, (uint32_t) SKF_NET_OFF),
        BPF_STMT(BPF_LD | BPF_H | BPF_IND, (uint32_t) SKF_NET_OFF),
        MIX_IN_PORT,
        NET_WORD(12),
        BPF_STMT(BPF_JMP | BPF_JA, 16),
        /* IPv6 */
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, (uint32_t) (SKF_NET_OFF + 40)),
        MIX_IN_PORT,
        NET_WORD(8),
        MIX_IN_WORD,
        KEEP,
        NET_WORD(12),
        MIX_IN_WORD,
        KEEP,
        NET_WORD(16),
        MIX_IN_WORD,
        KEEP,
        NET_WORD(20),
        /* both: mix in the last word */
        MIX_IN_WORD,
        BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 15),
        BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, n),
        BPF_STMT(BPF_RET | BPF_A, 0),
    };
    struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program)) != 0) {
        return false;
    }
    shard_steered();
    return true;
}

#define M_ID 0 /* words of the program's memory; M_ID: where the id begins */
#define M_TEMP 1
#define M_MASK 2
#define ID_STEERED 12u /* bytes at the end of an id: random bytes, the slot, the worker */

/* A ^= A >> bits, using the memory. */
#define MIX_DOWN(bits)                                                                             \
    BPF_STMT(BPF_ST, M_TEMP), BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, bits),                           \
        BPF_STMT(BPF_LDX | BPF_W | BPF_MEM, M_TEMP), BPF_STMT(BPF_ALU | BPF_XOR | BPF_X, 0)

/*
 * QUIC datagrams: the connection id contains the slot, masked (quic_cid_encode in
 * net/quic/token.c). An id that the client chose contains any number; the position is that modulo
 * n. If it does not have the size of ours, its first bytes are used, since what follows the id
 * differs from packet to packet. Offsets are from the start of the UDP payload.
 */
static bool attach_quic(int fd, const struct shard_set *set, unsigned n)
{
    const struct id_steering *ids = &set->options.ids;
    uint32_t a = ids->key[0], b = ids->key[1], before = ids->size - ID_STEERED;
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0),
        BPF_STMT(BPF_LDX | BPF_IMM, 1 + before),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x80, 0, 4),
        BPF_STMT(BPF_LDX | BPF_IMM, 6), /* long header */
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 5),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ids->size, 0, 1),
        BPF_STMT(BPF_LDX | BPF_IMM, 6 + before),
        BPF_STMT(BPF_STX, M_ID),
        BPF_STMT(BPF_LD | BPF_W | BPF_IND, 0),
        BPF_STMT(BPF_ALU | BPF_XOR | BPF_K, a),
        BPF_STMT(BPF_ALU | BPF_MUL | BPF_K, b | 1),
        MIX_DOWN(15),
        BPF_STMT(BPF_ALU | BPF_MUL | BPF_K, a | 1),
        MIX_DOWN(16),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xffff),
        BPF_STMT(BPF_ST, M_MASK),
        BPF_STMT(BPF_LDX | BPF_W | BPF_MEM, M_ID),
        BPF_STMT(BPF_LD | BPF_H | BPF_IND, 4),
        BPF_STMT(BPF_LDX | BPF_W | BPF_MEM, M_MASK),
        BPF_STMT(BPF_ALU | BPF_XOR | BPF_X, 0),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, set->count, 0, 1),
        BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, n),
        BPF_STMT(BPF_RET | BPF_A, 0),
    };
    struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program)) != 0) {
        return false;
    }
    shard_steered();
    return true;
}

static bool detach(int fd)
{
    int unused = 0;

    /* ENOENT: no program. ENOPROTOOPT: a kernel before 5.3, which cannot detach. */
    return setsockopt(fd, SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, &unused, sizeof(unused)) == 0 ||
           errno == ENOENT;
}

/* Does the attached program do this already? */
static bool is_steered_so(const struct shard_set *set, unsigned n)
{
    return set->options.is_datagram && n != 0 && n == set->steered &&
           memcmp(&set->steered_by, &set->options.ids, sizeof(set->steered_by)) == 0 &&
           (!set->options.has_ids || set->steered_count == set->count);
}

static bool attach_any(struct shard_set *set, unsigned n)
{
    int fd = set->fds[0];

    if (!set->options.is_datagram) {
        return attach(fd, n);
    }
    set->steered_by = set->options.ids;
    set->steered_count = set->count;
    return set->options.has_ids ? attach_quic(fd, set, n) : attach_datagram(fd, n);
}

/* is_to_last: keeps a program even if it covers the whole group, which is about to grow. */
static bool steer(struct shard_set *set, unsigned active, bool is_to_last, const struct log *log)
{
    if (set->count == 0 || set->addr.any.sa_family == AF_UNIX || set->fds[0] == -1) {
        return true;
    }
    unsigned n = active < set->count ? active : set->count;
    bool is_steered = false;
    if (is_steered_so(set, n)) {
        return true;
    }
    set->steered = 0;
    errno = EINVAL;
    if (n == set->count && !is_to_last && !(set->options.is_datagram && n > 1)) {
        is_steered = detach(set->fds[0]);
    } else if (n != 0) {
        is_steered = attach_any(set, n);
        set->steered = is_steered ? n : 0;
        log_info(log, 0, "new %s go to %u of %u sockets",
                 set->options.is_datagram ? "clients" : "connections", n, set->count);
    }
    /* EINVAL for one socket: it was made without SO_REUSEPORT and is not a group yet. */
    if (!is_steered && (set->count > 1 || errno != EINVAL)) {
        log_alert(log, errno, "could not steer connections to %u of %u sockets", n, set->count);
    }
    return is_steered || set->count == 1;
}

bool shard_steer(struct shard_set *set, unsigned active, const struct log *log)
{
    return steer(set, active, false, log);
}

void shard_hold_growth(struct shard_set *set, const struct log *log)
{
    steer(set, set->count, true, log);
}
