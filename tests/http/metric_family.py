"""Families of Prometheus as protobuf: the messages that a scraper knows, read by Google's library."""

import math

import protobuf_classes

ACCEPT = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
CONTENT_TYPE = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
COUNTER, GAUGE, HISTOGRAM = 0, 1, 4

# Fields as "number name type", "*" before those that come again: those of the public interface that a server may send.
MESSAGES = {
    "LabelPair": "1 name string, 2 value string",
    "Gauge": "1 value double",
    "Counter": "1 value double",
    "BucketSpan": "1 offset sint32, 2 length uint32",
    "Bucket": "1 cumulative_count uint64, 2 upper_bound double",
    "Histogram": "1 sample_count uint64, 2 sample_sum double, 3 *bucket Bucket, 4 sample_count_float double, 5 schema sint32, 6 zero_threshold double,"
                 " 7 zero_count uint64, 12 *positive_span BucketSpan, 13 *positive_delta sint64",
    "Metric": "1 *label LabelPair, 2 gauge Gauge, 3 counter Counter, 7 histogram Histogram",
    "MetricFamily": "1 name string, 2 help string, 3 type int32, 4 *metric Metric",
}


MetricFamily = protobuf_classes.make("io.prometheus.client", MESSAGES)["MetricFamily"]


def cut_length(data):
    length, shift = 0, 0
    while data[0] & 0x80:
        length, shift, data = length | (data[0] & 0x7F) << shift, shift + 7, data[1:]
    return length | data[0] << shift, data[1:]


def families(data):
    """{name: family} of a document; each has something, and is written as the library would."""
    found = {}
    while data:
        length, data = cut_length(data)
        assert length <= len(data)
        family = MetricFamily.FromString(data[:length])
        assert family.SerializeToString() == data[:length]      # no field that is not known, numbers as short as they go
        assert family.name not in found and family.metric and family.help
        found[family.name] = family
        data = data[length:]
    return found


def labels_of(metric):
    return tuple(sorted((label.name, label.value) for label in metric.label))


def find(found, name, **labels):
    return next(metric for metric in found["portunus_" + name].metric if labels_of(metric) == tuple(sorted(labels.items())))


def samples(found):
    """The same as the text has: {(name, labels): value}."""
    seen = {}
    for name, family in found.items():
        for metric in family.metric:
            labels = labels_of(metric)
            if family.type == HISTOGRAM:
                for bucket in metric.histogram.bucket:
                    end = "+Inf" if math.isinf(bucket.upper_bound) else repr(bucket.upper_bound)
                    seen[name + "_bucket", tuple(sorted(labels + (("le", end),)))] = bucket.cumulative_count
                seen[name + "_sum", labels], seen[name + "_count", labels] = metric.histogram.sample_sum, metric.histogram.sample_count
            else:
                key = (name, labels)
                assert key not in seen
                seen[key] = (metric.counter if family.type == COUNTER else metric.gauge).value
    return seen


def native(histogram):
    """The native histogram: [(lower end, upper end, count)], the lowest first."""
    buckets, index, deltas, count = [], 0, iter(histogram.positive_delta), 0
    base = 2 ** 2 ** -histogram.schema
    if histogram.zero_count:
        buckets.append((0, histogram.zero_threshold, histogram.zero_count))
    for span in histogram.positive_span:
        index += span.offset
        for _ in range(span.length):
            count += next(deltas)
            assert count > 0
            buckets.append((base ** (index - 1), base ** index, count))
            index += 1
    assert next(deltas, None) is None
    return buckets
