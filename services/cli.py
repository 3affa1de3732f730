"""The command line of the tool."""

import argparse
import sys
from collections.abc import Sequence
from typing import cast

from .control import Services, default_services
from .model import SERVICE_NAMES, ServiceError, ServiceName
from .system import require

_DEFAULT_NAMES: tuple[ServiceName, ...] = ("kafka", "redis")
_ONE_BROKER: ServiceName = "kafka"
_THREE_BROKERS: ServiceName = "kafka3"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit status."""
    options = _parser().parse_args(arguments)
    names = _names(options)
    try:
        return _run(options.command, names, default_services())
    except ServiceError as error:
        print(f"services: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m services",
        description="Starts and stops real servers for tests, benchmarks and people.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    helps = {
        "start": "start servers, or find them running, and print their addresses",
        "stop": "stop servers (default: all) and remove their data",
        "require": "find or fetch what servers need; as root on Debian or Ubuntu install it",
        "status": "print which servers answer",
        "env": "print the addresses as shell commands, for `eval`",
    }
    for command, text in helps.items():
        sub = commands.add_parser(command, help=text, description=text)
        if command in {"start", "stop", "require"}:
            sub.add_argument("names", nargs="*", type=_service_name, metavar="SERVICE")
            sub.add_argument("--brokers", type=int, choices=(1, 3), default=1)
    return parser


def _service_name(text: str) -> ServiceName:
    for name in SERVICE_NAMES:
        if name == text:
            return name
    raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(SERVICE_NAMES)}")


def _names(options: argparse.Namespace) -> tuple[ServiceName, ...]:
    names = cast("list[ServiceName]", getattr(options, "names", None) or [])
    if options.command in {"start", "require"} and not names:
        names = list(_DEFAULT_NAMES)
    if getattr(options, "brokers", 1) == 3:  # noqa: PLR2004  # the one other size there is
        return tuple(_THREE_BROKERS if name == _ONE_BROKER else name for name in names)
    return tuple(names)


def _run(command: str, names: tuple[ServiceName, ...], services: Services) -> int:
    match command:
        case "start":
            services.start(*names)
            _print_environment(services, prefix="")
        case "stop":
            services.stop(*names)
        case "require":
            require(names)
            services.prepare(*names)
        case "env":
            _print_environment(services, prefix="export ")
        case _:
            status = services.status()
            for name, is_ready in status.items():
                print(f"{name}: {'answers' if is_ready else 'does not answer'}")
            return 0 if status and all(status.values()) else 1
    return 0


def _print_environment(services: Services, *, prefix: str) -> None:
    for key, value in services.addresses().environment().items():
        print(f"{prefix}{key}={value}")
