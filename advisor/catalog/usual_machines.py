"""What is assumed of a card's machine where no source states it: ``data/usual_machines.yaml``."""

from typing import Literal

from advisor.catalog.records import Count, Gigabits, Gigabytes, Text
from advisor.foundation.noun import Noun, shipped
from advisor.foundation.units import GB, GIB
from advisor.nouns.hardware import Accelerator, Segment


class Pcie(Noun):
    """Links of slots."""

    x16_gb_per_s: dict[int, Gigabytes]
    assumed_generation: Count
    source: Text


class Network(Noun):
    """Networks between machines."""

    port_gbit_per_s: dict[int, Gigabits]
    card_gbit_per_s: Gigabits
    office_gbit_per_s: Gigabits
    source: Text


class Host(Noun):
    """Processor and screen of a machine."""

    vcpus_per_accelerator: Count
    display_gb: Gigabytes
    board_launch_us: Count
    source: Text


class HostMemory(Noun):
    """Memory of a kind of host."""

    gb: Gigabytes
    gb_per_s: Gigabytes
    source: Text


class Shape(Noun):
    """A kind of machine."""

    accelerators: Count
    network: Literal["port", "card", "own", "none"]
    title: Text


class UsualMachines(Noun):
    """The file."""

    pcie: Pcie
    network: Network
    host: Host
    host_memory: dict[Literal["server", "desktop", "laptop"], HostMemory]
    desktop_most_gib: Gigabytes
    link_words: tuple[Text, ...]
    most_per_machine: Count
    rack_domain: Count
    server_processor_gb: Gigabytes
    machines: dict[str, Shape]

    def x16_bytes_per_s(self) -> dict[int, float]:
        """Return the rate of sixteen lanes per direction, by generation. [bytes/s]"""
        return {generation: rate * GB for generation, rate in self.pcie.x16_gb_per_s.items()}

    def memory_of(self, kind: str) -> dict[str, float]:
        """Return size [bytes] and bandwidth [bytes/s] of a host's memory, as a machine has them."""
        memory = self.host_memory[kind]  # type: ignore[index]
        return {
            "host_memory_bytes": memory.gb * GB,
            "host_memory_bandwidth_bytes_per_s": memory.gb_per_s * GB,
        }

    @property
    def desktop_most_bytes(self) -> float:
        """Most memory of a desktop computer. [bytes]"""
        return self.desktop_most_gib * GIB

    def is_server_processor(self, accelerator: Accelerator) -> bool:
        """Whether a processor of the catalog is a server's."""
        large = accelerator.memory_marketed_bytes > self.server_processor_gb * GB
        return accelerator.segment is Segment.CPU and large


usual_machines = shipped("usual_machines.yaml", UsualMachines)
