"""`profilec demo`: shows a contract at work, with a real router under gunicorn in front of an engine."""

import signal
import sys
from argparse import Namespace
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from compiler.artifact.to_profile import profile_of
from compiler.cli.exit_codes import FAILED, OK
from compiler.cli.loading import selection_of
from compiler.demo.harness import Harness
from compiler.demo.report import DemoReport
from compiler.demo.rules import rule_scenes
from compiler.demo.scenes import Overlay, clamp_scene, overlay_scenes, profile_scenes
from compiler.pipeline import compile_profile
from compiler.resolve.selection import Selection
from compiler.resolve.streams import artifact_of
from compiler.source.yaml_writer import yaml_of


def show(arguments: Namespace) -> int:
    """Show a profile at work.

    Returns 0 if every request went as its contract says, else 1. Raises ProfileError if the profile does not compile,
    HarnessError if the engine or a router does not come up.
    """
    # A closed terminal or SIGTERM must stop the processes of the demo, as Ctrl-C does.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    with TemporaryDirectory(prefix="profilec-demo-") as folder:
        selection = _as_profile(selection_of(arguments), Path(folder))
        return _play(selection, arguments.engine, Path(folder), keep=arguments.keep)


def _as_profile(selection: Selection, folder: Path) -> Selection:
    """Return the selected profile; of an artifact or a stream, a file that means the same."""
    if selection.kind != "artifact" and selection.content is None:
        return selection
    is_artifact = selection.kind == "artifact"
    values = profile_of(artifact_of(selection)) if is_artifact else compile_profile(selection).values()
    path = folder / f"{Path(selection.name).stem}.yaml"
    path.write_bytes(yaml_of(values))
    return Selection("file", str(path), selection.chosen_by)


def _play(selection: Selection, engine_url: str | None, folder: Path, *, keep: bool) -> int:
    report = DemoReport(sys.stdout)
    artifact = compile_profile(selection).artifact
    with Harness(engine_url) as harness:
        harness.open_engine()
        rejecting, clamping = (Overlay(selection, on_exceed) for on_exceed in ("reject", "clamp"))
        plain, reject, clamp = harness.open_routers(
            [artifact, rejecting.compile_in(folder), clamping.compile_in(folder)], folder
        )
        report.introduce(artifact, harness.engine)
        shown = (*profile_scenes(artifact.contract), *rule_scenes(artifact.contract, harness.engine.model))
        rows = [scene.play(harness.engine, plain) for scene in shown]
        report.show(rows)
        report.introduce_overlay(rejecting)
        clamped = clamp_scene(artifact.contract).play(harness.engine, clamp)
        overlaid = [scene.play(harness.engine, reject) for scene in overlay_scenes(artifact.contract)]
        report.show([overlaid[0], clamped, *overlaid[1:]])
        as_expected = all(row.as_expected for row in (*rows, clamped, *overlaid))
        report.conclude(as_expected=as_expected)
        if keep:
            report.invite(plain)
            with suppress(KeyboardInterrupt):
                signal.pause()
    return OK if as_expected else FAILED
