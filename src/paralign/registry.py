"""The stages of a check, each said once.

Adding one is a line here and a file or folder of its name in ``stages/``.

``stages/<name>.py`` holds ``run(context) -> StageResult``, the judging; in a folder of several files it is ``stages/<name>/stage.py``.
All else that the package has to know of a stage stands here.
"""

from dataclasses import dataclass, field
from typing import Dict, Tuple


@dataclass(frozen=True)
class Stage:
    """What the package knows of a stage besides how to run it.

    Args:
        name: what users call it, and the folder in ``stages/``.
        guide: the section of the migration guide.
        functions: those of a side's functions that this stage brings in, name -> signature.
        arrays: the guides' name of its ``.npy`` files, '' for a stage that has none.
        needs_weights: the reference's weights are carried over before it runs.
        follows: earlier stages whose divergence it may only inherit.
        default: it runs where no stage is named.
        reference: how the name of the reference's ``.npy`` file ends.
        log: the guides' name of its lines of differences, '' for ``log/<stage>_diff.log``.
    """

    name: str
    guide: str
    functions: Dict[str, str] = field(default_factory=dict)
    arrays: str = ""
    needs_weights: bool = True
    follows: Tuple[str, ...] = ()
    default: bool = True
    reference: str = "ref"
    log: str = ""


#: in the order in which they run
STAGES: Tuple[Stage, ...] = (
    Stage("weights", "3.1.2", {"build_model": "build_model()"}),
    Stage("forward", "3.1.3", {"inputs": "inputs()"}, "forward", follows=("weights",)),
    Stage(
        "data",
        "3.2, 3.7",
        {"build_dataset": "build_dataset(split)", "build_dataloader": "build_dataloader(split)", "transforms": "transforms(split)"},
        "data",
        needs_weights=False,
    ),
    Stage("metric", "3.3", {"metric": "metric(outputs, labels)"}, "metric"),
    Stage("loss", "3.4", {"labels": "labels()", "loss": "loss(outputs, labels)"}, "loss"),
    Stage(
        "optimizer",
        "3.5",
        {
            "build_optimizer": "build_optimizer(model)",
            "build_scheduler": "build_scheduler(optimizer)",
            "schedule_metric": "schedule_metric(epoch)",
        },
        "schedule",
        follows=("weights",),
        default=False,  # records the steps of every parameter
    ),
    Stage(
        "backward",
        "3.5, 3.6",
        {"train_step": "train_step(model, optimizer, batch)"},
        "losses",
        follows=("weights", "forward", "loss"),
    ),
    Stage("init", "3.8", {"build_untrained": "build_untrained()"}, follows=("weights",), default=False),  # builds the model 60 times
    Stage(
        "train",
        "3.9",
        {"train": "train(log)"},
        "train_align",
        follows=("weights", "forward", "data", "metric", "loss", "optimizer", "backward", "init"),
        default=False,  # trains several times
        reference="benchmark",
        log="log/train_align_diff_log.txt",
    ),
    Stage(
        "infer",
        "3.11",
        {"predict": "predict(path) or predict(path, model)", "export": "export(model, path)"},
        "infer",
        follows=("weights", "forward", "data"),
    ),
    Stage(
        "distributed",
        "3.12",
        {
            "distribute": "distribute(model)",
            "evaluate": "evaluate(model)",
            "save": "save(model, folder)",
        },
        follows=("weights", "forward", "loss", "backward"),
        default=False,  # starts the framework four times
    ),
)

BY_NAME: Dict[str, Stage] = {stage.name: stage for stage in STAGES}

#: a side's functions, name -> how it is called
SIGNATURES: Dict[str, str] = {name: signature for stage in STAGES for name, signature in stage.functions.items()}
