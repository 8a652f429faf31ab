import pytest

from preflight.model.ports import PortSet


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("", ""),
        ("\n", ""),
        ("60000-60031", "60000-60031"),
        ("60031,60000-60030", "60000-60031"),
        ("5,1-3,2-4", "1-5"),
        ("7,9,", "7,9"),
        ("65535", "65535"),
    ],
)
def test_a_port_list_is_normalised_as_the_kernel_prints_it(text: str, normal: str) -> None:
    assert str(PortSet.parse(text)) == normal


@pytest.mark.parametrize("text", ["1, 2", "5-3", "65536", ",5", "a", "1-", "-1", "1 2", "²"])
def test_what_the_kernel_refuses_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        PortSet.parse(text)


def test_union_difference_and_subset_work_on_ports_not_on_text() -> None:
    have, want = PortSet.parse("30000,60000-60015"), PortSet.parse("60000-60031")
    assert str(have | want) == "30000,60000-60031"
    assert str(want - have) == "60016-60031"
    assert str(PortSet.parse("1-10") - PortSet.parse("3,5-6")) == "1-2,4,7-10"
    assert want <= have | want
    assert not want <= have
    assert 60031 in want
    assert 60032 not in want
    assert len(want) == len(list(want)) == 32
