#include "server/model_lists.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "server/page_token.h"
#include "server/translate.h"

namespace tenure {
namespace {

constexpr char kModelsList[] = "models";
constexpr char kTensorsList[] = "tensors";
constexpr size_t kMostTensorBytes = size_t{1} << 20;

StatusOr<size_t> PageSize(int32_t asked, size_t usual, size_t most) {
  if (asked < 0) {
    return Error(Reason::kInvalidRequest, "page_size is negative: " + std::to_string(asked));
  }
  return asked == 0 ? usual : std::min(static_cast<size_t>(asked), most);
}

// A page begins after the last model of the page before, whether or not that still exists.
using Position = std::tuple<std::string, std::string, uint64_t, uint64_t>;

Position PositionOf(const ModelView& model) {
  return {model.name, model.device, model.revision.value(), model.region.value()};
}

StatusOr<Position> ReadModelsToken(const std::string& token) {
  TENURE_ASSIGN_OR_RETURN(const std::vector<std::string> fields, ReadPageToken(kModelsList, token));
  if (fields.size() != std::tuple_size_v<Position>) return ReadPosition("").status();
  TENURE_ASSIGN_OR_RETURN(const uint64_t revision, ReadPosition(fields[2]));
  TENURE_ASSIGN_OR_RETURN(const uint64_t region, ReadPosition(fields[3]));
  return Position(fields[0], fields[1], revision, region);
}

}  // namespace

StatusOr<v1::ListModelsResponse> ListModelsPage(const std::vector<ModelView>& models,
                                                const v1::ListModelsRequest& request) {
  TENURE_ASSIGN_OR_RETURN(const size_t page, PageSize(request.page_size(), 100, 1000));
  auto model = models.begin();
  if (!request.page_token().empty()) {
    TENURE_ASSIGN_OR_RETURN(const Position last, ReadModelsToken(request.page_token()));
    model = std::find_if(models.begin(), models.end(),
                         [&last](const ModelView& each) { return PositionOf(each) > last; });
  }
  v1::ListModelsResponse response;
  size_t count = 0;
  for (; model != models.end() && count < page; ++model, ++count) {
    *response.add_models() = ToProto(*model);
  }
  if (model != models.end()) {
    const auto [name, device, revision, region] = PositionOf(*std::prev(model));
    response.set_next_page_token(MakePageToken(
        kModelsList, {name, device, std::to_string(revision), std::to_string(region)}));
  }
  return response;
}

StatusOr<v1::ListTensorsResponse> ListTensorsPage(const ModelView& model,
                                                  const v1::ListTensorsRequest& request) {
  TENURE_ASSIGN_OR_RETURN(const size_t page, PageSize(request.page_size(), 1000, 10'000));
  const Layout& layout = *model.layout;
  const std::string key = layout.key().digest.ToHex();
  const size_t total = layout.specs().size();
  size_t index = 0;
  if (!request.page_token().empty()) {
    TENURE_ASSIGN_OR_RETURN(const std::vector<std::string> fields,
                            ReadPageToken(kTensorsList, request.page_token()));
    if (fields.size() != 2) return ReadPosition("").status();
    TENURE_ASSIGN_OR_RETURN(index, ReadPosition(fields[1]));
    if (fields[0] != key) {
      return Error(Reason::kInvalidRequest,
                   "the model has another architecture by now: start again");
    }
  }
  v1::ListTensorsResponse response;
  response.set_architecture_key(key);
  response.set_alignment(layout.alignment().count());
  response.set_tensor_count(static_cast<uint32_t>(total));
  size_t bytes = 0;
  for (size_t count = 0; index < total && count < page; ++index, ++count) {
    v1::Tensor tensor = ToProto(layout, index);
    bytes += tensor.ByteSizeLong();
    // One tensor always fits, or the list would not go on.
    if (count > 0 && bytes > kMostTensorBytes) break;
    *response.add_tensors() = std::move(tensor);
  }
  if (index < total) {
    response.set_next_page_token(MakePageToken(kTensorsList, {key, std::to_string(index)}));
  }
  return response;
}

}  // namespace tenure
