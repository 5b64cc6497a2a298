"""Renders examples/kubernetes/chart as `helm template` does, for the part of the language that it uses, and writes the plain manifests:

    python3 tests/examples/kubernetes_chart.py
"""

import json
import os
import re

import yaml

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "kubernetes")
ACTION = re.compile(r"(?P<trim>\s*)?\{\{(?P<left>-)? *(?P<text>.*?) *(?P<right>-)?\}\}")


def read(*parts):
    with open(os.path.join(FOLDER, *parts), encoding="utf-8") as file:
        return file.read()


def values(**changes):
    """values.yaml with changes: kind="DaemonSet", autoscaling={"enabled": False}."""
    made = yaml.safe_load(read("chart", "values.yaml"))
    for name, value in changes.items():
        made[name] = {**made[name], **value} if isinstance(value, dict) else value
    return made


class Template:
    """One template. Anything that is not understood is an error."""

    def __init__(self, scope):
        self.scope = scope

    def _word(self, word):
        if word.startswith('"'):
            return json.loads(word)
        found = self.scope
        for name in word.lstrip(".").split("."):
            found = found[name]
        return found

    def _value(self, text):
        words = re.findall(r'"[^"]*"|\S+', text)
        if words[0] == ".Files.Get":
            assert words[2:4] == ["|", "indent"], text
            pad = " " * int(words[4])
            return "\n".join(pad + line for line in read("chart", json.loads(words[1])).split("\n"))
        if words[0] == "toJson":
            return json.dumps(self._word(words[1]), separators=(",", ":"), sort_keys=True)
        if words[0] == "eq":
            return self._word(words[1]) == self._word(words[2])
        if words[0] == "not":
            return not self._word(words[1])
        assert len(words) == 1, text
        return self._word(words[0])

    def render(self, text):
        out, shown, at = [], [True], 0
        for action in ACTION.finditer(text):
            before = text[at:action.start("trim")] if action["left"] else text[at:action.start("trim")] + action["trim"]
            if all(shown):
                out.append(before)
            at = action.end()
            verb, _, rest = action["text"].partition(" ")
            if verb == "if":
                shown.append(bool(all(shown) and self._value(rest)))
            elif verb == "else":
                shown[-1] = not shown[-1]
            elif verb == "end":
                shown.pop()
            elif all(shown):
                value = self._value(action["text"])
                out.append(str(value))
        assert shown == [True] and "{{" not in text[at:]
        return "".join(out) + text[at:]


def render(release="portunus", namespace="default", **changes):
    """All templates, one document after the other, in the order of helm's file names."""
    scope = {"Values": values(**changes), "Release": {"Name": release, "Namespace": namespace}}
    parts = []
    for name in sorted(os.listdir(os.path.join(FOLDER, "chart", "templates"))):
        made = Template(scope).render(read("chart", "templates", name)).strip("\n")
        if made.strip():
            parts.append("---\n# %s\n%s\n" % (name, made))
    return "".join(parts)


def manifests():
    """Names and texts of the plain manifests."""
    head = "# Made from ../chart by tests/examples/kubernetes_chart.py.\n"
    return {"deployment.yaml": head + render(), "daemonset.yaml": head + render(kind="DaemonSet", service={"type": "ClusterIP"})}


def main():
    for name, text in manifests().items():
        with open(os.path.join(FOLDER, "manifests", name), "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
