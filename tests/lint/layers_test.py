"""Feeds layers.py small trees and sees it fail where it must."""

import tempfile
import unittest
from pathlib import Path

import layers


class LayersTest(unittest.TestCase):
    """Each test writes files into an empty tree and reads the faults."""

    def faults(self, files: dict[str, str]) -> list[str]:
        """Gives what layers.py finds in a tree of these files."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = Path(folder) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return list(layers.faults(Path(folder)))

    def test_an_include_down_is_fine(self) -> None:
        files = {"server/main.cc": '#include "core/base/units.h"\n#include "core/store/store.h"\n'}
        self.assertEqual(self.faults(files), [])

    def test_an_include_up_fails_with_file_and_line(self) -> None:
        files = {"core/base/units.h": '#pragma once\n#include "core/device/device.h"\n'}
        self.assertEqual(
            self.faults(files), ["core/base/units.h:2: core/base must not see core/device"]
        )

    def test_an_include_sideways_fails(self) -> None:
        files = {"core/model/model.h": '#include "core/region/region.h"\n'}
        self.assertEqual(
            self.faults(files), ["core/model/model.h:1: core/model must not see core/region"]
        )

    def test_clients_see_neither_core_nor_server(self) -> None:
        for target in ("core/base/units.h", "server/rpc/map.h"):
            files = {"client/cpp/client.cc": f'#include "{target}"\n'}
            self.assertEqual(len(self.faults(files)), 1, target)

    def test_a_folder_without_a_layer_fails(self) -> None:
        files = {"core/new/thing.h": '#include "core/base/units.h"\n'}
        self.assertEqual(len(self.faults(files)), 1)

    def test_foreign_libraries_stay_in_their_folders(self) -> None:
        for include in (
            "<cuda.h>",
            "<cuda_runtime_api.h>",
            "<grpcpp/grpcpp.h>",
            "<google/protobuf/message.h>",
            '"tenure/v1/models.pb.h"',
            "<prometheus/registry.h>",
            "<civetweb.h>",
            "<absl/log/log.h>",
            "<absl/synchronization/mutex.h>",
        ):
            files = {"core/lease/lease.cc": f"#include {include}\n"}
            self.assertEqual(len(self.faults(files)), 1, include)

    def test_foreign_libraries_are_fine_where_they_belong(self) -> None:
        files = {
            "core/device/cuda_driver.cc": "#include <cuda.h>\n",
            "server/rpc/models.cc": '#include <grpcpp/grpcpp.h>\n#include "tenure/v1/models.pb.h"\n',
            "server/http/metrics.cc": "#include <prometheus/registry.h>\n",
            "tests/e2e/load.cc": "#include <grpcpp/grpcpp.h>\n",
        }
        self.assertEqual(self.faults(files), [])

    def test_public_client_headers_show_no_grpc(self) -> None:
        files = {"client/cpp/include/tenure/client.h": "#include <grpcpp/grpcpp.h>\n"}
        self.assertEqual(len(self.faults(files)), 1)

    def test_clocks_are_named_in_one_place(self) -> None:
        use = "auto now = std::chrono::steady_clock::now();\n"
        self.assertEqual(len(self.faults({"server/ticker.cc": use})), 1)
        self.assertEqual(self.faults({"core/base/clock.cc": use, "tests/bench/load.cc": use}), [])
        wall = "auto now = std::chrono::system_clock::now();\n"
        self.assertEqual(len(self.faults({"core/store/store.cc": wall})), 1)
        self.assertEqual(self.faults({"server/rpc/deadline.cc": wall}), [])

    def test_comments_do_not_count(self) -> None:
        text = '// #include "server/a.h"\n/* steady_clock\n#include <cuda.h> */\nint x;  // system_clock\n'
        self.assertEqual(self.faults({"core/base/units.h": text}), [])

    def test_the_core_tests_see_the_core_only(self) -> None:
        files = {"tests/core/store/store_test.cc": '#include "server/rpc/map.h"\n'}
        self.assertEqual(len(self.faults(files)), 1)


if __name__ == "__main__":
    unittest.main()
