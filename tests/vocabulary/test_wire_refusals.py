"""Every document that is not right gives one error: file, path, what was expected."""

import json
import sys
import tracemalloc

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from encamp import wire
from encamp.errors import WireError
from encamp.graph import MAX_BYTES
from encamp.plan import Certificate
from encamp.wire import Limits
from graphs import chain, plan_of

GRAPH = wire.graph_to_json(chain())
PLAN = wire.plan_to_json(plan_of(chain(), certificate=Certificate(1680, "cut")))
ANY_AMOUNT = f"expected an integer from 0 to {MAX_BYTES}, found"


def refusal(read, *args, **kwargs):
    """Return the message with which a document is refused."""
    with pytest.raises(WireError) as caught:
        read(*args, **kwargs)
    return str(caught.value)


def edited(text, path, value):
    """Return a document with the item at a path replaced, or removed if None."""
    document = json.loads(text)
    *folders, last = path
    place = document
    for key in folders:
        place = place[key]
    if value is None:
        del place[last]
    else:
        place[last] = value
    return json.dumps(document)


def test_files_that_cannot_be_read(tmp_path):
    """What is no file, is empty or is no document names the file and the reason."""
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "empty.json").touch()
    (tmp_path / "blank.json").write_text(" \n")
    (tmp_path / "latin.json").write_bytes(b'{"name": "\xe9"}')
    (tmp_path / "g.txt").touch()
    cases = {
        "none.json": "no such file",
        "folder.json": "is a directory, expected a file",
        "empty.json": "the file is empty, expected JSON",
        "blank.json": "$: the document is empty, expected JSON",
        "latin.json": "$: not UTF-8 text: invalid continuation byte at byte 10",
        "g.txt": "expected a name that ends in .json or .json.zst",
        "a\0b.json": "cannot be read: embedded null byte",
    }
    for name, message in cases.items():
        path = tmp_path / name
        for read in (wire.read_graph, wire.read_plan, wire.read_document):
            assert refusal(read, path) == f"{path}: {message}"


def test_a_file_is_named_in_front_of_the_path(tmp_path):
    """The file, the path in it and what was expected make one message."""
    path = tmp_path / "g.json"
    path.write_text(edited(GRAPH, ["ops", 3, "inputs", 1], "x"))

    assert refusal(wire.read_graph, path) == (
        f'{path}: $.ops[3].inputs[1]: {ANY_AMOUNT} "x"'
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "not JSON: Expecting value at line 1, column 1"),
        ("{} x", "not JSON: Extra data at line 1, column 4"),
        ("\ufeff{}", "not JSON: Unexpected UTF-8 BOM"),
        ("[" * 100_000, "the document is nested too deeply to be a graph"),
        ('{"a":' * 100_000, "the document is nested too deeply to be a graph"),
        ("7", "expected an object, found 7"),
        ("[]", "expected an object, found an array of nothing"),
        ("NaN", "expected an object, found NaN"),
        ("{}", "missing field 'schema', expected encamp.graph/1"),
    ],
)
def test_text_that_is_no_document(text, message):
    """What is no JSON object of ours is refused at the root."""
    assert refusal(wire.graph_from_json, text).startswith(f"graph: $: {message}")


@settings(max_examples=40)
@given(st.integers(1, len(GRAPH) - 3))
def test_a_truncated_document_is_not_read(length):
    """Wherever the text is cut off, the error is that it is no JSON."""
    message = refusal(wire.graph_from_json, GRAPH[:length])

    assert message.startswith("graph: $: not JSON: ")


@settings(max_examples=200)
@given(st.text(alphabet='{}[]",:0123456789eE+-.tfn\\u schemagrp/', max_size=40))
def test_any_text_is_refused_with_our_error(text):
    """No text raises anything but the one error."""
    assert refusal(wire.graph_from_json, text).startswith("graph: $")


@settings(max_examples=150)
@given(st.data())
def test_any_wrong_item_is_refused_at_its_place(data):
    """An item of a type that no field has is named by its path, wherever it is."""
    text = data.draw(st.sampled_from([GRAPH, PLAN]))
    read = wire.graph_from_json if text is GRAPH else wire.plan_from_json
    document = json.loads(text)
    place, path = document, "$"
    while isinstance(place, dict | list) and place:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        key = data.draw(st.sampled_from(keys))
        path += f".{key}" if isinstance(place, dict) else f"[{key}]"
        parent, place = place, place[key]
    parent[key] = None

    message = refusal(read, json.dumps(document))
    assert f": {path}: expected " in message
    assert message.endswith(", found null")


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (
            "encamp.graph/2",
            (
                "version 2 of encamp.graph is not one this Encamp reads, expected"
                " encamp.graph/1; upgrade Encamp or make the document again"
            ),
        ),
        (
            "encamp.plan/1",
            "this is a document of encamp.plan/1, expected encamp.graph/1",
        ),
        ("onnx/1", 'expected encamp.graph/1, found "onnx/1"'),
        (1, "expected a string, found 1"),
    ],
)
def test_another_schema_is_refused_first(schema, message):
    """A version or a document of another kind is named before its fields are read."""
    text = json.dumps({"schema": schema, "anything": 1})

    assert refusal(wire.graph_from_json, text) == f"graph: $.schema: {message}"


def test_a_reader_of_either_kind_says_so(tmp_path):
    """Where both are welcome, both are expected."""
    path = tmp_path / "x.json"
    path.write_text('{"schema": "other"}')

    assert refusal(wire.read_document, path) == (
        f'{path}: $.schema: expected encamp.graph/1 or encamp.plan/1, found "other"'
    )


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            ["ops", 0, "inptus"],
            [],
            '$.ops[0]: unknown field "inptus"; did you mean "inputs"?',
        ),
        (
            ["values", 1, "zebra"],
            0,
            (
                '$.values[1]: unknown field "zebra"; expected only "id", "bytes",'
                ' "kind", "resident", "name"'
            ),
        ),
        (["ops", 0, "inputs"], None, '$.ops[0]: missing field "inputs"'),
        (["outputs"], None, '$: missing field "outputs"'),
        (["values", 0, "bytes"], True, f"$.values[0].bytes: {ANY_AMOUNT} true"),
        (["values", 0, "bytes"], 1.0, f"$.values[0].bytes: {ANY_AMOUNT} 1.0"),
        (["values", 0, "bytes"], -1, f"$.values[0].bytes: {ANY_AMOUNT} -1"),
        (
            ["values", 0, "bytes"],
            MAX_BYTES + 1,
            f"$.values[0].bytes: {ANY_AMOUNT} {MAX_BYTES + 1}",
        ),
        (["values", 0, "bytes"], float("nan"), f"$.values[0].bytes: {ANY_AMOUNT} NaN"),
        (
            ["ops", 0, "duration_ns"],
            float("inf"),
            f"$.ops[0].duration_ns: {ANY_AMOUNT} Infinity",
        ),
        (
            ["values", 0, "kind"],
            "weights",
            (
                '$.values[0].kind: expected one of "param", "buffer", "input",'
                ' "optimizer", "tangent", "activation", "gradient", found "weights"'
            ),
        ),
        (
            ["ops", 1, "recompute"],
            {"allowed": 1},
            "$.ops[1].recompute.allowed: expected true or false, found 1",
        ),
        (["ops", 1, "name"], 5, "$.ops[1].name: expected a string, found 5"),
        (
            ["ops", 1, "name"],
            "\ud800",
            (
                "$.ops[1].name: expected a string of whole characters (it has half a"
                ' surrogate), found "\\ud800"'
            ),
        ),
        (["ops"], {}, "$.ops: expected an array, found an object of nothing"),
        (["meta"], [1], "$.meta: expected an object, found an array of 1"),
        (["meta", "a b"], 1.5, '$.meta["a b"]: expected a string, found 1.5'),
    ],
)
def test_a_wrong_field_of_a_graph(path, value, message):
    """Unknown, missing and ill-typed fields and numbers are named by their path."""
    text = edited(GRAPH, path, value)

    assert refusal(wire.graph_from_json, text) == f"graph: {message}"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            ["ops", 1, "inputs", 0],
            8,
            (
                "$.ops[1].inputs[0]: op 1 (second): inputs name value 8, but there"
                " are 8 values"
            ),
        ),
        (
            ["ops", 1, "inputs", 0],
            2,
            (
                "$.ops[1].inputs[0]: op 1 (second): depends on itself (a cycle through"
                " value 2)"
            ),
        ),
        (
            ["ops", 2, "id"],
            1,
            (
                "$.ops[2].id: ops[2]: duplicate id 1, expected 2; ids count 0, 1, 2 in"
                " order"
            ),
        ),
        (
            ["outputs", 1],
            3,
            "$.outputs[1]: outputs list value 3 twice",
        ),
        (["ops"], [], "$.ops: the graph 'chain' has no ops"),
    ],
)
def test_a_document_of_no_graph(path, value, message):
    """What the graph refuses is told with the place in the document."""
    text = edited(GRAPH, path, value)

    assert refusal(wire.graph_from_json, text) == f"graph: {message}"


def test_a_field_that_occurs_twice_is_refused():
    """JSON readers disagree on which one counts, so neither does."""
    text = GRAPH.replace('"bytes": 20', '"bytes": 20, "bytes": 2', 1)

    assert refusal(wire.graph_from_json, text) == (
        'graph: $.values[2]: the field "bytes" occurs twice'
    )
    text = GRAPH.replace('"name"', '"name": "x", "name"', 1)
    assert refusal(wire.graph_from_json, text) == (
        'graph: $: the field "name" occurs twice'
    )


def test_a_number_of_thousands_of_digits_is_refused_at_its_place():
    """Such a number is not converted, and its digits are not repeated."""
    text = GRAPH.replace('"bytes": 20', f'"bytes": {"9" * 5000}', 1)

    assert refusal(wire.graph_from_json, text) == (
        f"graph: $.values[2].bytes: {ANY_AMOUNT} a number of 5000 digits"
    )


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (Limits(ops=5), "$.ops: 6 items, more than the limit of 5"),
        (Limits(values=7), "$.values: 8 items, more than the limit of 7"),
        (Limits(edges=8), "$.ops[5]: the graph has more than the limit of 8 edges"),
    ],
)
def test_a_graph_over_a_limit_is_refused(limits, message):
    """Limits are the reader's to set, and to raise."""
    exact = Limits(ops=6, values=8, edges=9)

    assert wire.graph_from_json(GRAPH, limits=exact) == chain()
    assert refusal(wire.graph_from_json, GRAPH, limits=limits).startswith(
        f"graph: {message}"
    )


SOLVED_GAP = "expected about 0.200000, as the durations and the bound have it, found"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            ["steps", 2],
            {"offload": 9},
            (
                "$.steps[2]: a step that is an object belongs to a schema newer than"
                " encamp.plan/1, which knows op ids only; upgrade Encamp to read it"
            ),
        ),
        (
            ["steps", 2],
            -1,
            "$.steps[2]: expected an integer from 0 to 199999, found -1",
        ),
        (["steps"], [], "$: a plan that is feasible with 0 steps"),
        (
            ["peak_bytes"],
            54,
            "$: a peak of 54 bytes is over the budget of 53 less 0 in reserve",
        ),
        (["certificate", "gap"], 0.202, f"$.certificate.gap: {SOLVED_GAP} 0.202"),
        (
            ["certificate", "gap"],
            float("nan"),
            "$.certificate.gap: expected a finite number, found NaN",
        ),
        (
            ["certificate", "gap"],
            "0",
            '$.certificate.gap: expected a number, found "0"',
        ),
        (["certificate", "bound"], 1, '$.certificate: unknown field "bound"'),
        (
            ["graph", "exact"],
            "sha256:12",
            (
                "$.graph.exact: expected 'sha256:' and 64 hexadecimal digits, found"
                ' "sha256:12"'
            ),
        ),
        (
            ["solver", "seconds"],
            -0.5,
            "$.solver.seconds: expected seconds, at least 0, found -0.5",
        ),
        (
            ["status"],
            "done",
            (
                '$.status: expected one of "optimal", "feasible", "infeasible",'
                ' "unknown", found "done"'
            ),
        ),
        (["memory", "input"], "1", "$.memory.input: expected an integer"),
    ],
)
def test_a_wrong_field_of_a_plan(path, value, message):
    """A plan is read as strictly as a graph."""
    text = edited(PLAN, path, value)

    assert refusal(wire.plan_from_json, text).startswith(f"plan: {message}")


def test_a_gap_may_be_rounded_or_left_out():
    """The gap is for readers; the durations are what counts."""
    plan = wire.plan_from_json(PLAN)

    assert wire.plan_from_json(edited(PLAN, ["certificate", "gap"], 0.2009)) == plan
    assert wire.plan_from_json(edited(PLAN, ["certificate", "gap"], None)) == plan


def test_a_plan_over_the_limit_of_steps_is_refused():
    """The steps of a plan are limited too."""
    message = refusal(wire.plan_from_json, PLAN, limits=Limits(steps=5))

    assert message.startswith("plan: $.steps: 6 items, more than the limit of 5")


def test_a_file_over_the_limit_is_refused(tmp_path):
    """A file is not read beyond the limit of bytes."""
    path = tmp_path / "g.json"
    wire.write_graph(chain(), path)
    size = path.stat().st_size

    assert wire.read_graph(path, limits=Limits(bytes=size)) == chain()
    assert refusal(wire.read_graph, path, limits=Limits(bytes=size - 1)) == (
        f"{path}: holds more than the limit of {size - 1} bytes"
    )


def test_damaged_compression(tmp_path):
    """Cut off, overwritten or never compressed: the error says which."""
    path = tmp_path / "g.json.zst"
    wire.write_graph(chain(), path)
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    cases = {
        whole[:-1]: "truncated: the compressed data ends in its middle",
        whole[:20]: "truncated: the compressed data ends in its middle",
        bytes(flipped): "damaged or not Zstandard",
        GRAPH.encode(): "damaged or not Zstandard",
        whole + b"rest": "damaged or not Zstandard",
    }
    for content, message in cases.items():
        path.write_bytes(content)
        assert refusal(wire.read_graph, path).startswith(f"{path}: {message}")


def test_several_frames_are_one_document(tmp_path):
    """Parallel compressors write a document as several frames."""
    text = GRAPH.encode()
    path = tmp_path / "g.json.zst"
    path.write_bytes(zstandard.compress(text[:200]) + zstandard.compress(text[200:]))

    assert wire.read_graph(path) == chain()


def test_a_decompression_bomb_is_stopped(tmp_path):
    """A small file that unpacks to 512 MiB is refused without unpacking it whole."""
    path = tmp_path / "bomb.json.zst"
    packer = zstandard.ZstdCompressor().compressobj()
    blank = b" " * 2**24
    pieces = [packer.compress(blank) for _ in range(32)]
    path.write_bytes(b"".join(pieces) + packer.flush())
    tracemalloc.start()
    message = refusal(wire.read_graph, path, limits=Limits(bytes=2**20))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert message == f"{path}: decompresses to more than the limit of {2**20} bytes"
    assert path.stat().st_size < 2**17
    assert peak < 2**27


def test_a_missing_library_names_what_to_install(tmp_path, monkeypatch):
    """Without zstandard, plain files still work and packed ones say what is missing."""
    monkeypatch.setitem(sys.modules, "zstandard", None)
    wire.write_graph(chain(), tmp_path / "g.json")

    assert wire.read_graph(tmp_path / "g.json") == chain()
    with pytest.raises(ImportError, match="pip install encamp"):
        wire.write_graph(chain(), tmp_path / "g.json.zst")


def test_a_refusal_has_its_path_for_programs():
    """In a whole document, and in a field of another one."""
    data = json.loads(wire.graph_to_json(chain()))
    data["ops"][3]["inputs"][0] = "x"
    with pytest.raises(WireError) as raised:
        wire.graph_from_json(json.dumps(data))
    assert raised.value.at == "$.ops[3].inputs[0]"
    with pytest.raises(WireError, match=r"^body: ") as raised:
        wire.graph_from_data(data, source="body", field="graph")
    assert raised.value.at == "$.graph.ops[3].inputs[0]"


def test_a_field_of_a_document_is_read_as_the_whole_is():
    """A graph and a plan that were parsed with what they came in."""
    graph, plan = chain(), plan_of(chain(), range(6), budget_bytes=60)
    data = json.loads(wire.graph_to_json(graph))
    assert wire.graph_from_data(data, source="body", field="graph") == graph
    data = json.loads(wire.plan_to_json(plan))
    assert wire.plan_from_data(data, source="body", field="plan") == plan
