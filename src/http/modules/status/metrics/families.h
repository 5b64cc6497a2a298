/* What the files that write families share: families.c and families_kept.c. */
#ifndef HTTP_MODULES_STATUS_METRICS_FAMILIES_H
#define HTTP_MODULES_STATUS_METRICS_FAMILIES_H

#include "shared/metrics/writer.h"

/* One sample of the family that was begun last. */
void families_put(struct metrics_writer *writer, const struct label *labels, uint64_t value);
/* A family of one sample without labels. */
void families_one(struct metrics_writer *writer, enum family_type type, const char *name,
                  const char *help, uint64_t value);

/* Those of what other packages keep in zones (families_kept.c). */
void families_write_kept(struct metrics_writer *writer);

#endif
