"""Fleet over gVisor: what of `fleet.py` depends on the isolation of computers. The pages are the same."""

from fleet import deleted_elsewhere, many, new_computer, pictures
from playwright.sync_api import expect
from scene import Scene, run


def flow(scene: Scene) -> None:
    pictures(scene)
    new_computer(scene, "one")
    new_computer(scene, "two")
    page = scene.page
    page.goto("/console")
    expect(page.get_by_role("list", name="Computers").get_by_role("listitem")).to_have_count(3)
    many(scene)
    deleted_elsewhere(scene)


if __name__ == "__main__":
    run(flow)
