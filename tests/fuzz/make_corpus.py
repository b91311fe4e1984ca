#!/usr/bin/env python3
"""Writes the inputs that fuzzing begins with: tests/fuzz/make_corpus.py, from the repository's root.

They are the inputs of the code's own tests, and those that once went wrong. What fuzzing finds lies
beside them, named by its hash (tools/fuzz.sh merge).
"""
import pathlib
import struct

ROOT = pathlib.Path("tests/fuzz/corpus")


def write(target, inputs):
    folder = ROOT / target
    folder.mkdir(parents=True, exist_ok=True)
    for name, contents in inputs.items():
        if isinstance(contents, str):
            contents = contents.encode()
        (folder / name).write_bytes(contents)


# Protobuf's wire, as little of it as is needed.
def varint(number):
    number &= (1 << 64) - 1
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def message(**fields):
    """Fields as f1=..., f2=[..., ...]."""
    out = b""
    for name, value in fields.items():
        for item in value if isinstance(value, list) else [value]:
            out += field(int(name[1:]), item)
    return out


def config_files():
    return {
        "empty": "",
        "comment": "# nothing\n",
        "one": 'current: "home"\ncontexts:\n  "home": {server: "10.0.0.1:7450"}\n',
        "two": "current: a\ncontexts:\n  a:\n    server: h\n  b.c-d_e:\n    server: '[::1]:7450'\n",
        "no_contexts": "contexts:\n",
        "unknown_key": "contxts: {}\n",
        "unknown_below": "contexts: {a: {sever: h}}\n",
        "no_server": "contexts: {a: {}}\n",
        "list": "- a\n- b\n",
        "url": "contexts: {a: {server: 'http://h/'}}\n",
        "port": "contexts: {a: {server: 'h:70000'}}\n",
        "alias": "x: &x {server: h}\ncontexts: {a: *x}\n",
        "deep": "[" * 600,
        "tab": "contexts:\n\ta: b\n",
        "escape": 'current: "\\e[2J\\0\\u202e"\n',
        "tag": "!!binary aGFsbG8=\n",
    }


SOUND = (
    "name: digits\nranks: 4\nmodel: resnet18\ndata: {train: train.shard, eval: /abs/test.shard}\n"
    "steps: 100\noptimizer: {kind: sgd, learning_rate: 0.1, momentum: 0.9, nesterov: true}\n"
)


def job_files():
    added = {
        "sound": "",
        "llama": "precision: bf16\n",
        "schedule": "schedule: {kind: cosine, warmup_steps: 5, final_ratio: 0.1}\n",
        "hsgd": "strategy:\n  kind: hsgd\n  warmup_steps: 2\n  ladder:\n"
        "  - {period: 2, size: 2}\n  - {period: 8, level: all, format: int8}\n",
        "slipstream": "strategy: {kind: slipstream, mode: free, window: {min_steps: 1}}\n",
        "chaos": "allow_chaos: true\nchaos:\n- {rank: 1, step: 3, kind: sleep, seconds: 0.5}\n"
        "- {rank: -1, step: 4, kind: throw, node: a}\n",
        "placement": "placement: {labels: {gpu: h200}, nodes: [a, b], exclude_nodes: [c],"
        " tolerate: [slow], same: rack}\nqueue: night\npriority: 10\n",
        "recovery": "recovery: {max_failures: 3, window_s: 600, min_ranks: 2}\nmax_restarts: 2\n",
        "checkpoint": "checkpoint: {directory: /ckpt, every_steps: 10, keep_latest: 2}\n",
        "unknown": "btach_per_rank: 8\n",
        "twice": "ranks: 2\n",
        "quoted": 'steps: "100"\n',
        "huge_number": "batch_per_rank: 99999999999999999999\n",
        "nan": "clip_grad_norm: .nan\n",
        "null": "seed: ~\n",
        "control": 'export_final: "\\e]0;x\\a.safetensors"\n',
    }
    out = {name: SOUND + text for name, text in added.items()}
    out.update(
        {
            "empty": "",
            "null_document": "~",
            "two_documents": SOUND + "---\n" + SOUND,
            "list": "- name: a\n",
            "scalar": "name",
            "deep": "a: " + "[" * 600,
            "deep_maps": "{a: " * 600,
            "anchors": "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nchaos: [*c, *c]\n",
            "self": "&a [*a]",
            "merge": "<<: {name: a}\n",
            "tab": "data:\n\ttrain: x\n",
            "carriage": SOUND.replace("\n", "\r\n"),
            "mark": "\ufeff" + SOUND,
            "latin": b"name: \xe4\xff\n",
        }
    )
    return out


def log_texts():
    return {
        "plain": "step 5\tloss 0.1\n",
        "utf8": "Zürich 東京 𝄞\n",
        "escape": "\x1b[2J\x1b]0;title\x07",
        "csi_utf8": "\u009b31m",
        "csi_byte": b"\x9b31m",
        "carriage": "good\rbad\n",
        "windows": "a\r\nb\r\n",
        "reorder": "a\u202eb\u2066c\u061cd\u200f\n",
        "separators": "a\u2028b\u2029\n",
        "invalid": b"\xff\xc0\xaf\xed\xa0\x80\xf4\x90\x80\x80",
        "cut": b"cut \xe6\x9d",
        "nul": b"a\0b\n",
        "newlines": "\n" * 100,
        "long": "\x01" + "x" * 3000,
        "delete": b"\x7f\x08\x08",
    }


def token_files():
    def header(version=1, token_bytes=2, count=3, vocab=10, offset=64, magic=b"PCLTOKEN"):
        return struct.pack("<8sIIQQQQQQ", magic, version, token_bytes, count, vocab, offset, 0, 0, 0)

    two = struct.pack("<3H", 1, 9, 3)
    return {
        "uint16": header() + two,
        "uint32": header(token_bytes=4) + struct.pack("<3I", 1, 9, 3),
        "outside": header(vocab=9) + two,
        "short": header(count=4) + two,
        "long": header(count=2) + two,
        "none": header(count=0),
        "huge": header(count=(1 << 63) // 2) + two,
        "wraps": header(count=(1 << 64) - 1, token_bytes=4) + two,
        "version_0": header(version=0) + two,
        "version_2": header(version=2) + two,
        "bytes_3": header(token_bytes=3) + two,
        "vocab_0": header(vocab=0) + two,
        "offset": header(offset=0) + two,
        "magic": header(magic=b"PCLTOKEM") + two,
        "headerless": b"\1\0\2\0\3\0",
        "odd": b"\1\0\2",
        "empty": b"",
    }


def image_shards():
    def header(version=1, dtype=1, count=2, channels=1, height=2, width=2, classes=3, labels=64,
               pixels=72, magic=b"PCLIMAGE"):
        return struct.pack("<8sIIQIIIIQQQ", magic, version, dtype, count, channels, height, width,
                           classes, labels, pixels, 0)

    labels, pixels = struct.pack("<2I", 0, 2), bytes(range(8))
    body = labels + pixels
    big = (1 << 32) - 1
    return {
        "sound": header() + body,
        "one": header(count=1) + b"\1\0\0\0" + b"\0" * 4 + bytes(4),
        "label": header(classes=2) + body,
        "short": header() + body[:-1],
        "long": header() + body + b"x",
        "none": header(count=0),
        "wraps": header(count=(1 << 62), channels=big, height=big, width=big) + body,
        "wraps_labels": header(count=(1 << 64) - 1) + body,
        "flat": header(height=0) + body,
        "dtype": header(dtype=2) + body,
        "version_0": header(version=0) + body,
        "version_2": header(version=2) + body,
        "labels_offset": header(labels=0) + body,
        "pixels_offset": header(pixels=80) + body,
        "magic": header(magic=b"XXXXXXXX") + body,
        "empty": b"",
    }


TRAINER = message(f1="job-1", f2=1, f3=0)


def trainer_links():
    def frame(payload):
        return struct.pack("<I", len(payload)) + payload

    status = message(f1=TRAINER, f2=1234, f3=3, f4=5000)
    error = message(f1=TRAINER, f3=4, f6=message(f1=3, f2="loss is NaN"))
    full = message(
        f1=TRAINER,
        f5=message(f1=10, f2=0.9, f3=0.1, f4=1000),
        f7=message(f1=1, f2=1, f3=5),
        f8=message(f1=10, f2=10, f3=1.5, f14=[message(f1=2, f3=7), message(f1=4, f3=1)]),
        f9=message(f1=1, f2="/tmp/trace", f8="late"),
        f10=[message(f1=10, f3=2, f4=99), message(f1=20, f3=4, f5=1, f6="no space")],
        f12=1,
        f13=message(f1=2, f3="x", f4=9),
    )
    return {
        "empty": b"",
        "one": b"\xff" + frame(status),
        "bytes": b"\0" + frame(status),
        "three": b"\6" + frame(status) + frame(error) + frame(full),
        "full": b"\x10" + frame(full),
        "no_payload": b"\1" + frame(b""),
        "many_empty": b"\2" + frame(b"") * 20,
        "nonsense": b"\3" + frame(b"\xff\xff\xff"),
        "too_long": b"\1\xff\xff\xff\xff",
        "limit": b"\xff" + struct.pack("<I", 1 << 20) + b"x" * 100,
        "beyond": b"\xff" + struct.pack("<I", (1 << 20) + 1) + b"x",
        "after_wrong": b"\1" + frame(status) + b"\xff\xff\xff\xff" + frame(status),
        "cut": b"\5" + frame(status)[:-1],
        "nested": b"\7" + frame(b"\x0a\x7f" * 60),
    }


def step_rings():
    header = {"magic": 0, "version": 8, "slot_bytes": 12, "capacity": 16, "bytes": 24, "written": 64}
    live, slots = 128, 256

    def put(offset, value):
        return struct.pack("<HQ", offset, value & (1 << 64) - 1)

    def record(n, step, **words):
        at = slots + n % 4 * 192
        names = ["sequence", "step", "start", "total"] + [f"p{i}" for i in range(8)]
        names += ["samples", "tokens", "wire", "group", "workload", "loss", "rate"]
        values = {"sequence": 2 * n + 2, "step": step, "start": 1000, "total": 50, "samples": 8}
        values.update(words)
        return b"".join(put(at + 8 * names.index(k), v) for k, v in values.items())

    def alive(change, step, phase, since=1):
        at = live + change % 2 * 64
        return put(at, 2 * change) + put(at + 8, step << 8 | phase) + put(at + 16, since)

    most = (1 << 64) - 1
    two = record(0, 0) + record(1, 1) + put(header["written"], 2)
    return {
        "empty": b"",
        "two": two + alive(1, 2, 3),
        "lapped": b"".join(record(n, n) for n in range(4, 8)) + put(header["written"], 8),
        "huge_written": two + put(header["written"], most),
        "far_written": two + put(header["written"], 1 << 33),
        "huge_times": record(0, 0, total=most, start=most) + put(header["written"], 1),
        "huge_samples": record(0, 0, samples=most, tokens=most) + put(header["written"], 1),
        "huge_step": record(0, most) + put(header["written"], 1),
        "huge_group": record(0, 0, group=most) + put(header["written"], 1),
        "phases": record(0, 0, **{f"p{i}": most for i in range(8)}) + put(header["written"], 1),
        "nan": record(0, 0, workload=0x7FF8 << 48, loss=most) + put(header["written"], 1),
        "capacity_later": two + put(header["capacity"], 0) + put(header["capacity"], 1 << 31),
        "capacity_0": put(header["capacity"], 0) + two * 3,
        "version": put(header["version"], 9),
        "unknown_phase": alive(1, 5, 77) + alive(2, 6, 255),
        "damaged_live": put(live, 1) + put(live + 64, 3),
        "future": alive(2, 1, 2, most),
    }


def worker_messages():
    def session(*messages):
        return b"".join(struct.pack("<H", len(m)) + m for m in messages)

    def report(*trainers, **more):
        return message(f2=message(f1=list(trainers), **more))

    def trainer(state, **more):
        return message(f1=TRAINER, f2=state, f3=4711, f4="127.0.0.1:5000", **more)

    def step(number, total=10_000_000, **more):
        return message(f1=number, f3=total // 2, f4=total // 2, f7=total, f8=32, **more)

    def node_steps(trainer_id, records, **more):
        return message(f5=message(f1=message(f1=trainer_id, f2=records, **more), f2=1))

    # Ranks of job-2, each on a node of its own; whoever says hello speaks from then on.
    def member_id(rank):
        return message(f1="job-2", f2=1, f3=rank)

    def member(rank, state):
        trainers = [] if state == 0 else message(
            f1=member_id(rank), f2=state, f3=4711, f4="127.0.0.1:5000", f14=message(f1=state // 3))
        return message(f1=message(f1="abcd"[rank], f2="uid", f8=1, f10=message(f1=trainers)))

    # Rank 2 takes twice the time from step 60 on, and all others wait for it.
    def member_step(rank, number):
        factor = 1 if number < 60 else 2
        own = (950 + (7 * number + 5 * rank) % 11) * 1_000_000 * (factor if rank == 2 else 1)
        return message(f1=number, f3=3 * own // 10, f4=7 * own // 10, f7=factor * 1_000_000_000)

    def straggler():
        spare = message(f1=message(f1="e", f2="uid", f8=1))
        told = [*[member(rank, 0) for rank in range(4)], spare]
        told += [member(rank, state) for state in (2, 3) for rank in range(4)]
        for first in range(0, 150, 30):
            for rank in range(4):
                steps_done = [member_step(rank, n) for n in range(first, first + 30)]
                told += [member(rank, 3), node_steps(member_id(rank), steps_done)]
        return told

    hello = message(f1=message(f1="n", f2="uid", f4=message(f1=8, f2=1 << 34, f4="Linux"),
                               f5=message(f1="zone", f2="a"), f6="10.0.0.7", f8=1, f9="1.0"))
    ready = report(trainer(2), f4=1)
    running = report(trainer(3, f5=message(f1=5, f2=3, f3=0.5, f4=1.25, f5=0.1, f6=320.0)), f4=2)
    finished = report(trainer(5, f7=message(f2=0, f4="done")), f4=3)
    failed = report(trainer(5, f7=message(f1=3, f2=1, f4="loss is NaN", f5=7, f6=2, f8="tail\n")))
    steps = node_steps(TRAINER, [step(n) for n in range(8)], f3=2)
    odd_steps = node_steps(TRAINER, [step(-1), step(1 << 62), step(3, 1 << 62),
                                     step(4, -(1 << 62)), step(5, f11=1 << 31)], f3=-1)
    saves = [message(f1=10, f3=3, f4=1000), message(f1=20, f3=4, f5=2, f6="no space")]
    found = message(f1="step-10.g1", f2=10, f3=1, f4=1 << 40, f5=1)
    tasks = message(f1=message(f1=1, f2="/checkpoints/job-1", f3=1), f3=[found, found])
    check = message(f1=1, f3=[message(f1="gemm", f2=1e12, f3="flop/s", f4=1)], f4="no GPU")
    infinite = float("inf")
    return {
        "empty": b"",
        "hello": session(hello),
        "life": session(hello, ready, running, steps, finished),
        "failure": session(ready, running, failed),
        "failures": session(*[ready, running, failed] * 4),
        "steps": session(ready, running, steps, odd_steps),
        "saves": session(ready, running, report(trainer(3, f11=saves)), finished),
        "tasks": session(ready, running, failed, report(f3=[tasks])),
        "check": session(report(f5=check)),
        "plan": session(ready, report(trainer(3, f8=message(f1=1, f2=1, f3=-1, f4=9, f5="no")))),
        "membership": session(ready, report(trainer(3, f14=message(f1=2, f2=1, f3="x", f4=-5)))),
        "unknown_trainer": session(report(message(f1=message(f1="job-9", f2=9, f3=-9), f2=3))),
        "unknown_state": session(report(message(f1=TRAINER, f2=99), message(f1=TRAINER, f2=-1))),
        "no_numbers": session(ready, report(trainer(3, f5=message(f1=-1, f2=99, f3=float("nan"),
                                                                  f4=-infinite, f5=infinite,
                                                                  f6=float("nan"))))),
        "figures": session(ready, report(trainer(3, f9=message(f1=5, f9=1e300, f10=infinite,
                                                               f20=float("nan"))))),
        "many_slots": session(message(f1=message(f1="m", f8=(1 << 31) - 1))),
        "other_node": session(message(f1=message(f1="m", f2="u", f8=4, f10=message(f1=trainer(3))))),
        "log": session(message(f4=message(f1=1, f2=-1, f3="text", f4=1))),
        "straggler": session(*straggler()),
        "log_error": session(message(f4=message(f1=1, f4=1, f5="\u20ac" * 2000))),
        "two_generations": session(ready, failed, report(trainer(3), message(
            f1=message(f1="job-1", f2=2, f3=0), f2=3, f3=12))),
    }


def http_requests():
    def get(path, *headers, version="1.1"):
        lines = [f"GET {path} HTTP/{version}", "Host: here", *headers]
        return "\r\n".join(lines) + "\r\n\r\n"

    return {
        "metrics": get("/metrics"),
        "twice": get("/metrics") * 2,
        "events": get("/events?job=job-1"),
        "escaped": get("/events?job=a%26b&job=c&%00=%ff&=&x"),
        "not_there": get("/other"),
        "dots": get("/../../etc/passwd"),
        "old": get("/metrics", version="1.0"),
        "close": get("/metrics", "Connection: close"),
        "gzip": get("/metrics", "Accept-Encoding: gzip, br"),
        "range": get("/metrics", "Range: bytes=1-2,0-99999999999999999999,-1"),
        "head": get("/metrics").replace("GET", "HEAD"),
        "options": get("*").replace("GET", "OPTIONS"),
        "post": "POST /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
        "negative_length": "POST /metrics HTTP/1.1\r\nContent-Length: -1\r\n\r\nhello",
        "chunked": "POST /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\nx",
        "expect": "PUT /metrics HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n",
        "long_path": get("/" + "a" * 9000),
        "long_header": get("/metrics", "X: " + "a" * 9000),
        "many_headers": get("/metrics", *[f"X{i}: y" for i in range(200)]),
        "no_version": "GET /metrics\r\n\r\n",
        "newlines": "\r\n\r\n\r\n",
        "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        "http2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "nul": b"GET /\0metrics HTTP/1.1\r\n\r\n",
        "empty": "",
    }


def main():
    write("config_file", config_files())
    write("http_request", http_requests())
    write("image_shard", image_shards())
    write("job_file", job_files())
    write("log_text", log_texts())
    write("step_ring", step_rings())
    write("token_file", token_files())
    write("trainer_link", trainer_links())
    write("worker_message", worker_messages())


if __name__ == "__main__":
    main()
