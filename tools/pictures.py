"""Prints one of the pictures of docs/how-it-works.md as SVG: python tools/pictures.py NAME."""

import html
import sys

INK, PAPER, GREY = "#1f2933", "#ffffff", "#9aa5b1"
TEAL, RED, AMBER = "#0f766e", "#b91c1c", "#b45309"
PALE = {TEAL: "#ccece8", RED: "#fbdcdc", AMBER: "#fdebc8", GREY: "#edf0f3"}


class Drawing:
    """Shapes in the order in which they were drawn; lengths are pixels."""

    def __init__(self, width, height, title):
        self.width, self.height, self.title = width, height, title
        self.shapes = []

    def text(self, x, y, *lines, size=14, anchor="middle", colour=INK, bold=False):
        """The first line stands at y, each of the others below the one before."""
        for row, line in enumerate(lines):
            self.shapes.append(
                f'<text x="{x}" y="{y + row * (size + 5)}" font-size="{size}" '
                f'text-anchor="{anchor}" fill="{colour}"{BOLD if bold else ""}>'
                f"{html.escape(line)}</text>")

    def box(self, x, y, width, height, colour, dashed=False):
        self.shapes.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{PALE[colour]}" '
            f'stroke="{colour}"{DASHES if dashed else ""}/>')

    def arrow(self, *points, colour=INK, dashed=False):
        path = "M" + " L".join(f"{x} {y}" for x, y in points)
        self.shapes.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.6"'
                           f'{DASHES if dashed else ""} marker-end="url(#end)"/>')

    def line(self, x1, y1, x2, y2, colour=GREY):
        self.shapes.append(f'<path d="M{x1} {y1} L{x2} {y2}" stroke="{colour}"/>')

    def __str__(self):
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
                f'width="{self.width}" height="{self.height}" font-family="sans-serif" role="img">')
        end = ('<defs><marker id="end" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
               'markerHeight="7" orient="auto">'
               f'<path d="M0 0 L8 4 L0 8 z" fill="{INK}"/></marker></defs>')
        paper = f'<rect width="{self.width}" height="{self.height}" rx="8" fill="{PAPER}"/>'
        return "\n".join([head, f"<title>{html.escape(self.title)}</title>", end, paper,
                          *self.shapes, "</svg>"])


DASHES, BOLD = ' stroke-dasharray="5 4"', ' font-weight="600"'


def loop():
    """The closed loop, with who does what."""
    drawing = Drawing(860, 250, "The closed loop: detect, choose, apply, prove, and again")
    stations = [
        ("Detect", "all ranks and nodes",
         ["A process has ended, a rank", "hangs, or is slower than", "its peers, beyond chance."]),
        ("Choose", "controller",
         ["The cheapest remedy whose", "gain is larger than its cost.", "None is: do nothing."]),
        ("Apply", "ranks, between two steps",
         ["Spare, move, ladder, fewer", "ranks. Nobody else's process", "is started again."]),
        ("Prove", "controller",
         ["Steps with it, against", "the same steps without it.", "It is written down."]),
    ]
    for at, (name, who, lines) in enumerate(stations):
        x = 15 + at * 213
        drawing.box(x, 30, 190, 130, TEAL)
        drawing.text(x + 95, 56, name, size=18, bold=True, colour=TEAL)
        drawing.text(x + 95, 78, who, size=12, colour=AMBER)
        drawing.text(x + 95, 106, *lines, size=12)
        if at:
            drawing.arrow((x - 22, 95), (x - 2, 95))
    drawing.arrow((749, 160), (749, 205), (110, 205), (110, 163))
    drawing.text(430, 228, "what has helped, and what has not, is known the next time", size=13)
    return drawing


def lost_rank():
    """What happens between two steps when rank 1 of three dies."""
    drawing = Drawing(860, 400, "Rank 1 dies in step 42: a spare takes its seat")
    lanes = {"rank 0": 50, "rank 1": 110, "rank 2": 170, "spare": 230, "controller": 310}
    for name, y in lanes.items():
        drawing.text(95, y + 5, name, anchor="end", bold=name == "controller")
        drawing.line(105, y, 845, y)

    def step(lane, x, width, number, colour=TEAL, dashed=False):
        drawing.box(x, lanes[lane] - 16, width, 32, colour, dashed)
        drawing.text(x + width / 2, lanes[lane] + 5, number, size=13)

    for lane in ("rank 0", "rank 1", "rank 2"):
        step(lane, 110, 70, "40")
        step(lane, 185, 70, "41")
    for lane in ("rank 0", "rank 2"):
        step(lane, 260, 70, "42", AMBER, dashed=True)
    step("rank 1", 260, 35, "42", RED)
    drawing.text(312, 116, "✕", size=22, colour=RED, bold=True)
    drawing.box(110, 214, 395, 32, GREY)
    drawing.text(300, 235, "stands by: model and data are loaded", size=13)
    drawing.arrow((312, 124), (340, 292))
    drawing.text(300, 340, "1  its daemon reports", "SIGKILL", size=12)
    drawing.text(485, 340, "2  generation 2 is stored,", "then sent to all", size=12)
    drawing.arrow((470, 296), (470, 190), dashed=True)
    drawing.text(415, 42, "3  keep their state", size=12)
    drawing.arrow((525, 66), (525, 212), colour=TEAL)
    drawing.text(533, 145, "4  the state", "of step 41", size=12, anchor="start")
    for lane in ("rank 0", "rank 2", "spare"):
        step(lane, 620, 70, "42")
        step(lane, 695, 70, "43")
        step(lane, 770, 70, "44")
    drawing.text(730, 275, "the spare is now rank 1", size=12, colour=TEAL)
    drawing.text(700, 340, "5  step 42 is made again,", "with the same samples", size=12)
    drawing.text(430, 388, "time →", size=12, colour=GREY)
    return drawing


def who_decides():
    """People, controller, daemons, ranks: wanted state down, observed state up."""
    drawing = Drawing(860, 430, "Who decides what")
    levels = [
        ("You", "one command line, one page",
         "what is trained, what it may cost, who decides about slow ranks (advise or auto)"),
        ("Controller", "one; others stand by",
         "which node has which rank, who is lost, which remedy; stores it before it says so"),
        ("Worker daemon", "one per node",
         "starts and watches processes, ends them when its lease is over; decides for nobody else"),
        ("Rank", "one process each",
         "when a step counts: all ranks that share gradients have them, or none applies them"),
    ]
    for at, (name, number, does) in enumerate(levels):
        y = 20 + at * 104
        drawing.box(110, y, 640, 64, TEAL if name == "Controller" else GREY)
        drawing.text(130, y + 26, name, size=16, anchor="start", bold=True)
        drawing.text(730, y + 26, number, size=12, anchor="end", colour=AMBER)
        drawing.text(130, y + 49, does, size=12.5, anchor="start")
        if at:
            drawing.arrow((300, y - 38), (300, y - 3))
            drawing.arrow((560, y - 3), (560, y - 38))
    drawing.text(290, 108, "wanted", size=12, anchor="end")
    drawing.text(570, 108, "observed", size=12, anchor="start")
    return drawing


PICTURES = {"loop": loop, "lost-rank": lost_rank, "who-decides": who_decides}

if __name__ == "__main__":
    print(PICTURES[sys.argv[1]]())
