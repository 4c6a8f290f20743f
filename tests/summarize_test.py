"""Feeds summarize.py the reports of ctest and pytest."""

import tempfile
import unittest
from pathlib import Path

import summarize

CTEST = """<testsuite name="Linux-c++">
  <testcase name="A.Passes" status="run"/>
  <testcase name="A.Fails" status="fail"><failure message="Failed"/></testcase>
  <testcase name="A.Skips" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
    <system-out>a_test.cc:3: Skipped
no huge pages here
</system-out></testcase>
  <testcase name="lint.b" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>
    <system-out>SKIP: no network
</system-out></testcase>
  <testcase name="C.Lost" status="notrun"><skipped message="Unable to find executable"/></testcase>
  <testcase name="D.Off" status="disabled"/>
</testsuite>"""

PYTEST = """<testsuites><testsuite name="pytest">
  <testcase classname="tests.a" name="test_passes"/>
  <testcase classname="tests.a" name="test_errs"><error message="boom"/></testcase>
  <testcase classname="tests.a" name="test_skips"><skipped message="needs a GPU">x</skipped></testcase>
</testsuite></testsuites>"""


class SummarizeTest(unittest.TestCase):
    """Each test writes the files of one run and reads its stages."""

    def stage(self, junit: str | None, status: int) -> summarize.Stage:
        """Gives the one stage of a run with this JUnit text and exit status."""
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "junit.xml"
            if junit is not None:
                report.write_text(junit, encoding="utf-8")
            lines = Path(folder) / "stages.tsv"
            lines.write_text(f"release\tg++\t-\t1\t2\t{status}\t{report}\n", encoding="utf-8")
            return summarize.read_stages(lines)[0]

    def test_ctest_reports_are_counted(self) -> None:
        stage = self.stage(CTEST, 8)
        self.assertEqual(stage.passed, 1)
        self.assertEqual(stage.failed, ["A.Fails", "C.Lost (Unable to find executable)"])
        self.assertEqual(
            stage.skipped,
            [("A.Skips", "no huge pages here"), ("lint.b", "no network"), ("D.Off", "disabled")],
        )

    def test_pytest_reports_are_counted(self) -> None:
        stage = self.stage(PYTEST, 1)
        self.assertEqual((stage.passed, stage.failed), (1, ["test_errs"]))
        self.assertEqual(stage.skipped, [("test_skips", "needs a GPU")])

    def test_those_on_the_cuda_backend_are_told_by_their_name(self) -> None:
        cases = "".join(f'<testcase name="{name}"/>' for name in ("A.B", "CudaA.B", "Backends/A.B/Cuda"))
        stage = self.stage(f"<testsuite>{cases}</testsuite>", 0)
        self.assertEqual((stage.passed, stage.passed_on_cuda), (3, 2))

    def test_a_stage_that_did_not_build_failed(self) -> None:
        self.assertEqual(self.stage(None, 1).failed, ["ended with 1 before a test ran"])

    def test_a_runner_that_failed_without_a_failed_test_failed(self) -> None:
        report = '<testsuite><testcase name="A.Passes" status="run"/></testsuite>'
        self.assertEqual(self.stage(report, 8).failed, ["the runner ended with 8"])

    def test_a_stage_without_tests_failed(self) -> None:
        self.assertEqual(self.stage("<testsuite/>", 0).failed, ["no test ran"])


if __name__ == "__main__":
    unittest.main()
