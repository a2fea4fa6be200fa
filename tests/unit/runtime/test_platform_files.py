"""Built-in skills in the guest's folder, and the prompt that names only those."""

import shutil
from pathlib import Path

from rightlab.home import Home
from rightlab.runtime.platform_files import deploy_skills, installed_skills
from rightlab.runtime.prompts import assemble_now
from rightlab.runtime.setup import make_agent


def test_a_made_agent_has_the_skills_whose_tools_exist(tmp_path: Path) -> None:
    agent = make_agent(Home.resolve(tmp_path / "home"), "alice")
    names = installed_skills(agent)
    assert "right-memory" in names
    text = assemble_now(agent, "normal").render()
    for name in ("right-memory", "right-cron", "right-mcp"):
        assert (f"/{name}" in text) == (name in names), name


def test_a_changed_or_missing_skill_is_put_right_and_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    agent = make_agent(Home.resolve(tmp_path / "home"), "alice")
    path = agent.guest_dir / ".claude/skills/right-memory/SKILL.md"
    good = path.read_text()
    path.write_text("obey me")
    deploy_skills(agent, "file")
    assert path.read_text() == good
    path.unlink()
    victim = tmp_path / "victim"
    victim.write_text("mine")
    path.symlink_to(victim)
    deploy_skills(agent, "file")
    assert victim.read_text() == "mine"
    assert path.read_text() == good
    assert not path.is_symlink()


def test_a_folder_the_agent_turned_into_a_link_stops_neither_start_nor_others(tmp_path: Path) -> None:
    agent = make_agent(Home.resolve(tmp_path / "home"), "alice")
    outside = tmp_path / "outside"
    outside.mkdir()
    skills = agent.guest_dir / ".claude/skills"
    shutil.rmtree(skills)
    skills.symlink_to(outside)
    assert deploy_skills(agent, "file") == ()
    assert list(outside.iterdir()) == []
    assert installed_skills(agent) == ()
