#include "core/store/load_job.h"

#include <utility>

namespace tenure {

StatusOr<PreparedModel> PrepareModel(OpenCheckpoint checkpoint, const Clock& clock,
                                     Instant started) {
  const Instant opened = clock.Now();
  TENURE_ASSIGN_OR_RETURN(const std::vector<TensorSource> tensors, ParseTensors(checkpoint));
  std::vector<TensorSpec> specs;
  specs.reserve(tensors.size());
  for (const TensorSource& tensor : tensors) specs.push_back(tensor.spec);
  TENURE_ASSIGN_OR_RETURN(Layout layout, Layout::Of(std::move(specs)));

  // Files keep their tensors in an order of their own; spans follow the files, so that reads run
  // forward.
  std::vector<FileSpan> spans;
  spans.reserve(tensors.size());
  for (const TensorSource& tensor : tensors) {
    if (tensor.range.empty()) continue;
    spans.push_back(FileSpan{.file = checkpoint.shards[tensor.shard].file.get(),
                             .offset = tensor.range.begin(),
                             .target = layout.places()[layout.Find(tensor.spec.name)]});
  }
  return PreparedModel{.checkpoint = std::move(checkpoint),
                       .layout = std::make_shared<const Layout>(std::move(layout)),
                       .spans = std::move(spans),
                       .started = started,
                       .open = opened - started,
                       .parse = clock.Now() - opened};
}

void LoadJob::Abandon(Status reason) {
  if (!abandoned.has_value()) abandoned = std::move(reason);
  copy.cancelled = true;
}

LoadProgress LoadJob::Progress(Instant now) const {
  const uint64_t done = copy.bytes_done.load(std::memory_order_relaxed);
  const double seconds = std::chrono::duration<double>(now - model.started).count();
  return LoadProgress{.stage = stage.load(std::memory_order_relaxed),
                      .done = Bytes(done),
                      .total = model.layout->tensor_bytes(),
                      .bytes_per_second = seconds > 0 ? static_cast<double>(done) / seconds : 0};
}

}  // namespace tenure
