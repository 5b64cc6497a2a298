/* accept_ways: in which way do new connections reach workers that are free? Measures one way; one
 * line of JSON. */

#define _GNU_SOURCE
#include "accept_ways.h"
#include "accept_steering.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const char usage[] =
    "accept_ways [options] hash|shared|mutex|lend|lend-K|cbpf|ebpf\n"
    "  -w N   workers (4)                       -a N   addresses (1)\n"
    "  -t S   seconds of load (2)               -c N   light clients (16)\n"
    "  -r N   heavy requests a second (0)       -b US  CPU time of one (60000)\n"
    "  -u US  CPU time of a light request (0)   -d US  cbpf, ebpf: busy after (200) \n"
    "  -s MS  stop a worker for so long (0)     -p N   connections that nobody takes, then end\n"
    "  -n     no load: what starting and ending costs\n";

struct plan plan =
    {.workers = 4, .addresses = 1, .seconds = 2, .clients = 16, .heavy_us = 60000, .bound_us = 200};
struct shared *shared;
struct pulse *pulses;

static int listeners[WORKERS_MAX][ADDRESSES_MAX];
static pid_t workers[WORKERS_MAX];

static _Noreturn void fail(const char *what)
{
    perror(what);
    exit(1);
}

/* The number of a line of a file of /proc that begins with a word: its column-th after it; 0 where
 * there is none. */
static uint64_t kernel_count(const char *path, const char *word, unsigned column)
{
    char line[512];
    uint64_t value = 0;
    FILE *file = fopen(path, "re");

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        char *at = line + strlen(word);
        if (strncmp(line, word, strlen(word)) != 0)
            continue;
        for (unsigned i = 0; i < column; i++)
            value = strtoull(at, &at, 10);
        break;
    }
    if (file != NULL)
        fclose(file);
    return value;
}

/* Memory of the kernel, in KiB, and what epoll watches. */
struct memory {
    uint64_t slab, available, watched;
};

static struct memory memory_now(void)
{
    return (struct memory){.slab = kernel_count("/proc/meminfo", "Slab:", 1),
                           .available = kernel_count("/proc/meminfo", "MemAvailable:", 1),
                           .watched = kernel_count("/proc/slabinfo", "eventpoll_epi ", 1)};
}

static void parse_way(const char *name)
{
    static const char *const names[] = {"hash", "shared", "mutex", "lend", "cbpf", "ebpf"};

    plan.lend_to = plan.workers - 1;
    if (strncmp(name, "lend-", 5) == 0) {
        plan.way = WAY_LEND;
        plan.lend_to = (unsigned) atoi(name + 5);
        if (plan.lend_to >= plan.workers)
            plan.lend_to = plan.workers - 1;
        return;
    }
    for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++)
        if (strcmp(name, names[i]) == 0) {
            plan.way = (enum way) i;
            return;
        }
    fputs(usage, stderr);
    exit(2);
}

static void parse(int argc, char **argv)
{
    int option;
    unsigned *numbers[128] =
        {['w'] = &plan.workers,    ['a'] = &plan.addresses, ['c'] = &plan.clients,
         ['b'] = &plan.heavy_us,   ['u'] = &plan.light_us,  ['d'] = &plan.bound_us,
         ['s'] = &plan.stopped_ms, ['p'] = &plan.parked};

    while ((option = getopt(argc, argv, "w:a:t:c:r:b:u:d:s:p:n")) != -1) {
        if (option < 128 && numbers[option] != NULL)
            *numbers[option] = (unsigned) atoi(optarg);
        else if (option == 't')
            plan.seconds = atof(optarg);
        else if (option == 'r')
            plan.heavy_rate = atof(optarg);
        else if (option == 'n')
            plan.registers_only = true;
        else
            optind = argc;
    }
    if (optind != argc - 1 || plan.workers - 1 >= WORKERS_MAX ||
        plan.addresses - 1 >= ADDRESSES_MAX || plan.clients > 1024) {
        fputs(usage, stderr);
        exit(2);
    }
    parse_way(argv[optind]);
}

static int open_listener(unsigned address)
{
    struct sockaddr_in name = {.sin_family = AF_INET,
                               .sin_port = htons((uint16_t) plan.port),
                               .sin_addr.s_addr = htonl(0x7f000101 + address)};
    socklen_t size = sizeof(name);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;

    if (plan.way != WAY_SHARED && plan.way != WAY_MUTEX)
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *) &name, sizeof(name)) == -1 || listen(fd, 4096) == -1)
        fail("listen");
    getsockname(fd, (struct sockaddr *) &name, &size);
    plan.port = ntohs(name.sin_port);
    return fd;
}

/* A worker's sockets are the index-th of their groups, as the steering programs count. */
static void open_listeners(void)
{
    unsigned owners = plan.way == WAY_SHARED || plan.way == WAY_MUTEX ? 1 : plan.workers;

    for (unsigned w = 0; w < owners; w++)
        for (unsigned a = 0; a < plan.addresses; a++)
            listeners[w][a] = open_listener(a);
}

static void start_workers(void)
{
    for (unsigned w = 0; w < plan.workers; w++) {
        workers[w] = fork();
        if (workers[w] == -1)
            fail("fork");
        if (workers[w] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            worker_run(w, listeners);
        }
    }
}

/* Until all workers have come to so many meeting points. */
static void await_workers(unsigned steps)
{
    while (shared->steps < steps * plan.workers) {
        if (waitpid(-1, NULL, WNOHANG) != 0) {
            fputs("accept_ways: a worker has ended\n", stderr);
            exit(1);
        }
        usleep(100);
    }
}

static void sleep_ms(double ms)
{
    usleep((useconds_t) (ms * 1000));
}

/* With the lock it is its holder, who is the worst to lose. */
static void stop_one(void)
{
    pid_t pid = workers[0];

    sleep_ms(200);
    if (plan.way == WAY_MUTEX && shared->lock_holder >= 0)
        pid = workers[shared->lock_holder];
    kill(pid, SIGSTOP);
    waitpid(pid, NULL, WUNTRACED);
    shared->stopped_at = clock_ns(CLOCK_MONOTONIC);
    sleep_ms(plan.stopped_ms);
    shared->continued_at = clock_ns(CLOCK_MONOTONIC);
    kill(pid, SIGCONT);
}

/* The load runs in a process of its own, so that its CPU time is told apart. */
static void run_client(void)
{
    pid_t client = fork();
    int status = 0;

    if (client == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        client_run();
        _exit(0);
    }
    if (plan.stopped_ms > 0)
        stop_one();
    if (client == -1 || waitpid(client, &status, 0) == -1 || status != 0) {
        fputs("accept_ways: the client failed\n", stderr);
        shared->outcome.failed++;
    }
}

/* How long it takes until all have left, in ns. */
static uint64_t end_workers(void)
{
    uint64_t started = clock_ns(CLOCK_MONOTONIC);

    shared->is_over = true;
    for (unsigned w = 0; w < plan.workers; w++) {
        while (waitpid(workers[w], NULL, WNOHANG) == 0) {
            kill(workers[w], SIGUSR1);
            usleep(100);
        }
    }
    return clock_ns(CLOCK_MONOTONIC) - started;
}

static struct tally sum_of_tallies(uint64_t *slowest_register)
{
    struct tally sum = {.own = 0};

    for (unsigned w = 0; w < plan.workers; w++) {
        const struct tally *one = &shared->tallies[w];
        sum.own += one->own;
        sum.siblings += one->siblings;
        sum.wakeups += one->wakeups;
        sum.empty += one->empty;
        sum.misses += one->misses;
        sum.cpu_ns += one->cpu_ns;
        sum.switches += one->switches;
        sum.register_cpu_ns += one->register_cpu_ns;
        if (one->register_ns > *slowest_register)
            *slowest_register = one->register_ns;
    }
    return sum;
}

static void print_load(const struct tally *sum)
{
    const struct outcome *o = &shared->outcome;
    double accepts = (double) (sum->own + sum->siblings), seconds = o->seconds;

    printf("{\"rate\": %.0f, \"p50_us\": %.0f, \"p99_us\": %.0f, \"longest_us\": %.0f, ",
           seconds > 0 ? (double) o->answered / seconds : 0, o->p50_us, o->p99_us, o->longest_us);
    printf("\"failed\": %lu, \"heavy\": %lu, \"stopped_longest_us\": %.0f, \"stopped_late\": %lu, ",
           o->failed, o->heavy, o->stopped_longest_us, o->stopped_late);
    if (accepts > 0)
        printf(
            "\"worker_us\": %.3f, \"client_us\": %.3f, \"switches\": %.4f, \"wakeups\": %.4f, \"empty\": %.5f, "
            "\"misses\": %.5f, \"siblings\": %.4f, ",
            (double) sum->cpu_ns / accepts / 1000, (double) o->cpu_ns / accepts / 1000,
            (double) sum->switches / accepts, (double) sum->wakeups / accepts,
            (double) sum->empty / accepts, (double) sum->misses / accepts,
            (double) sum->siblings / accepts);
}

int main(int argc, char **argv)
{
    struct memory sockets, registered;
    struct steering_costs costs = {.renewals = 0};
    struct rlimit files;
    struct tally sum;
    uint64_t slowest = 0, ended;

    parse(argc, argv);
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pulses = mmap(NULL, sizeof(*pulses) * WORKERS_MAX, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared->lock_holder = -1;
    if (plan.way == WAY_EBPF)
        steering_map();
    open_listeners();
    if (plan.way == WAY_EBPF)
        steering_attach(listeners);
    start_workers();
    await_workers(1);
    sockets = memory_now();
    shared->may_register = true;
    await_workers(plan.way == WAY_LEND ? plan.lend_to + 2 : 2);
    registered = memory_now();
    if (plan.way == WAY_CBPF)
        steering_watch(listeners);
    if (!plan.registers_only)
        run_client();
    if (plan.way == WAY_CBPF)
        costs = steering_unwatch();
    ended = end_workers();
    sum = sum_of_tallies(&slowest);
    print_load(&sum);
    printf(
        "\"park_ns\": %.0f, \"register_ms\": %.3f, \"register_cpu_ms\": %.3f, \"end_ms\": %.3f, ",
        shared->outcome.park_ns, (double) slowest / 1e6, (double) sum.register_cpu_ns / 1e6,
        (double) ended / 1e6);
    printf("\"slab_kb\": %ld, \"memory_kb\": %ld, \"watched\": %ld, ",
           (long) (registered.slab - sockets.slab),
           (long) (sockets.available - registered.available),
           (long) (registered.watched - sockets.watched));
    printf(
        "\"renewals\": %lu, \"renewal_us\": %.1f, \"renewal_longest_us\": %.1f, \"watcher_cpu\": %.4f}\n",
        costs.renewals,
        costs.renewals > 0 ? (double) costs.total_ns / (double) costs.renewals / 1000 : 0,
        (double) costs.longest_ns / 1000, (double) costs.cpu_ns / 1e9 / plan.seconds);
    return shared->outcome.failed > 0;
}
