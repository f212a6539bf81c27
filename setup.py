"""Run-time dependencies live once, in requirements.txt; everything else is in pyproject.toml."""

from pathlib import Path

from setuptools import setup

lines = Path(__file__).with_name("requirements.txt").read_text().splitlines()
setup(install_requires=[line for line in lines if line and not line.startswith(("#", "-"))])
