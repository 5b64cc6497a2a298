/* Families and samples, and what the formats share. */
#include "shared/metrics/writer.h"

#include "base/text.h"

/* Ends the current family, if there is one. */
static void end_former(struct metrics_writer *writer)
{
    if (writer->name != NULL && writer->form->end_family != NULL) {
        writer->form->end_family(writer);
    }
}

void family_begin(struct metrics_writer *writer, enum family_type type, const char *name,
                  const char *help)
{
    end_former(writer);
    writer->type = type;
    writer->name = name;
    writer->start = writer->out->len;
    writer->is_empty = true;
    writer->form->begin(writer, help);
}

void family_put(struct metrics_writer *writer, const struct label *labels, uint64_t value,
                enum metrics_unit unit)
{
    writer->form->put(writer, labels, value, unit);
    writer->is_empty = false;
}

void family_put_histogram(struct metrics_writer *writer, const struct label *labels,
                          const struct metrics_cell *cell)
{
    writer->form->put_histogram(writer, labels, cell);
    writer->is_empty = false;
}

void families_end(struct metrics_writer *writer)
{
    end_former(writer);
    if (writer->form->end != NULL) {
        writer->form->end(writer);
    }
}

const char *family_tail(enum family_type type)
{
    return type == FAMILY_COUNTER ? "_total" : type == FAMILY_INFO ? "_info" : "";
}

struct str label_character(struct str *value)
{
    while (value->len != 0) {
        struct str before = *value;
        uint32_t point = utf8_next(value);

        if (point != UINT32_MAX && (point >= ' ' || point == '\n')) {
            return str_head(before, before.len - value->len);
        }
    }
    return STR_NONE;
}
