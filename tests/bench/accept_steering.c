/* accept_steering: BPF programs that choose among the sockets of SO_REUSEPORT, for accept_ways.
 * Written by hand as instructions, because nothing that compiles them is needed elsewhere in this
 * tree. */

#define _GNU_SOURCE
#include "accept_ways.h"
#include "accept_steering.h"

#include <linux/bpf.h>
#include <linux/filter.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LOOK_US = 200, EBPF_MAX = 32 + WORKERS_MAX * 10, LOG_SIZE = 1 << 16 };

static pthread_t watcher;
static _Atomic bool is_unwatched;
static struct steering_costs costs;

static _Noreturn void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* Classic BPF: a random one of the given workers. An index that the group lacks makes the kernel
 * choose by its hash. */
static void attach_classic(int fd, const unsigned char *workers, unsigned count)
{
    struct sock_filter code[2 + 2 * WORKERS_MAX];
    struct sock_fprog program = {.filter = code};
    unsigned n = 0;

    code[n++] = (struct sock_filter) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, SKF_AD_OFF + SKF_AD_RANDOM);
    code[n++] = (struct sock_filter) BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, count);
    for (unsigned i = 0; i + 1 < count; i++) {
        code[n++] = (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, i, 0, 1);
        code[n++] = (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, workers[i]);
    }
    code[n++] = (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, workers[count - 1]);
    program.len = (unsigned short) n;
    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program)) == -1)
        fail("SO_ATTACH_REUSEPORT_CBPF");
}

static void renew(int (*listeners)[ADDRESSES_MAX], uint64_t busy)
{
    unsigned char workers[WORKERS_MAX];
    unsigned count = 0;
    uint64_t started = clock_ns(CLOCK_MONOTONIC), took;

    for (unsigned i = 0; i < plan.workers; i++)
        if ((busy >> i & 1) == 0)
            workers[count++] = (unsigned char) i;
    for (unsigned i = 0; count == 0 && i < plan.workers; i++)
        workers[i] = (unsigned char) i;
    for (unsigned a = 0; a < plan.addresses; a++)
        attach_classic(listeners[0][a], workers, count == 0 ? plan.workers : count);
    took = clock_ns(CLOCK_MONOTONIC) - started;
    costs.renewals++;
    costs.total_ns += took;
    if (took > costs.longest_ns)
        costs.longest_ns = took;
}

static void *watch(void *listeners)
{
    uint64_t before = 0;

    prctl(PR_SET_TIMERSLACK, 1000);
    renew(listeners, 0);
    while (!is_unwatched) {
        uint64_t busy = 0, now = clock_ns(CLOCK_MONOTONIC);

        for (unsigned i = 0; i < plan.workers; i++) {
            uint64_t since = pulses[i].awake_since;
            if (since != 0 && now > since && now - since > plan.bound_us * 1000ull)
                busy |= 1ull << i;
        }
        if (busy != before)
            renew(listeners, busy);
        before = busy;
        nanosleep(&(struct timespec){.tv_nsec = LOOK_US * 1000}, NULL);
    }
    costs.cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    return NULL;
}

void steering_watch(int (*listeners)[ADDRESSES_MAX])
{
    if (pthread_create(&watcher, NULL, watch, listeners) != 0)
        fail("pthread_create");
}

struct steering_costs steering_unwatch(void)
{
    is_unwatched = true;
    pthread_join(watcher, NULL);
    return costs;
}

static int bpf(int command, union bpf_attr *attributes)
{
    return (int) syscall(__NR_bpf, command, attributes, sizeof(*attributes));
}

static int map_fd;

void steering_map(void)
{
    union bpf_attr map = {.map_type = BPF_MAP_TYPE_ARRAY,
                          .key_size = 4,
                          .value_size = sizeof(struct pulse) * WORKERS_MAX,
                          .max_entries = 1,
                          .map_flags = BPF_F_MMAPABLE};

    map_fd = bpf(BPF_MAP_CREATE, &map);
    if (map_fd == -1)
        fail("bpf: BPF_MAP_TYPE_ARRAY");
    pulses = mmap(NULL, sizeof(struct pulse) * WORKERS_MAX, PROT_READ | PROT_WRITE, MAP_SHARED,
                  map_fd, 0);
    if (pulses == MAP_FAILED)
        fail("mmap of a map");
}

static int sockets_of(int (*listeners)[ADDRESSES_MAX], unsigned address)
{
    union bpf_attr map = {.map_type = BPF_MAP_TYPE_REUSEPORT_SOCKARRAY,
                          .key_size = 4,
                          .value_size = 8,
                          .max_entries = plan.workers};
    int fd = bpf(BPF_MAP_CREATE, &map);

    if (fd == -1)
        fail("bpf: BPF_MAP_TYPE_REUSEPORT_SOCKARRAY");
    for (uint32_t i = 0; i < plan.workers; i++) {
        uint64_t value = (uint64_t) listeners[i][address];
        union bpf_attr update = {.map_fd = (uint32_t) fd,
                                 .key = (uintptr_t) &i,
                                 .value = (uintptr_t) &value};
        if (bpf(BPF_MAP_UPDATE_ELEM, &update) == -1)
            fail("bpf: a socket into the map");
    }
    return fd;
}

/* Instructions in the order in which they are written. */
struct text {
    struct bpf_insn code[EBPF_MAX];
    unsigned size;
};

static void put(struct text *text, uint8_t code, uint8_t registers, int16_t offset, int32_t value)
{
    text->code[text->size++] = (struct bpf_insn){.code = code,
                                                 .dst_reg = registers & 15,
                                                 .src_reg = registers >> 4,
                                                 .off = offset,
                                                 .imm = value};
}

/* Registers of an instruction: where to, where from. */
#define REGS(to, from) ((uint8_t) ((to) | (from) << 4))

static void put_map(struct text *text, uint8_t registers, int fd)
{
    put(text, BPF_LD | BPF_DW | BPF_IMM, registers, 0, fd);
    put(text, 0, 0, 0, 0);
}

/* r6: the context, r7: the worker of the hash, r8: now, r9: the pulses. Asks workers from r7 on,
 * ring-wise, until one sleeps or is awake for less than the bound; where there is none it is r7
 * after all. */
static void write_choice(struct text *text, int sockets)
{
    unsigned choose = 0, jumps[2 * WORKERS_MAX], count = 0;

    put(text, BPF_ALU64 | BPF_MOV | BPF_X, REGS(6, 1), 0, 0);
    put(text, BPF_LDX | BPF_MEM | BPF_W, REGS(7, 6), offsetof(struct sk_reuseport_md, hash), 0);
    put(text, BPF_ALU64 | BPF_MUL | BPF_K, 7, 0, (int32_t) plan.workers);
    put(text, BPF_ALU64 | BPF_RSH | BPF_K, 7, 0, 32);
    put(text, BPF_JMP | BPF_CALL, 0, 0, BPF_FUNC_ktime_get_ns);
    put(text, BPF_ALU64 | BPF_MOV | BPF_X, REGS(8, 0), 0, 0);
    put_map(text, REGS(9, BPF_PSEUDO_MAP_VALUE), map_fd);
    for (unsigned i = 0; i < plan.workers; i++) {
        put(text, BPF_ALU64 | BPF_MOV | BPF_X, REGS(2, 7), 0, 0);
        put(text, BPF_ALU64 | BPF_ADD | BPF_K, 2, 0, (int32_t) i);
        put(text, BPF_ALU64 | BPF_MOD | BPF_K, 2, 0, (int32_t) plan.workers);
        put(text, BPF_STX | BPF_MEM | BPF_W, REGS(10, 2), -4, 0);
        put(text, BPF_ALU64 | BPF_AND | BPF_K, 2, 0, WORKERS_MAX - 1);
        put(text, BPF_ALU64 | BPF_LSH | BPF_K, 2, 0, 6); /* a struct pulse has 64 bytes */
        put(text, BPF_ALU64 | BPF_ADD | BPF_X, REGS(2, 9), 0, 0);
        put(text, BPF_LDX | BPF_MEM | BPF_DW, REGS(3, 2), 0, 0);
        jumps[count++] = text->size;
        put(text, BPF_JMP | BPF_JEQ | BPF_K, 3, 0, 0);
        put(text, BPF_ALU64 | BPF_ADD | BPF_K, 3, 0, (int32_t) (plan.bound_us * 1000));
        jumps[count++] = text->size;
        put(text, BPF_JMP | BPF_JGE | BPF_X, REGS(3, 8), 0, 0);
    }
    put(text, BPF_STX | BPF_MEM | BPF_W, REGS(10, 7), -4, 0);
    choose = text->size;
    for (unsigned i = 0; i < count; i++)
        text->code[jumps[i]].off = (int16_t) (choose - jumps[i] - 1);
    put(text, BPF_ALU64 | BPF_MOV | BPF_X, REGS(1, 6), 0, 0);
    put_map(text, REGS(2, BPF_PSEUDO_MAP_FD), sockets);
    put(text, BPF_ALU64 | BPF_MOV | BPF_X, REGS(3, 10), 0, 0);
    put(text, BPF_ALU64 | BPF_ADD | BPF_K, 3, 0, -4);
    put(text, BPF_ALU64 | BPF_MOV | BPF_K, 4, 0, 0);
    put(text, BPF_JMP | BPF_CALL, 0, 0, BPF_FUNC_sk_select_reuseport);
    put(text, BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, SK_PASS);
    put(text, BPF_JMP | BPF_EXIT, 0, 0, 0);
}

static void attach(int (*listeners)[ADDRESSES_MAX], unsigned address)
{
    static char log[LOG_SIZE];
    struct text text = {.size = 0};
    union bpf_attr load = {.prog_type = BPF_PROG_TYPE_SK_REUSEPORT,
                           .insns = (uintptr_t) text.code,
                           .license = (uintptr_t) "none",
                           .log_buf = (uintptr_t) log,
                           .log_size = sizeof(log),
                           .log_level = 1};
    int fd;

    write_choice(&text, sockets_of(listeners, address));
    load.insn_cnt = text.size;
    fd = bpf(BPF_PROG_LOAD, &load);
    if (fd == -1) {
        fputs(log, stderr);
        fail("bpf: BPF_PROG_TYPE_SK_REUSEPORT");
    }
    if (setsockopt(listeners[0][address], SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF, &fd, sizeof(fd)) ==
        -1)
        fail("SO_ATTACH_REUSEPORT_EBPF");
}

void steering_attach(int (*listeners)[ADDRESSES_MAX])
{
    for (unsigned a = 0; a < plan.addresses; a++)
        attach(listeners, a);
}
