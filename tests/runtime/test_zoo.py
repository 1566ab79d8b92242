"""Models as users train them: each planned at half its peak and verified.

`zoo` says what they are. At half of the unplanned peak, or at the smallest budget a
plan is known for where half is too little, a model trains bit for bit as its captured
graph, and its peak is the predicted one. A few run by default, on the costs of a
table, which knows no workspaces; all of them on measured costs are slow.
"""

import pytest

pytest.importorskip("transformers")

import transformers as hf

from encamp.errors import CaptureError, InfeasibleError, NoPlanError
from encamp.planner import Options, min_budget, solve
from encamp.replay import replay
from encamp.runtime import verify
from encamp.tracer.profile import MeasuredCosts
from encamp.tracer.tracing import trace
from zoo import ZOO, detr

pytestmark = [
    # Dynamo traces through what Transformers caches by version.
    pytest.mark.filterwarnings(
        "ignore:Dynamo detected a call to a `functools.lru_cache"
    ),
]

QUICK = Options(time_limit_s=None, work_limit=300, target_gap=0.005)
BY_DEFAULT = ("Llama", "U-Net")


def half_or_least(graph):
    """Return a plan at half of the unplanned peak, else at the smallest budget."""
    try:
        return solve(graph, replay(graph).peak_bytes // 2, options=QUICK)
    except (InfeasibleError, NoPlanError):
        return min_budget(graph, options=QUICK).plan


def planned(name, costs, compiler="eager"):
    """Plan a model of the zoo, verify the plan and return both."""
    plan = half_or_least(trace(*ZOO[name](), costs=costs))
    options = {"costs": costs, "compiler": compiler, "steps": 2, "rounds": 1}
    return plan, verify(ZOO[name], plan, **options)


def test_the_zoo_has_24_models():
    """As many as the promise speaks of."""
    assert len(ZOO) == 24


@pytest.mark.parametrize("name", BY_DEFAULT)
def test_a_model_trains_the_same_at_half_its_peak(name):
    """Two steps are bit for bit those of the captured graph, storages to the byte."""
    plan, report = planned(name, "roofline:cpu")

    assert report.differences == ()
    assert report.planned.storages.measured == report.planned.storages.predicted
    assert report.unplanned.storages.measured == report.unplanned.storages.predicted
    assert report.recomputed_ops > 0
    assert plan.peak_bytes <= plan.unplanned.peak_bytes // 2


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["eager", "lite"])
@pytest.mark.parametrize("name", ZOO)
def test_a_model_trains_the_same_on_measured_costs(name, compiler, tmp_path_factory):
    """In all things: bits, storages to the byte, the allocator's peak within 1 %."""
    costs = MeasuredCosts("cpu", tmp_path_factory.getbasetemp() / "costs")
    plan, report = planned(name, costs, compiler)

    assert report.findings == ()
    assert report.recomputed_ops > 0
    assert report.planned.peak.measured <= plan.budget_bytes
    assert plan.peak_bytes < plan.unplanned.peak_bytes


def test_what_does_not_fit_one_graph_is_refused_by_name():
    """DETR of Transformers asks whether its values are finite, once in each layer."""
    with pytest.raises(CaptureError, match=r"modeling_detr\.py:\d+ \(Python branches"):
        trace(*detr(), costs="roofline:cpu")


def test_a_model_that_sets_itself_up_is_told_what_to_do():
    """SegFormer installs hooks at its first call, under a lock."""
    model, args, kwargs = ZOO["SegFormer"]()
    fresh = hf.SegformerForSemanticSegmentation(model.config).train()

    with pytest.raises(CaptureError, match=r"a lock for instance.*call the step once"):
        trace(fresh, args, kwargs, costs="roofline:cpu")
