"""Files for one's own machines that start training: scripts, configurations, Slurm jobs."""

from dataclasses import replace
from math import ceil
from typing import Final

from advisor.export.formats import Format
from advisor.export.quoting import comments, yaml_file
from advisor.export.script import (
    START,
    STRICT,
    Launch,
    Variable,
    Word,
    command,
    needs,
    place_lines,
    preparation,
    started,
    text_of,
    written_file,
)
from advisor.export.setup import Setup
from advisor.export.training.described import launch as described
from advisor.export.training.described import sharing

FIRST_HOST: Final = Variable("MASTER_ADDR")
RANK: Final = Variable("NODE_RANK")
DAY_H: Final = 24
PART_H: Final = 23
"""Hours of a day that a chained job trains. Assumed: the rest is start-up, and the steps after its
last checkpoint."""
SHARING: Final = {"--deepspeed", "--fsdp", "--fsdp_config"}
"""Options in place of which Accelerate's configuration says how states are shared out."""


def launch_of(setup: Setup) -> Launch:
    """Return the program that trains as the file says."""
    assert setup.tool is not None
    return described(setup.tool, setup)


def start(setup: Setup, launch: Launch, *, rank: Word = RANK, host: Word = FIRST_HOST) -> list[str]:
    """Return the command for one machine."""
    return started(
        launch, machines=setup.machines, per_machine=setup.per_machine, rank=rank, host=host
    )


def machines_of(setup: Setup, launch: Launch) -> int:
    """Return how many machines a starter joins: one if the program needs none."""
    return setup.machines if launch.starter else 1


def shell_file(setup: Setup) -> str:
    """Return a script for each machine."""
    launch = launch_of(setup)
    head = comments((*setup.header, *launch.notes, *needs(launch)))
    return text_of(
        START,
        head,
        (STRICT,),
        place_lines(machines_of(setup, launch)),
        preparation(launch),
        start(setup, launch),
    )


def config_file(setup: Setup) -> str:
    """Return the one file that a program reads, with the command that starts it above."""
    launch = launch_of(setup)
    assert launch.config is not None
    head = _started_by(setup, launch, start(setup, launch))
    return text_of(comments(head)) + launch.files[launch.config]


def _started_by(setup: Setup, launch: Launch, use: list[str]) -> tuple[str, ...]:
    """Return the head of a file that a command reads, with the command."""
    place = "On every machine, with its $NODE_RANK and the first one's $MASTER_ADDR:"
    lines = (*preparation(replace(launch, files={})), *use)
    start_with = place if setup.machines > 1 else "Start it with:"
    shown = (f"  {line}" for line in lines)
    return (*setup.header, *launch.notes, *needs(launch), start_with, *shown)


def accelerate_file(setup: Setup) -> str:
    """Return Accelerate's configuration with the command that uses it above."""
    launch = launch_of(setup)
    name, several = Format.ACCELERATE.file_name, setup.machines > 1
    options = tuple(option for option in launch.options if option[0] not in SHARING)
    place = ("--machine_rank", RANK, "--main_process_ip", FIRST_HOST) if several else ()
    program = ("accelerate", "launch", "--config_file", name, *place, *launch.program)
    head = _started_by(setup, launch, command(program, options))
    return yaml_file(head, sharing(setup, "accelerate"))


def slurm_file(setup: Setup) -> str:
    """Return a job with one task on each machine; a long run that resumes is a chain of days."""
    assert setup.estimate.time is not None
    assert setup.tool is not None
    launch, longest = launch_of(setup), setup.estimate.time.run_hours.high
    days, hours = divmod(ceil(longest), DAY_H)
    resumes = setup.tool.says.resumes
    chained = resumes and longest > DAY_H
    orders = setup.slurm_orders("1-00:00:00" if chained else f"{days}-{hours:02d}:00:00")
    if resumes:
        orders += ["#SBATCH --requeue", "#SBATCH --open-mode=append"]
    if chained:
        parts = ceil(longest / PART_H)
        orders.append("#SBATCH --dependency=singleton")
        note = (
            "A day for each job, as clusters accept; Slurm runs one at a time, and each goes on "
            f"from the last checkpoint. Submit {parts}: "
            f"for part in $(seq {parts}); do sbatch {Format.SLURM.file_name}; done"
        )
        launch = replace(launch, notes=(*launch.notes, note))
    first = 'MASTER_ADDR="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"'
    # Every task expands its own rank, so the command needs its own script.
    job = text_of((STRICT,), start(setup, launch, rank=Variable("SLURM_NODEID")))
    return text_of(
        START,
        orders,
        comments((*setup.header, *launch.notes, *needs(launch))),
        (STRICT,),
        preparation(launch),
        (first, "export MASTER_ADDR"),
        [*written_file("job.sh", job), "srun bash job.sh"],
    )
