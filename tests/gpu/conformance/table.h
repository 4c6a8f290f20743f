#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/gpu/conformance/driver_api.h"

namespace tenure::conformance {

// What a row answers when the driver accepted the call but what it gave is not as documented.
inline constexpr int kWrongValue = -1;

// What the rows of a table work with.
struct Scene {
  DriverApi cuda;
  CUdevice device = 0;
  CUcontext context = nullptr;  // of the device, once it is retained
  size_t granularity = 0;       // of its memory
};

// One thing that NVIDIA documents: a call, and the results it may have. It leaves nothing behind.
struct Row {
  std::string name;
  std::vector<int> expected;  // CUresults; several where the documentation names no single one
  int (*run)(Scene&);
};
using Table = std::vector<Row>;

// In the order in which they are run. The first is for a process that has not initialised the
// driver; then the device has no context in this process; then it has one, current to the thread.
Table BeforeInitialisation();
Table WithoutContext();
Table ContextRows();
Table VirtualMemoryRows();
Table SharingRows();
Table MemoryRows();
Table StreamRows();
// Ends its context; for a process of its own.
Table ContextsEnd();

// What happened to a row.
struct Outcome {
  Row row;
  int actual = 0;
  bool as_documented() const;
};

}  // namespace tenure::conformance
