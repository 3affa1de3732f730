"""Server processes: started detached, recognised by more than their pid, ended by signal."""

import os
import pwd
import signal
import subprocess
import sys
from pathlib import Path

from .model import Member, ServiceError
from .patience import holds_within

# The shell goes on at once and prints the server's pid; the server is nobody's child then, so that
# it outlives this process and is never left over as a zombie.
_DETACH = '"$@" </dev/null >&2 & echo $!'

_LEAVE_TIME = 10.0  # seconds between asking a server to stop and killing it


def spawn(member: Member) -> None:
    """Starts the member's command in a session of its own and records its pid.

    Its standard output and error are appended to its log. When this returns, the server may not
    be ready, and may already have failed.
    """
    account = None if member.user is None else pwd.getpwnam(member.user)
    with Path(member.log).open("ab") as log:
        shell = subprocess.run(
            ["/bin/sh", "-c", _DETACH, "sh", *member.command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=member.folder,
            start_new_session=True,
            check=True,
            user=None if account is None else account.pw_uid,
            group=None if account is None else account.pw_gid,
            extra_groups=None if account is None else [],
        )
    member.pid = int(shell.stdout)
    member.identity = identity_of(member.pid)


def identity_of(pid: int) -> str | None:
    """A string that no other process with this pid has; None where no such process runs."""
    proc = Path("/proc")
    if not (proc / "self" / "stat").exists():
        return _identity_by_ps(pid)
    try:
        stat = (proc / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name in brackets may hold anything; after it: state, …, threads (18th), …, start (20th).
    fields = stat.rpartition(")")[2].split()
    state, threads, start = fields[0], int(fields[17]), fields[19]
    # While other threads of a killed process end, its first one is a zombie already, but its
    # sockets are still open.
    if state in {"Z", "X"} and threads <= 1:
        return None
    boot = (proc / "sys" / "kernel" / "random" / "boot_id").read_text().strip()
    return f"{boot}:{start}"


def _identity_by_ps(pid: int) -> str | None:
    answer = subprocess.run(
        ["ps", "-o", "state=,lstart=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
    )
    state, _, started = answer.stdout.strip().partition(" ")
    return None if not state or state.startswith("Z") else started.strip()


def own_identity() -> tuple[int, str]:
    """This process as a holder."""
    identity = identity_of(os.getpid())
    if identity is None:
        raise ServiceError("cannot read the start time of this process")
    return os.getpid(), identity


def is_alive(member: Member) -> bool:
    """True while the very process that was started for this member runs."""
    return (
        member.pid is not None
        and member.identity is not None
        and identity_of(member.pid) == member.identity
    )


def send(member: Member, number: signal.Signals) -> bool:
    """Sends a signal to the member if it is alive; False if it is not."""
    if member.pid is None or not is_alive(member):
        return False
    try:
        os.kill(member.pid, number)
    except ProcessLookupError:
        return False
    return True


def end(members: list[Member], number: signal.Signals) -> None:
    """Sends all members the signal, then waits for each; SIGKILL for those that stay."""
    for member in members:
        send(member, number)
        # A paused process sees no signal but SIGKILL until it goes on.
        send(member, signal.SIGCONT)
    for member in members:
        if _ends_in_time(member):
            continue
        send(member, signal.SIGKILL)
        if not _ends_in_time(member):
            raise ServiceError(f"{member.name} (pid {member.pid}) does not end")
        print(f"services: {member.name} did not stop in time and was killed", file=sys.stderr)


def _ends_in_time(member: Member) -> bool:
    return holds_within(_LEAVE_TIME, lambda: not is_alive(member))
