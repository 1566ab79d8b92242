"""Graphs and plans as text: what is written, and that it comes back."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings

from encamp import wire
from encamp.errors import WireError
from encamp.plan import Certificate, Robustness, SolverInfo, Status
from graphs import chain, noisy, plan_of, unsolved_plan
from strategies import graphs, plans

NOISY_TEXT = """\
{"schema": "encamp.graph/1",
 "name": "noisy",
 "values": [
  {"id": 0, "bytes": 4, "kind": "input", "resident": true},
  {"id": 1, "bytes": 1, "kind": "activation"},
  {"id": 2, "bytes": 8, "kind": "activation"},
  {"id": 3, "bytes": 0, "kind": "activation"},
  {"id": 4, "bytes": 8, "kind": "activation"},
  {"id": 5, "bytes": 2, "kind": "gradient"}],
 "ops": [
  {"id": 0, "name": "drop", "target": "aten.native_dropout.default", "phase": \
"forward", "inputs": [0], "outputs": [1, 2, 3], "duration_ns": 5, "recompute": \
{"allowed": false, "reason": "random"}, "arguments": "0.1,True"},
  {"id": 1, "name": "conv", "target": "aten.convolution.default", "phase": \
"forward", "inputs": [2, 3], "outputs": [4], "duration_ns": 7, "workspace_bytes": 16, \
"spread_ns": 1, "layout": "f32[2]"},
  {"id": 2, "name": "conv_back", "target": "aten.mul.Tensor", "phase": "backward", \
"inputs": [4, 1], "outputs": [5], "duration_ns": 9}],
 "outputs": [4, 5]}
"""


def test_a_graph_is_one_value_and_one_op_a_line():
    """Defaults are left out, and a change of one op is a change of one line."""
    assert wire.graph_to_json(noisy()) == NOISY_TEXT


def test_what_a_document_leaves_out_takes_its_default():
    """The optional fields of values, ops and the graph have documented defaults."""
    assert wire.graph_from_json(NOISY_TEXT) == noisy()
    assert "meta" not in NOISY_TEXT


def test_defaults_may_be_written_out():
    """A document that spells a default is the same graph."""
    document = json.loads(NOISY_TEXT)
    document["ops"][2] |= {
        "workspace_bytes": 0,
        "spread_ns": 0,
        "arguments": "",
        "layout": "",
        "recompute": {"allowed": True},
    }
    document["values"][1]["resident"] = False

    assert wire.graph_from_json(json.dumps(document)) == noisy()


PLAN_TEXT = """\
{"schema": "encamp.plan/1",
 "graph": {"name": "chain", "structure": "STRUCTURE", "exact": "EXACT"},
 "budget_bytes": 53,
 "reserve_bytes": 0,
 "status": "feasible",
 "peak_bytes": 53,
 "duration_ns": 2100,
 "unplanned": {"peak_bytes": 53, "duration_ns": 2100},
 "memory": {"input": 1, "activation": 31, "tangent": 1, "gradient": 20, "workspace": 0},
 "certificate": {"lower_bound_ns": 1680, "proved_by": "cut", "order": "free", \
"gap": 0.2},
 "solver": {"encamp": "0.1.0", "ortools": "9.15", "seed": 0, "seconds": 0.5, \
"stages": ["cut"]},
 "steps": [0,
  1,
  2,
  3,
  4,
  5]}
"""


def test_a_plan_is_one_step_a_line_and_has_its_gap():
    """A recomputation more is a line more; the gap is written for readers."""
    plan = plan_of(chain(), certificate=Certificate(1680, "cut"), outline=())
    text = PLAN_TEXT.replace("STRUCTURE", plan.graph.structure)

    assert wire.plan_to_json(plan) == text.replace("EXACT", plan.graph.exact)


def test_a_certificate_keeps_its_rules_and_its_spread():
    """What the bound holds for comes back; where there is nothing, no field is."""
    worst = Robustness(spread=0.2, duration_ns=2640, gap=0.15)
    certificate = Certificate(2100, "cut", rules=("keep name:first",), robust=worst)
    plan = plan_of(chain(), certificate=certificate)

    assert wire.plan_from_json(wire.plan_to_json(plan)) == plan
    assert "rules" not in wire.plan_to_json(plan_of(chain()))
    assert "robust" not in wire.plan_to_json(plan_of(chain()))


def test_the_fields_of_a_plan_are_its_document_without_steps():
    """What the command line prints is the document without its long lists."""
    plan = plan_of(chain())
    document = json.loads(wire.plan_to_json(plan))

    assert document.pop("steps") == list(plan.steps)
    assert document.pop("outline") == list(plan.outline)
    assert wire.plan_fields(plan) == document


@settings(max_examples=60)
@given(graphs())
def test_graphs_come_back(graph):
    """Reading what was written gives the graph, and writing that the same text."""
    text = wire.graph_to_json(graph)

    assert wire.graph_from_json(text) == graph
    assert wire.graph_to_json(wire.graph_from_json(text)) == text


@settings(max_examples=60)
@given(plans())
def test_plans_come_back(plan):
    """Reading what was written gives the plan, and writing that the same text."""
    text = wire.plan_to_json(plan)

    assert wire.plan_from_json(text) == plan
    assert wire.plan_to_json(wire.plan_from_json(text)) == text


@pytest.mark.parametrize("status", [Status.INFEASIBLE, Status.UNKNOWN])
def test_an_answer_without_steps_comes_back(status):
    """A plan without steps has no gap to write."""
    plan = unsolved_plan(chain(), status)

    assert wire.plan_from_json(wire.plan_to_json(plan)) == plan
    assert "gap" not in wire.plan_to_json(plan)


@pytest.mark.parametrize("suffix", [".json", ".json.zst", ".JSON"])
def test_files_come_back(tmp_path, suffix):
    """Either suffix holds a graph or a plan, which either reader finds."""
    graph_path, plan_path = tmp_path / f"g{suffix}", str(tmp_path / f"p{suffix}")
    plan = plan_of(chain())
    wire.write_graph(chain(), graph_path)
    wire.write_plan(plan, plan_path)

    assert wire.read_graph(graph_path) == chain()
    assert wire.read_plan(plan_path) == plan
    assert wire.read_document(graph_path) == chain()
    assert wire.read_document(plan_path) == plan


def test_a_compressed_file_is_smaller_and_the_same_each_time(tmp_path):
    """Compression is worth it and adds nothing of its own, such as a date."""
    for name in ("a.json", "a.json.zst", "b.json.zst"):
        wire.write_graph(chain(), tmp_path / name)
    plain, first, second = (
        (tmp_path / name).read_bytes()
        for name in ("a.json", "a.json.zst", "b.json.zst")
    )

    assert len(first) < len(plain) / 2
    assert first == second


def test_names_of_any_script_come_back(tmp_path):
    """Names are written as they are, in UTF-8."""
    graph = replace(chain(), name="модель ☃ \U0001f3d5 \\ \"'\n")
    wire.write_graph(graph, tmp_path / "g.json")

    assert wire.read_graph(tmp_path / "g.json") == graph
    assert "модель ☃ \U0001f3d5" in (tmp_path / "g.json").read_text("utf-8")


def test_writing_replaces_a_file_and_leaves_nothing_beside_it(tmp_path):
    """The temporary file is renamed over the target, which keeps its mode."""
    path = tmp_path / "g.json"
    wire.write_graph(noisy(), path)
    path.chmod(0o640)
    wire.write_graph(chain(), path)

    assert wire.read_graph(path) == chain()
    assert [entry.name for entry in tmp_path.iterdir()] == ["g.json"]
    assert path.stat().st_mode & 0o777 == 0o640


def test_writing_through_a_link_replaces_what_it_points_to(tmp_path):
    """A link stays a link."""
    target, link = tmp_path / "real.json", tmp_path / "link.json"
    wire.write_graph(noisy(), target)
    link.symlink_to(target)
    wire.write_graph(chain(), link)

    assert link.is_symlink()
    assert wire.read_graph(target) == chain()


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    """When the disk is full, the old document is there and no rest of the new."""
    path = tmp_path / "g.json"
    wire.write_graph(noisy(), path)

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("encamp.wire.files.os.fsync", full)
    with pytest.raises(WireError) as caught:
        wire.write_graph(chain(), path)

    assert str(caught.value) == f"{path}: cannot be written: No space left on device"
    assert wire.read_graph(path) == noisy()
    assert [entry.name for entry in tmp_path.iterdir()] == ["g.json"]


def test_where_nothing_can_be_written_the_error_names_the_file(tmp_path):
    """No folder, a folder itself and a foreign suffix are each refused."""
    (tmp_path / "folder.json").mkdir()
    cases = {
        "none/g.json": "cannot be written: No such file or directory",
        "folder.json": "is not a regular file, expected one to write to",
        "g.yaml": "expected a name that ends in .json or .json.zst",
    }
    for name, message in cases.items():
        with pytest.raises(WireError) as caught:
            wire.write_graph(chain(), tmp_path / name)
        assert str(caught.value) == f"{tmp_path / name}: {message}"


def test_what_json_has_no_word_for_is_not_written(tmp_path):
    """Half a character and NaN are refused before a file is touched."""
    path = tmp_path / "x.json"
    with pytest.raises(WireError, match="cannot be written as UTF-8"):
        wire.write_graph(replace(chain(), name="\ud800"), path)
    solver = SolverInfo("0.1.0", "9.15", seed=0, seconds=float("nan"))
    with pytest.raises(WireError, match="cannot be written as JSON"):
        wire.write_plan(plan_of(chain(), solver=solver), path)

    assert not path.exists()
