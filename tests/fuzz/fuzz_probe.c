/* Fuzz target: what a health check reads. However the bytes are cut, an answer means the same; what
 * is kept of it is bounded. The first byte chooses the kind of answer, the second how it is cut. */
#include <stdlib.h>

#include "http/exchange/probe/probe.h"

struct outcome {
    enum probe_step step;
    unsigned status;
    struct str body;
    bool may_keep;
};

/* Gives the input in pieces of `piece` bytes, as a connection with a buffer would. */
static struct outcome read_answer(struct arena *arena, struct str bytes, size_t piece, uint8_t kind)
{
    struct probe_parser parser = {.arena = arena,
                                  .is_cgi = (kind & 1) != 0,
                                  .wants_body = (kind & 2) != 0,
                                  .wants_end = (kind & 4) != 0};
    enum probe_step step = PROBE_MORE;
    size_t used = 0;
    size_t given = 0;

    while (step == PROBE_MORE) {
        given = bytes.len - given > piece ? given + piece : bytes.len;
        struct str input = {bytes.data + used, given - used};
        step = probe_parse(&parser, &input, given == bytes.len);
        used = given - input.len;
        if (step == PROBE_MORE && given == bytes.len) {
            abort(); /* the end leaves nothing open */
        }
    }
    if (step == PROBE_BAD && parser.reason == NULL) {
        abort();
    }
    return (struct outcome){step, parser.response.status, parser.response.body, parser.may_keep};
}

static void check_records(struct arena *arena, struct str bytes, size_t piece)
{
    struct probe_records records = {.arena = arena};
    enum probe_step step = PROBE_MORE;

    while (step == PROBE_MORE && bytes.len != 0) {
        struct str input = str_head(bytes, piece);
        size_t size = input.len;
        step = probe_records_take(&records, &input);
        if (step == PROBE_MORE && input.len != 0) {
            abort();
        }
        bytes = str_skip(bytes, size - input.len);
    }
    if (records.output.len > PROBE_HEAD_MAX + PROBE_BODY_MAX) {
        abort();
    }
}

/* gRPC's frames. The buffers of a connection hold any that is whole. */
static void check_frames(struct arena *arena, struct str bytes, size_t piece)
{
    struct grpc_link link = {.stream = 1, .window = 65535, .initial_window = 65535};
    struct probe_grpc grpc = {.arena = arena, .link = &link, .grpc_status = -1};
    enum probe_step step = PROBE_MORE;
    size_t used = 0;
    size_t given = 0;
    uint64_t serving;

    while (step == PROBE_MORE && given < bytes.len) {
        given = bytes.len - given > piece ? given + piece : bytes.len;
        struct str input = {bytes.data + used, given - used};
        step = probe_grpc_take(&grpc, &input);
        used = given - input.len;
        if (step == PROBE_MORE && input.len >= PROBE_HEAD_MAX) {
            abort();
        }
        grpc.reply_size = 0;
    }
    if (step == PROBE_BAD && grpc.reason == NULL) {
        abort();
    }
    probe_grpc_serving(&grpc, &serving);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;

    if (size < 2) {
        return 0;
    }
    struct str bytes = {(const char *) data + 2, size - 2};
    size_t piece = data[1] % 32 + 1;

    arena_init(&arena);
    if ((data[0] & 16) != 0) {
        check_frames(&arena, bytes, piece);
    } else if ((data[0] & 8) != 0) {
        check_records(&arena, bytes, piece);
    } else {
        struct outcome whole = read_answer(&arena, bytes, bytes.len + 1, data[0]);
        struct outcome cut = read_answer(&arena, bytes, piece, data[0]);

        if (whole.body.len > PROBE_BODY_MAX || whole.step != cut.step ||
            (whole.step == PROBE_DONE &&
             (whole.status != cut.status || whole.may_keep != cut.may_keep ||
              !str_equal(whole.body, cut.body)))) {
            abort();
        }
    }
    arena_free(&arena);
    return 0;
}
