"""Shell scripts and Slurm jobs that start servers."""

from dataclasses import replace
from typing import Final

from advisor.errors import refusal
from advisor.export import script
from advisor.export.engines.launches import server_launch
from advisor.export.engines.servers import Servers
from advisor.export.hosts.orders import reach
from advisor.export.quoting import comments, shell_word
from advisor.export.setup import Setup

IN_IMAGE: Final = '--ipc host -v "$PWD:/work" -w /work --network host --entrypoint bash'
"""Options of ``docker run`` that start a script of this folder."""
FABRIC: Final = (
    "$([ -d /dev/infiniband ] && echo --device /dev/infiniband) --cap-add IPC_LOCK "
    "--ulimit memlock=-1"
)
"""Options of ``docker run`` that let NCCL use InfiniBand or RoCE, if a machine has it, with locked
memory without limit (NCCL 2.26.2 user guide, troubleshooting.rst, shared memory)."""
HUB: Final = '-e HF_TOKEN -v "$HOME/.cache/huggingface:/root/.cache/huggingface"'
"""Options of ``docker run`` that pass the rights to gated weights, and keep what was loaded."""
PORTS: Final = ("--port", "--server-port")
"""Options by which programs are told their port."""
JOB: Final = "job.sh"
SERVING_DAYS: Final = 1
"""Time of a Slurm job that serves. Assumed: many partitions allow no more. [d]"""


def with_port(launch: script.Launch, shift: int) -> script.Launch:
    """Return a launch whose port is ``shift`` higher."""
    if not shift:
        return launch
    options: script.Options = tuple(
        (name, str(int(values[0]) + shift)) if name in PORTS else (name, *values)  # type: ignore[arg-type]
        for name, *values in launch.options
    )
    host = launch.environment.get("OLLAMA_HOST")
    changed = {}
    if host:
        address, _, port = host.rpartition(":")
        changed = {"OLLAMA_HOST": f"{address}:{int(port) + shift}"}
    return replace(launch, options=options, environment={**launch.environment, **changed})


def started(servers: Servers, launch: script.Launch) -> list[str]:
    """Return the lines that start the servers of one machine."""
    bodies = [_one(servers, launch, index) for index in range(servers.on_each_machine)]
    if len(bodies) == 1:
        return bodies[0]
    beside = (("(", *(f"  {line}" for line in body), ") &") for body in bodies)
    return [*(line for lines in beside for line in lines), "wait"]


def _one(servers: Servers, launch: script.Launch, index: int) -> list[str]:
    """Return the lines that start one server of a machine, on its own port and accelerators."""
    variable, each = reach(servers.backend).visible, with_port(launch, index)
    narrow = variable and servers.cards_each < servers.setup.machine_size
    seen = [f"export {variable}={servers.visible(index)}"] if narrow else []
    changed = each.environment.items() - launch.environment.items()
    ports = [f"export {name}={shell_word(value)}" for name, value in sorted(changed)]
    return [*seen, *ports, *each.before, *script.command(each.program, each.options)]


def _docker(servers: Servers, launch: script.Launch) -> str:
    """Return the command that starts a script of this folder in the image."""
    hub = "" if servers.program.reads_gguf else HUB
    fabric = FABRIC if servers.machines > 1 else ""
    card = reach(servers.backend).docker
    words = ("docker run --rm -it", card, fabric, hub, IN_IMAGE, launch.image)
    return " ".join((*filter(None, words), _in_bash(launch, "FILE").removeprefix("bash ")))


def _apptainer(servers: Servers, launch: script.Launch) -> str:
    """Return the command of a job that starts its servers in the image."""
    extra = "--writable-tmpfs" if launch.image_extra else ""
    words = ("srun apptainer exec", reach(servers.backend).apptainer, extra)
    return " ".join((*filter(None, words), f"docker://{launch.image}", _in_bash(launch, JOB)))


def _in_bash(launch: script.Launch, file: str) -> str:
    """Return how an image runs a script, with what it lacks installed first."""
    added = " && ".join(" ".join(map(shell_word, words)) for words in launch.image_extra)
    return f"bash -c {shell_word(f'{added} && bash {file}')}" if added else f"bash {file}"


def head_of(servers: Servers, launch: script.Launch, image: str = "") -> tuple[str, ...]:
    """Return the lines at the head of a file that a person starts.

    ``image``: how to start it in the image, if that is another way.
    """
    setup = servers.setup
    found = [*script.needs(launch), *filter(None, [image])]
    if servers.count > 1:
        ports = "one on each machine" if servers.machines == 1 else f"each on {servers.machines}"
        if servers.on_each_machine > 1:
            ports = f"on ports from {servers.program.port}"
        found.append(f"{servers.count} servers, {ports}: put a load balancer in front.")
    return (*setup.header, *launch.notes, *found)


def shell_file(setup: Setup) -> str:
    """Return a script for each machine."""
    servers = Servers(setup)
    launch = server_launch(servers)
    start = "Or start it" if launch.install else "Start it"
    image = f"{start} in the image: {_docker(servers, launch)}" if launch.image else ""
    return script.text_of(
        script.START,
        comments(head_of(servers, launch, image)),
        (script.STRICT,),
        script.place_lines(servers.machines),
        script.preparation(launch),
        started(servers, launch),
    )


def slurm_file(setup: Setup) -> str:
    """Return a job that starts the servers of all machines."""
    servers = Servers(setup)
    launch = server_launch(servers)
    if servers.backend == "metal":
        raise refusal("slurm_on_macos", value=setup.accelerator.name, servers=servers)
    orders = setup.slurm_orders(f"{SERVING_DAYS}-00:00:00")
    span = servers.machines
    group: list[str] = []
    if span > 1:
        line = f"$((SLURM_NODEID / {span} * {span} + 1))p"
        group = [
            f"NODE_RANK=$((SLURM_NODEID % {span}))",
            f'MASTER_ADDR="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n "{line}")"',
        ]
    # Every task expands its own rank, so the servers need their own script.
    job = script.text_of((script.STRICT,), group, started(servers, launch))
    run, image = f"srun bash {JOB}", ""
    if launch.image and not launch.install:
        run, image = _apptainer(servers, launch), "Needs: Apptainer on the machines."
    elif launch.image:
        image = f"Or start it in the image, with this last line: {_apptainer(servers, launch)}"
    return script.text_of(
        script.START,
        orders,
        comments((*head_of(servers, launch, image), "The servers end with the job's time.")),
        (script.STRICT,),
        script.preparation(launch),
        [*script.written_file(JOB, job), run],
    )
