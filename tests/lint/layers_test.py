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

    def test_clients_see_the_offset_allocator_and_what_it_needs_and_nothing_else(self) -> None:
        for target in ("core/arena/offset_allocator.h", "core/base/units.h"):
            files = {"client/cpp/pool.cc": f'#include "{target}"\n'}
            self.assertEqual(self.faults(files), [], target)
        for target in ("core/arena/ledger.h", "core/device/device.h", "server/rpc/map.h"):
            files = {"client/cpp/pool.cc": f'#include "{target}"\n'}
            self.assertEqual(len(self.faults(files)), 1, target)

    def test_tenurectl_sees_the_planner_where_it_plans(self) -> None:
        for path in ("command_plan.cc", "plan_svg.h"):
            for target in ("core/plan/make_plan.h", "core/base/clock.h"):
                files = {f"client/cli/{path}": f'#include "{target}"\n'}
                self.assertEqual(self.faults(files), [], path)
            files = {f"client/cli/{path}": '#include "core/store/store.h"\n'}
            self.assertEqual(len(self.faults(files)), 1, path)
        files = {"client/cli/command_load.cc": '#include "core/plan/make_plan.h"\n'}
        self.assertEqual(len(self.faults(files)), 1)

    def test_the_offset_allocator_is_a_layer_within_its_folder(self) -> None:
        for name in ("offset_allocator.cc", "offset_allocator_validate.cc"):
            path = f"core/arena/{name}"
            below = '#include "core/arena/offset_allocator.h"\n#include "core/base/units.h"\n'
            self.assertEqual(self.faults({path: below}), [])
            for target in ("core/arena/ledger.h", "core/device/segment.h"):
                self.assertEqual(
                    self.faults({path: f'#include "{target}"\n'}),
                    [f"{path}:1: core/arena/offset_allocator must not see {Path(target).parent}"],
                )
        self.assertEqual(
            self.faults({"core/arena/pool.cc": '#include "core/arena/offset_allocator.h"\n'}), []
        )

    def test_a_folder_without_a_layer_fails(self) -> None:
        for folder in ("new", "model_new"):
            files = {f"core/{folder}/thing.h": '#include "core/base/units.h"\n'}
            self.assertEqual(len(self.faults(files)), 1, folder)

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

    def test_of_the_clients_only_the_sources_of_the_library_see_the_core(self) -> None:
        for path in ("cpp/include/tenure/pool.h", "cpp/examples/pool.cc", "cli/pool.cc"):
            files = {f"client/{path}": '#include "core/base/units.h"\n'}
            self.assertEqual(len(self.faults(files)), 1, path)

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
