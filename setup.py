"""Puts recipes/ into a wheel, for `regard recipes`; all else is in pyproject.toml."""

from pathlib import Path
from shutil import copytree

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithRecipes(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:  # a clone has them beside src/
            copytree("recipes", Path(self.build_lib, "regard", "recipes"), dirs_exist_ok=True)


setup(cmdclass={"build_py": BuildWithRecipes})
