/* coding_cost: what the libraries take for a body when nothing is around them: `coding_cost
 * gzip|br|zstd LEVEL FILE COUNT` encodes a file so many times, as a server that keeps what it can
 * from one body to the next, and prints one line of JSON. */

#define _GNU_SOURCE
#include <brotli/encode.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zlib.h>
#include <zstd.h>

enum {
    INPUT_MAX = 1 << 20,
    OUTPUT_MAX = 2 << 20,
    GZIP_BITS = 15 + 16 /* the largest window, and the gzip format */
};

static char input[INPUT_MAX];
static char output[OUTPUT_MAX];

/* Each encodes `size` bytes of input, at a level, and gives the bytes that came of them; 0: failed.
 */
typedef size_t encode(size_t size, int level);

static size_t encode_gzip(size_t size, int level)
{
    static z_stream stream;

    if (stream.state == NULL &&
        deflateInit2(&stream, level, Z_DEFLATED, GZIP_BITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return 0;
    deflateReset(&stream);
    stream.next_in = (unsigned char *) input;
    stream.avail_in = (unsigned) size;
    stream.next_out = (unsigned char *) output;
    stream.avail_out = OUTPUT_MAX;
    return deflate(&stream, Z_FINISH) == Z_STREAM_END ? stream.total_out : 0;
}

static size_t encode_brotli(size_t size, int level)
{
    size_t made = OUTPUT_MAX;

    return BrotliEncoderCompress(level, BROTLI_DEFAULT_WINDOW, BROTLI_MODE_GENERIC, size,
                                 (unsigned char *) input, &made, (unsigned char *) output)
               ? made
               : 0;
}

static size_t encode_zstd(size_t size, int level)
{
    static ZSTD_CCtx *context;
    size_t made;

    if (context == NULL)
        context = ZSTD_createCCtx();
    made = ZSTD_compressCCtx(context, output, OUTPUT_MAX, input, size, level);
    return ZSTD_isError(made) ? 0 : made;
}

static double cpu_us(void)
{
    struct timespec time;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double) time.tv_sec * 1e6 + (double) time.tv_nsec / 1e3;
}

static encode *encode_of(const char *coding)
{
    return strcmp(coding, "gzip") == 0   ? encode_gzip
           : strcmp(coding, "br") == 0   ? encode_brotli
           : strcmp(coding, "zstd") == 0 ? encode_zstd
                                         : NULL;
}

int main(int argc, char **argv)
{
    encode *run = argc == 5 ? encode_of(argv[1]) : NULL;
    FILE *file = run != NULL ? fopen(argv[3], "rb") : NULL;
    size_t size, made = 0;
    double start;
    int count;

    if (file == NULL) {
        fputs("usage: coding_cost gzip|br|zstd LEVEL FILE COUNT\n", stderr);
        return 2;
    }
    size = fread(input, 1, INPUT_MAX, file);
    fclose(file);
    count = atoi(argv[4]);
    start = cpu_us();
    for (int i = 0; i < count; i++) {
        made = run(size, atoi(argv[2]));
        if (made == 0)
            return 1;
    }
    printf("{\"bytes\":%zu,\"cpu_us\":%.3f}\n", made, (cpu_us() - start) / count);
    return 0;
}
