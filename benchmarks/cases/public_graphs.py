"""Graphs that others published, and joint graphs of known models, where they are found.

They are looked for in the folder that ENCAMP_BENCH_GRAPHS names, else beside the
repository in `../shared/bench/graphs`, as files of schema `encamp.graph/1`.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

from benchmarks.registry import Case, Missing, add_case
from encamp.graph import CostGraph
from encamp.wire import read_graph

_BESIDE = Path(__file__).parents[3] / "shared" / "bench" / "graphs"
_GRAPHS = {
    "joint_gpt8": "GPT, 8 layers, width 1024, batch 8 x 1024",
    "joint_gpt24": "GPT, 24 layers, width 1024, batch 8 x 1024",
    "joint_gpt24_drop": "the same with dropout, random ops pinned",
    "joint_gpt48": "GPT, 48 layers, width 1024, batch 8 x 1024",
    "joint_gpt96": "GPT, 96 layers, width 1024, batch 8 x 1024",
    "joint_llama7b": "Llama 7B, batch 4 x 2048",
    "joint_vit_b": "ViT-B/16, batch 64",
    "joint_resnet50": "ResNet-50, batch 32",
    "joint_unet": "U-Net, batch 8 x 256 x 256",
    "joint_s07": "16 Llama-style blocks",
    "joint_s09": "19-layer thin MLP",
    "joint_s12": "U-Net of depth 3 with GroupNorm",
    "joint_s15": "4 small blocks, head of 8,000 words",
    "rl1": "random layered, 100 ops (MOCCASIN)",
    "rl2": "random layered, 250 ops (MOCCASIN)",
    "rl3": "random layered, 500 ops (MOCCASIN)",
    "rl4": "random layered, 1,000 ops (MOCCASIN)",
    "cm1_fcn8": "FCN8-VGG, batch 32 (Checkmate)",
    "cm2_resnet50": "ResNet-50, batch 256 (Checkmate)",
    "cm_mobilenet": "MobileNet, batch 512 (Checkmate)",
    "cm_segnet": "SegNet (Checkmate)",
    "cm_unet": "U-Net (Checkmate)",
    "cm_vgg16": "VGG-16 (Checkmate)",
    "cm_vgg19": "VGG-19 (Checkmate)",
}
_RANDOM = tuple(name for name in _GRAPHS if name.startswith("rl"))
_OF_CHECKMATE = tuple(name for name in _GRAPHS if name.startswith("cm"))
_DRIVERS = {
    "proofs": tuple(name for name in _GRAPHS if name.startswith("joint_")),
    "published": (*_RANDOM, "cm1_fcn8", "cm2_resnet50", "cm_mobilenet"),
    "fixed-order": ("rl1", *_OF_CHECKMATE),
    "ablation": (
        *("joint_gpt24", "joint_resnet50", "joint_unet", "joint_s12"),
        *("rl1", "cm1_fcn8"),
    ),
}


def _read(name: str) -> CostGraph:
    folder = Path(os.environ.get("ENCAMP_BENCH_GRAPHS", _BESIDE))
    path = folder / f"{name}.json"
    if not path.exists():
        msg = (
            f"{path.name} is not here; set ENCAMP_BENCH_GRAPHS to a folder that has it."
            " The rl* and cm* graphs are published by github.com/haoming-codes/moccasin"
            " in data/ and by github.com/parasj/checkmate, branch mlsys20_artifact"
        )
        raise Missing(msg)
    return read_graph(path)


for _name, _what in _GRAPHS.items():
    _drivers = tuple(one for one, names in _DRIVERS.items() if _name in names)
    add_case(Case(_name, _what, _drivers, functools.partial(_read, _name)))
