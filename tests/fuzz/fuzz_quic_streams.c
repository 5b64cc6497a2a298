/* Fuzzes the receiving half of a stream: frames of any order, overlap and size, against a plain
 * array. */
#include <stdlib.h>
#include <string.h>

#include "net/quic/receive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WINDOW = 6000, SPACE = 65536 };

static void demand(bool is_so)
{
    if (!is_so) {
        abort();
    }
}

/* What must be true, kept the plain way. */
struct model {
    bool has[SPACE];
    uint64_t highest, consumed, final_size;
    bool is_over; /* reset or stopped: contents no longer matter */
};

struct input {
    const uint8_t *at, *end;
};

static uint32_t take(struct input *input, int bytes)
{
    uint32_t number = 0;

    while (bytes-- != 0) {
        number = number << 8 | (input->at < input->end ? *input->at++ : 0);
    }
    return number;
}

static char pattern(uint64_t offset)
{
    return (char) (offset * 31 + (offset >> 8));
}

/* The reader takes up to n bytes. */
static void consume(struct quic_receive *receive, struct quic_window *connection,
                    struct model *model, struct str input, size_t n)
{
    n = n < input.len ? n : input.len;
    for (size_t i = 0; i < n && !model->is_over; i++) {
        demand(model->has[model->consumed + i]);
        demand(input.data[i] == pattern(model->consumed + i));
    }
    quic_receive_consume(receive, connection, n);
    model->consumed += model->is_over ? 0 : n;
}

static enum quic_received_result expected(const struct model *model,
                                          const struct quic_window *connection, uint64_t limit,
                                          uint64_t end, bool is_fin)
{
    bool is_known = model->final_size != QUIC_SIZE_UNKNOWN;

    if ((is_known && (end > model->final_size || (is_fin && end != model->final_size))) ||
        (is_fin && end < model->highest)) {
        return QUIC_RECEIVED_FINAL_SIZE_ERROR;
    }
    uint64_t more = end > model->highest ? end - model->highest : 0;
    if (end > model->highest && (end > limit || more > connection->limit - connection->received)) {
        return QUIC_RECEIVED_FLOW_CONTROL_ERROR;
    }
    return QUIC_RECEIVED;
}

static void frame(struct quic_receive *receive, struct quic_window *connection, struct model *model,
                  struct input *input)
{
    static char bytes[4096];
    struct quic_arrival now, arrival = {.offset = take(input, 2) % (SPACE - 4096)};
    size_t len = take(input, 2) % sizeof(bytes);

    arrival.is_fin = take(input, 1) % 8 == 0;
    for (size_t i = 0; i < len; i++) {
        bytes[i] = pattern(arrival.offset + i);
    }
    arrival.bytes = (struct str){bytes, len};
    enum quic_received_result result =
        expected(model, connection, receive->window.limit, arrival.offset + len, arrival.is_fin);
    enum quic_received_result got = quic_receive_take(receive, connection, &arrival, &now);
    demand(got == result ||
           (got == QUIC_RECEIVED_SCATTERED && result <= QUIC_RECEIVED_FLOW_CONTROL_ERROR));
    if (got != QUIC_RECEIVED) {
        return;
    }
    model->highest = arrival.offset + len > model->highest ? arrival.offset + len : model->highest;
    model->final_size = arrival.is_fin ? model->highest : model->final_size;
    memset(model->has + arrival.offset, true, len);
    consume(receive, connection, model, now.bytes, take(input, 1) * 16);
    quic_receive_keep(receive, &now);
    memset(bytes, 0, sizeof(bytes));
}

static void check(const struct quic_receive *receive, const struct model *model)
{
    demand(quic_receive_held(receive) <= WINDOW * 8 + 3 * 4096);
    demand(receive->window.received == model->highest);
    if (model->is_over) {
        demand(receive->window.consumed == model->highest && quic_receive_held(receive) == 0);
        return;
    }
    struct str input = quic_receive_input(receive);
    demand(receive->window.consumed == model->consumed);
    demand((input.len != 0) == model->has[model->consumed]);
    uint64_t end = model->consumed;
    while (model->has[end]) {
        end++;
    }
    demand(quic_receive_is_done(receive) == (end == model->final_size));
    demand(quic_receive_is_read(receive) == (model->consumed == model->final_size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct model model;
    struct input input = {data, data + size};
    struct quic_receive receive;
    struct quic_window connection;

    memset(&model, 0, sizeof(model));
    model.final_size = QUIC_SIZE_UNKNOWN;
    quic_receive_init(&receive, WINDOW, 8 * WINDOW);
    quic_window_init(&connection, 2 * WINDOW, 9 * WINDOW);
    while (input.at < input.end) {
        switch (take(&input, 1) % 16) {
        case 0:
            if (quic_receive_is_window_due(&receive)) {
                quic_window_update(&receive.window, 1, 1);
            }
            break;
        case 1:
            if (quic_window_is_due(&connection)) {
                quic_window_update(&connection, 1, 1);
            }
            break;
        case 2:
            consume(&receive, &connection, &model, quic_receive_input(&receive), take(&input, 2));
            break;
        case 3:
            if (take(&input, 1) % 8 == 0 && !model.is_over) {
                quic_receive_stop(&receive, &connection, 1);
                model.is_over = receive.is_stopped;
            }
            break;
        case 4: {
            uint64_t final_size = take(&input, 2) % SPACE;
            enum quic_received_result result =
                expected(&model, &connection, receive.window.limit, final_size, true);
            demand(quic_receive_reset(&receive, &connection, 2, final_size) == result);
            if (result == QUIC_RECEIVED) {
                model.highest = model.final_size = final_size;
                model.is_over = model.is_over || receive.state == QUIC_RECEIVE_RESET;
            }
            break;
        }
        default:
            frame(&receive, &connection, &model, &input);
        }
        check(&receive, &model);
        demand(connection.consumed <= connection.received &&
               connection.received <= connection.limit);
    }
    quic_receive_free(&receive);
    return 0;
}
