/* Parses /proc: see system.h. */
#include "http/modules/access/sysguard/system.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/parse.h"

struct str system_text(const char *path, char *buffer, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd == -1 ? 0 : read(fd, buffer, size);

    if (fd != -1) {
        close(fd);
    }
    return (struct str){buffer, n > 0 ? (size_t) n : 0};
}

/* The next word of a line, separated by spaces. */
static struct str next_word(struct str *line)
{
    struct str word = STR_NONE;

    while (word.len == 0 && line->data != NULL) {
        word = str_cut(line, ' ');
    }
    return word;
}

bool system_read_load(struct str loadavg, uint64_t *thousandths)
{
    return parse_fixed_point(next_word(&loadavg), 3, thousandths);
}

/* "cpu  user nice system idle iowait irq softirq steal …": idle and iowait are not busy. */
bool system_read_cpu(struct str stat, struct cpu_time *out)
{
    enum { USED = 8 }; /* the further values are included in user and nice */
    struct str line = str_cut(&stat, '\n');

    *out = (struct cpu_time){.busy = 0};
    if (!str_is(next_word(&line), "cpu")) {
        return false;
    }
    for (unsigned i = 0; i < USED; i++) {
        uint64_t ticks;

        if (!parse_uint(next_word(&line), &ticks)) {
            return i > 3; /* older kernels have fewer values */
        }
        out->all += ticks;
        out->busy += i == 3 || i == 4 ? 0 : ticks;
    }
    return true;
}

/* "MemFree:  1234 kB" */
static bool read_size(struct str line, struct str name, uint64_t *bytes)
{
    uint64_t number;

    if (!str_equal(str_cut(&line, ':'), name) || !parse_uint(next_word(&line), &number) ||
        number > UINT64_MAX >> 10) {
        return false;
    }
    *bytes = number << 10;
    return true;
}

bool system_read_memory(struct str meminfo, struct memory_state *out)
{
    uint64_t bytes;
    unsigned seen = 0;

    *out = (struct memory_state){.free_bytes = 0};
    while (meminfo.data != NULL) {
        struct str line = str_cut(&meminfo, '\n');

        if (read_size(line, STR("MemFree"), &bytes) || read_size(line, STR("Buffers"), &bytes) ||
            read_size(line, STR("Cached"), &bytes)) {
            out->free_bytes += bytes;
            seen++;
        }
        seen += read_size(line, STR("SwapTotal"), &out->swap_total);
        seen += read_size(line, STR("SwapFree"), &out->swap_free);
    }
    return seen == 5;
}
