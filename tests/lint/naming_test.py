"""Feeds naming.py small trees and sees it fail where it must."""

import tempfile
import unittest
from pathlib import Path

import naming


class NamingTest(unittest.TestCase):
    """Each test writes one file into an empty tree and reads the faults."""

    def faults(self, name: str, text: str = "") -> list[str]:
        """Gives what naming.py finds in a tree of this one file."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / name
            path.parent.mkdir(parents=True)
            path.write_text(text, encoding="utf-8")
            return list(naming.faults(Path(folder)))

    def test_good_names_pass(self) -> None:
        self.assertEqual(self.faults("core/base/units.h", "struct DeviceInfo {\n};\n"), [])

    def test_empty_words_in_file_and_folder_names_fail(self) -> None:
        for name in ("core/base/string_util.h", "server/common/a.cc", "tests/helpers.py"):
            self.assertEqual(len(self.faults(name)), 1, name)

    def test_empty_words_in_type_names_fail(self) -> None:
        for text in (
            "class LeaseManager {\n",
            "struct CAPABILITY(\"x\") LockHelper {\n",
            "class BlockUtils final : public Base {\n",
            "using RegionInfo = int;\n",
        ):
            self.assertEqual(len(self.faults("core/lease/lease.h", text)), 1, text)

    def test_uses_of_foreign_types_pass(self) -> None:
        self.assertEqual(self.faults("server/rpc/a.cc", "grpc::ServerContext context;\n"), [])

    def test_a_long_file_fails(self) -> None:
        self.assertEqual(len(self.faults("core/lease/lease.cc", "\n" * 401)), 1)


if __name__ == "__main__":
    unittest.main()
