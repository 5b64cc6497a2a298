"""Messages of Protocol Buffers read by Google's library, out of tables of their fields."""

import pytest

descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
from google.protobuf import descriptor_pool, message_factory  # noqa: E402  pylint: disable=wrong-import-position


def make(package, messages):
    """{name: class} of {name: "number name type, ..."}, with "*" before the name of a field that comes again."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name=package + ".proto", package=package, syntax="proto2")
    for message, rows in messages.items():
        made = file.message_type.add(name=message)
        for row in rows.split(","):
            number, name, kind = row.split()
            one = made.field.add(name=name.lstrip("*"), number=int(number),
                                 label=field.LABEL_REPEATED if name.startswith("*") else field.LABEL_OPTIONAL)
            if kind in messages:
                one.type, one.type_name = field.TYPE_MESSAGE, ".%s.%s" % (package, kind)
            else:
                one.type = getattr(field, "TYPE_" + kind.upper())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)

    def class_of(name):
        found = pool.FindMessageTypeByName("%s.%s" % (package, name))
        return message_factory.GetMessageClass(found) if hasattr(message_factory, "GetMessageClass") else message_factory.MessageFactory(pool).GetPrototype(found)
    return {name: class_of(name) for name in messages}
