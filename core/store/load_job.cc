#include "core/store/load_job.h"

#include <utility>

namespace tenure {

StatusOr<PreparedModel> PrepareModel(OpenCheckpoint checkpoint, ParsedModels& parsed_models,
                                     const Clock& clock, Instant started) {
  const Instant opened = clock.Now();
  TENURE_ASSIGN_OR_RETURN(const std::shared_ptr<const ParsedModel> parsed,
                          parsed_models.Parse(checkpoint));
  std::vector<FileSpan> spans;
  spans.reserve(parsed->sources.size());
  for (const ParsedModel::Source& source : parsed->sources) {
    spans.push_back(FileSpan{.file = checkpoint.shards[source.shard].file.get(),
                             .offset = source.offset,
                             .target = source.target});
  }
  return PreparedModel{.checkpoint = std::move(checkpoint),
                       .layout = std::shared_ptr<const Layout>(parsed, &parsed->layout),
                       .spans = std::move(spans),
                       .started = started,
                       .open = opened - started,
                       .parse = clock.Now() - opened};
}

void LoadJob::Abandon(Status reason) {
  if (!abandoned.has_value()) abandoned = std::move(reason);
  copy.cancelled = true;
}

void LoadJob::CloseFiles() {
  for (Shard& shard : model.checkpoint.shards) shard.file.reset();
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
