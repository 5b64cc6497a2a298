/* Common to probes of all protocols: sending, and waiting for an answer. */
#include <errno.h>

#include "net/conn/conn.h"
#include "upstream/health.h"

#define READ_FIRST 4096

bool health_fail(struct health_probe *probe, const char *reason, int error)
{
    probe->reason = reason;
    probe->error = error;
    return false;
}

bool health_send(struct health_probe *probe, struct str bytes)
{
    conn_write(probe->conn, bytes);
    return conn_flush(probe->conn) ||
           health_fail(probe, "connection, while sending", probe->conn->error);
}

bool health_receive(struct health_probe *probe, size_t max, bool *is_end)
{
    struct conn *conn = probe->conn;

    *is_end = false;
    while (conn_input_len(conn) < max) {
        if (conn_fill(conn, READ_FIRST, max)) {
            return true;
        }
        if (conn->is_broken) {
            return health_fail(probe, "connection, while reading", conn->error);
        }
        if (conn->is_input_closed) {
            *is_end = true;
            return true;
        }
        if (conn_wait_input(conn, probe->deadline_ms) != WAIT_READY) {
            return health_fail(probe, "answer", ETIMEDOUT);
        }
    }
    return health_fail(probe, "answer, which is too large", 0);
}
