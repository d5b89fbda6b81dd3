import pytest

from compiler import pipeline
from compiler.diagnostics import ProfileError, render
from compiler.pipeline import compile_profile
from compiler.resolve.overrides import Override
from compiler.resolve.selection import Selection


@pytest.fixture
def profile(tmp_path):
    (tmp_path / "base.yaml").write_text("limits: {max_images: 3}\n")
    path = tmp_path / "profile.yaml"
    path.write_text("extends: ./base.yaml\nmodels: {aliases: [a]}\n")
    return path


def compiled(path, override=None):
    return compile_profile(Selection("file", str(path), "SOURCE"), override)


def test_the_same_sources_give_the_same_bytes_from_any_folder(profile, monkeypatch):
    """Neither the folder that the compiler runs in nor the spelling of the path shows in the artifact."""
    absolute = compiled(profile).data()
    monkeypatch.chdir(profile.parent)
    assert compiled("profile.yaml").data() == absolute
    monkeypatch.chdir("/")
    assert compiled(profile.relative_to("/")).data() == absolute
    assert str(profile.parent).encode() not in absolute


def test_sources_are_listed_from_the_compiled_file_up_and_the_flag_last(profile):
    """Reviewers read the sources in the order in which one would look things up."""
    sources = compiled(profile, Override('{"n": 1}')).artifact.sources
    assert [(source.kind, source.name) for source in sources] == [
        ("file", "profile.yaml"),
        ("file", "base.yaml"),
        ("flag", "--override-sampling-params"),
    ]


def test_a_comment_changes_the_source_and_not_the_digest(profile):
    """The digest speaks of the contract alone; the hash of the source tells that the file changed."""
    before = compiled(profile).artifact
    profile.write_text(f"# a comment\n{profile.read_text()}")
    after = compiled(profile).artifact
    assert before.digest == after.digest
    assert before.sources[0] != after.sources[0]


def test_order_of_keys_and_spelling_of_values_do_not_matter(profile, tmp_path):
    """Two ways of writing one contract give one digest."""
    other = tmp_path / "other.yaml"
    other.write_text('{"models": {"aliases": ["a"]}, "limits": {max_images: 3.0, max_body_bytes: 32 MiB}}')
    assert compiled(other).artifact.digest == compiled(profile).artifact.digest


def test_an_artifact_that_no_router_would_read_is_not_written(profile, monkeypatch):
    """Above the size that routers read, the compiler refuses instead of writing."""
    monkeypatch.setattr(pipeline, "MAX_ARTIFACT_BYTES", 100)
    with pytest.raises(ProfileError) as caught:
        compiled(profile).data()
    message, hint = render(*caught.value.diagnostics).splitlines()
    assert message.endswith("bytes; a router reads at most 100")
    assert hint == "  hint: list fewer or shorter aliases"


def test_a_stem_too_long_for_a_name_is_told(tmp_path):
    """A profile without a name needs a file name that can serve as one."""
    path = tmp_path / f"{'x' * 220}.yaml"
    path.write_text("limits: {max_images: 1}\n")
    with pytest.raises(ProfileError, match="too long to be the profile's name"):
        compiled(path)
    path.write_text("name: short\n")
    assert compiled(path).artifact.name == "short"
