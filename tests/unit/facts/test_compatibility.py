"""Which releases are made for each other: the matrix of torch_npu, and what version files say."""

import pytest

from preflight.facts import compatibility
from preflight.facts.compatibility import (
    PYTHON,
    TORCH_NPU,
    Stack,
    cann_fits,
    cann_fits_torch_npu,
    driver_fits,
    firmware_fits,
    fitting,
    python_fits,
    release,
)
from preflight.facts.parsers.ascend.packages import Package, package


def said(torch_npu: str | None, cann: str | None, python: str | None) -> list[str]:
    return [sentence for sentence in (cann_fits_torch_npu(torch_npu, cann), python_fits(torch_npu, python)) if sentence]


@pytest.mark.parametrize(
    ("torch_npu", "cann", "python"),
    [
        ("2.1.0.post12", "8.1.RC1", "3.11.4"),
        ("2.1.0.post12", "8.1.rc1", "3.8.18"),
        ("2.7.1.post8", "9.1.0", "3.13.0"),
        ("2.1.0rc1", "7.0.RC1", "3.9.2"),
        ("1.11.0.post3", "6.3.RC3.1", "3.7.5"),
        ("2.5.1", "8.1.RC1.beta1", "3.10.1"),
        ("2.3.1", "8.0.RC2.2", "3.10.1"),
    ],
)
def test_a_row_of_the_matrix_has_nothing_said_of_it(torch_npu: str, cann: str, python: str) -> None:
    assert said(torch_npu, cann, python) == []


@pytest.mark.parametrize(
    ("torch_npu", "cann", "python"),
    [
        ("2.14.0", "9.3.0", "3.15.0"),  # all newer than the table
        ("2.7.1.post1", "8.3.RC1", "3.11.1"),  # a patch the table leaves out
        ("2.7.1", "8.3.RC2", "3.11.1"),  # a CANN it leaves out
        ("2.5.1.post1.dev20250619", "8.1.RC1", "3.10.1"),  # the build of a day
        ("2.6.0", "8.2.RC1.alpha003", "3.10.1"),
        ("2.1.0.post12", None, None),
        (None, "8.1.RC1", "3.6.8"),
        ("2.1.0", "7.0.0", "PyPy"),
    ],
)
def test_what_is_not_in_the_matrix_has_nothing_said_of_it(
    torch_npu: str | None, cann: str | None, python: str | None
) -> None:
    assert said(torch_npu, cann, python) == []


def test_what_is_not_made_for_each_other_is_said_a_sentence_each() -> None:
    assert said("2.1.0.post10", "8.5.0", "3.12.1") == [
        "torch_npu 2.1.0.post10 is built for CANN 8.0.0, but CANN 8.5.0 is installed",
        "torch_npu 2.1.0.post10 is built for Python 3.8 to 3.11, not for 3.12.1",
    ]


def test_no_torch_npu_is_made_for_two_releases_of_cann() -> None:
    builds = [build for builds in TORCH_NPU.values() for build in builds]
    assert len(set(builds)) == len(builds)


def test_the_matrix_knows_the_python_of_every_torch_since_2() -> None:
    wanted = {release(build) for builds in TORCH_NPU.values() for build in builds if build[0] == "2"}
    assert wanted - set(PYTHON) == {"2.0.1"}  # the project names no Python for it


def test_a_capture_of_the_matrix_is_the_matrix(request: pytest.FixtureRequest) -> None:
    directory = request.config.getoption("--captures")
    if directory is None:
        pytest.skip("not run: captures of real tools are not in this repository; give them with --captures DIR")
    rows = [line.split("\t") for line in (directory / "torch_npu-cann-matrix.tsv").read_text("utf-8").splitlines()]
    rows = [row for row in rows if row[2][0].isdigit() and row[2] >= "5.1"]
    assert {(row[0].removesuffix(" (beta)"), row[2]) for row in rows} == {
        (build, cann) for cann, builds in TORCH_NPU.items() for build in builds
    }
    assert {row[1] for row in rows if release(row[0]) != row[1]} == set()


def every_stack() -> list[Stack]:
    """All torch, torch_npu and CANN of the table, in every combination that may be installed."""
    builds = [build for builds in TORCH_NPU.values() for build in builds]
    torches = sorted({release(build) for build in builds})
    return [Stack(torch, build, cann) for torch in torches for build in builds for cann in TORCH_NPU]


def test_what_is_advised_fits_together_and_keeps_what_fits() -> None:
    for installed in every_stack():
        fit = fitting(installed)
        assert fit
        assert release(fit.torch) == release(fit.torch_npu)
        assert cann_fits_torch_npu(fit.torch_npu, fit.cann) == ""
        kept = [getattr(fit, name) == getattr(installed, name) for name in ("torch", "torch_npu", "cann")]
        pair, suits = release(installed.torch) == release(installed.torch_npu), not said(*_of(installed))
        assert kept == [True] * 3 if pair and suits else sum(kept) < 3
        assert kept[1:] == [True, True] if suits else True


def _of(stack: Stack) -> tuple[str, str, None]:
    return stack.torch_npu, stack.cann, None


def test_releases_that_the_table_does_not_have_are_not_replaced() -> None:
    assert fitting(Stack("2.14.0", "2.14.0", "8.0.0")) is None
    assert fitting(Stack("2.1.0", "2.1.0", "9.9.9")) is None
    assert fitting(Stack("2.1.0", "2.1.0", "")) is None


def test_without_torch_the_torch_npu_for_the_cann_is_of_the_same_release() -> None:
    assert fitting(Stack("", "2.1.0", "8.0.0")) == Stack("2.1.0", "2.1.0.post10", "8.0.0")


DRIVER = Package(
    "24.1.rc2", "24.1.rc2", "V100R001C18SPC001B233", (("V100R001C17",), ("V100R001C18",)), (("7.0.0", "7.2.99"),)
)
FIRMWARE = Package("7.1.0.11.220", "23.0.7", takes_driver=(("23.0.rc3", "23.0.rc3."), ("24.1", "24.1.")))


@pytest.mark.parametrize(
    ("firmware", "fits"),
    [
        ("7.2.0.1.231", True),
        ("7.0.0", True),
        ("7.2.99.9.9", True),
        ("7.3.0.1.231", False),
        ("6.9.9", False),
        ("?", None),
    ],
)
def test_a_driver_names_the_firmware_it_takes(firmware: str, fits: bool | None) -> None:
    assert firmware_fits(DRIVER, firmware) is fits
    assert firmware_fits(Package("20.1.0"), firmware) is None


@pytest.mark.parametrize(
    ("driver", "release_", "fits"),
    [
        ("24.1.rc3", "", True),
        ("24.1", "", True),
        ("23.0.rc3", "", True),
        ("23.0.7", "23.0.7", True),  # not in the list, but from the same bundle
        ("23.0.5", "", None),  # a patch of a release that is
        ("25.2.3", "", False),
        ("24.10.0", "", False),
    ],
)
def test_a_firmware_names_the_drivers_it_takes(driver: str, release_: str, fits: bool | None) -> None:
    assert driver_fits(FIRMWARE, Package(driver, release_)) is fits


def test_driver_and_cann_fit_where_one_of_them_names_the_other() -> None:
    newer = Package("8.1.RC1", inner="V100R001C21SPC001B238", takes=(("V100R001C15", "V100R001C21"),))
    older = Package("7.0.0", inner="V100R001C15B100", takes=(("V100R001C13",),))
    assert cann_fits(DRIVER, newer) is True
    assert cann_fits(DRIVER, older) is False
    assert cann_fits(DRIVER, Package("8.0.0", inner="V100R001C17SPC001")) is True
    assert cann_fits(Package("20.1.0"), Package("5.0.2")) is None


def test_the_pairs_that_were_captured_together_fit(request: pytest.FixtureRequest) -> None:
    directory = request.config.getoption("--captures")
    if directory is None:
        pytest.skip("not run: captures of real tools are not in this repository; give them with --captures DIR")

    def read(name: str) -> Package:
        found = package((directory / name).read_text("utf-8")).value
        assert found
        return found

    driver, firmware = read("driver-version.info-23.0.7"), read("firmware-version.info-7.1.0.11.220")
    assert firmware_fits(driver, firmware.version)
    assert driver_fits(firmware, driver)
    assert cann_fits(driver, read("ascend_toolkit_install.info-7.0.T10"))
    assert cann_fits(driver, read("ascend_nnae_install.info-8.0.RC3"))


def test_no_version_however_odd_raises() -> None:
    for odd in ("", ".", "rc", "9" * 5000, "٣.١", "1.2.3.4.5.6", "\x1b[31m", "8.1.RC1.1.1", None):
        said(odd, odd, odd)
        if odd is not None:
            one = Package(odd, odd, odd, ((odd,),), ((odd, odd),), ((odd,),))
            firmware_fits(one, odd)
            driver_fits(one, one)
            cann_fits(one, one)
    assert compatibility.release("2.1.0rc1") == "2.1.0"
