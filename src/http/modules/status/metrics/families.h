/* Shared by the files that write families: families.c and families_kept.c. */
#ifndef HTTP_MODULES_STATUS_METRICS_FAMILIES_H
#define HTTP_MODULES_STATUS_METRICS_FAMILIES_H

#include "shared/metrics/writer.h"

/* Writes a sample of the current family. */
void families_put(struct metrics_writer *writer, const struct label *labels, uint64_t value);
/* Writes a family with one sample and no labels. */
void families_one(struct metrics_writer *writer, enum family_type type, const char *name,
                  const char *help, uint64_t value);

/* Writes the families of data in zones of other packages (families_kept.c). */
void families_write_kept(struct metrics_writer *writer);

#endif
