"""Draws the figures of the simulation for docs/scaling-out.md:

    make objs/tests/simulation/test_simulation
    objs/tests/simulation/test_simulation table | python3 tests/simulation/plot.py > docs/images/limit-sync.svg
"""

import math
import sys

WIDTH, HEIGHT, LEFT, TOP = 380, 220, 60, 40
COLORS = {2: "#1b6ca8", 8: "#c0392b", 32: "#2e7d32"}


def text(x, y, words, more=""):
    return '<text x="%.1f" y="%.1f" %s>%s</text>' % (x, y, more, words)


def line(points, color, more=""):
    return '<polyline points="%s" fill="none" stroke="%s" stroke-width="1.8" %s/>' % (" ".join("%.1f,%.1f" % one for one in points), color, more)


class Panel:
    """Axes, and points in them: x and y are functions of a value, between 0 and 1."""

    def __init__(self, left, title, x, y, xs, ys, names):
        self.left, self.x, self.y = left, x, y
        self.out = [text(left, TOP - 16, title, 'font-weight="bold"'),
                    '<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#888"/>' % (left, TOP, WIDTH, HEIGHT)]
        for value in xs:
            at = self.at(value, 0)[0]
            self.out.append(text(at, TOP + HEIGHT + 16, "%g" % value, 'text-anchor="middle"'))
        for value in ys:
            at = self.at(xs[0], value)[1]
            self.out.append(line([(left, at), (left + WIDTH, at)], "#ddd", 'stroke-dasharray="2,3"'))
            self.out.append(text(left - 6, at + 4, "%g" % value, 'text-anchor="end"'))
        self.out.append(text(left + WIDTH / 2, TOP + HEIGHT + 34, names[0], 'text-anchor="middle"'))
        self.out.append(text(0, 0, names[1], 'text-anchor="middle" transform="translate(%d,%d) rotate(-90)"' % (left - 40, TOP + HEIGHT / 2)))

    def at(self, x, y):
        return self.left + WIDTH * self.x(x), TOP + HEIGHT * (1 - self.y(y))


def draw(rows):
    errors = [(int(row[1]), int(row[2]), float(row[3])) for row in rows if row[0] == "error"]
    passed = [int(row[2]) for row in rows if row[0] == "partition"]
    one = Panel(LEFT, "Error of a limit of 1,000 r/s over 10 s", lambda ms: math.log10(ms / 10) / 2, lambda percent: percent / 25,
                [10, 25, 50, 100, 200, 500, 1000], [0, 5, 10, 15, 20, 25], ("sync_interval, ms", "percent above the limit"))
    for number, (nodes, color) in enumerate(COLORS.items()):
        one.out.append(line([one.at(ms, percent) for count, ms, percent in errors if count == nodes], color))
        one.out.append(text(LEFT + 12, TOP + 20 + 18 * number, "%d nodes" % nodes, 'fill="%s"' % color))
    left = LEFT + WIDTH + 90
    two = Panel(left, "4 of 8 nodes lose the store from 3 s to 7 s", lambda s: s / 10, lambda rate: rate / 3000,
                [0, 2, 4, 6, 8, 10], [0, 500, 1000, 1500, 2000, 2500, 3000], ("seconds", "requests passed a second"))
    means = [sum(passed[at:at + 5]) / 5 for at in range(0, len(passed), 5)]
    two.out.append(line([two.at(at / 2 + 0.25, mean) for at, mean in enumerate(means)], COLORS[8]))
    width, height = left + WIDTH + 20, TOP + HEIGHT + 50
    return "\n".join(['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">' % (width, height),
                      '<rect width="%d" height="%d" fill="#fff"/>' % (width, height)] + one.out + two.out + ["</svg>", ""])


if __name__ == "__main__":
    sys.stdout.write(draw([words.split() for words in sys.stdin]))
