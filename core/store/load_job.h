#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/checkpoint/checkpoint.h"
#include "core/layout/layout.h"
#include "core/store/load.h"
#include "core/store/parsed_model.h"
#include "core/transfer/copy_engine.h"

namespace tenure {

// A model that is found, parsed and checked, and has no memory yet. `spans` point into
// `checkpoint`.
struct PreparedModel {
  OpenCheckpoint checkpoint;
  std::shared_ptr<const Layout> layout;
  std::vector<FileSpan> spans;
  Instant started;  // when the first call for it came in
  Duration open{};
  Duration parse{};
};

// Parses the open checkpoint and lays it out. Errors as in ParseModel.
StatusOr<PreparedModel> PrepareModel(OpenCheckpoint checkpoint, ParsedModels& parsed_models,
                                     const Clock& clock, Instant started);

// One call that waits for a load.
struct LoadWaiter {
  const LoadRequest& request;
  std::optional<StatusOr<LoadResult>> result;  // set when the load has ended
};

// One load and the calls that wait for it. What is not constant or atomic is guarded by the mutex
// of the DeviceStore that runs it.
struct LoadJob {
  LoadJob(LoadRequest request, PreparedModel model)
      : request(std::move(request)), model(std::move(model)) {}

  // Nobody wants the load any more. The first reason counts.
  void Abandon(Status reason);
  LoadProgress Progress(Instant now) const;
  // For the worker that runs the load: nothing will be read any more.
  void CloseFiles();

  const LoadRequest request;  // of the call that came first
  PreparedModel model;        // constant but for CloseFiles

  CopyProgress copy;
  std::atomic<const char*> stage = "place";

  CondVar done;
  bool running = false;  // it has its turn
  RegionId region;       // what it fills; not valid: none yet
  std::vector<LoadWaiter*> waiters;
  std::optional<Status> abandoned;  // why, once nobody wants it any more
};

}  // namespace tenure
