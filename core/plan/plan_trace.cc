#include "core/plan/plan_trace.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <array>
#include <initializer_list>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/plan/text_lines.h"

namespace tenure {
namespace {

using nlohmann::json;

class TraceReader {
 public:
  explicit TraceReader(std::string_view text) : lines_(text) {}

  StatusOr<PlanInput> Read() {
    while (const std::optional<std::string_view> line = lines_.Next()) {
      TENURE_RETURN_IF_ERROR(ReadLine(*line));
    }
    for (size_t i = 0; i < input_.size(); ++i) {
      PlanBuffer& buffer = input_[i];
      if (!uses_[i].written) buffer.first_use = first_step_.value_or(0);
      buffer.end = std::max(*buffer.end, buffer.first_use + 1);
    }
    TENURE_RETURN_IF_ERROR(CheckAtLines(input_, line_of_));
    return std::move(input_);
  }

 private:
  // What has been done with a tensor so far.
  struct Use {
    bool written = false;
    bool read = false;
  };

  Status Fault(const std::string& fault, const std::string& explanation) const {
    return FaultAt(lines_.number(), fault, explanation);
  }
  Status KeyFault(const std::string& fault, const std::string& explanation,
                  const std::string& key) const {
    return FaultAt(lines_.number(), fault, absl::StrCat(explanation, ": ", key), {{"key", key}});
  }
  Status TensorFault(const std::string& fault, const std::string& explanation,
                     const std::string& id) const {
    return FaultAt(lines_.number(), fault, absl::StrCat(explanation, ": '", id, "'"),
                   {{"buffer", id}});
  }

  Status ReadLine(std::string_view text) {
    // nlohmann takes a zero byte for the end of the text and would not see what follows.
    const bool ends_early = text.find('\0') != std::string_view::npos;
    const json line = ends_early ? json(json::value_t::discarded)
                                 : json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (line.is_discarded()) return Fault("not_json", "a line that is no JSON");
    if (!line.is_object()) return Fault("not_an_object", "a line that is no JSON object");
    if (line.contains("tensor")) return Declare(line, "tensor").status();
    if (line.contains("op")) return ReadOperator(line);
    return ReadOutputs(line);
  }

  Status ReadOperator(const json& line) {
    TENURE_RETURN_IF_ERROR(CheckKeys(line, {"op", "inputs", "outputs", "step"}));
    if (!line["op"].is_string()) return BadValue("op");
    TENURE_RETURN_IF_ERROR(ReadStep(line));
    if (!first_step_.has_value()) first_step_ = step_;
    TENURE_ASSIGN_OR_RETURN(const json* inputs, ListOf(line, "inputs"));
    for (const json& input : *inputs) {
      TENURE_ASSIGN_OR_RETURN(const size_t which, Find(input, "inputs"));
      uses_[which].read = true;
      input_[which].end = *step_ + 1;
    }
    TENURE_ASSIGN_OR_RETURN(const json* outputs, ListOf(line, "outputs"));
    for (const json& output : *outputs) TENURE_RETURN_IF_ERROR(Write(output));
    return absl::OkStatus();
  }

  Status ReadStep(const json& line) {
    const auto given = line.find("step");
    const Step least = step_.value_or(0);
    Step step = step_.has_value() ? least + 1 : 0;
    if (given != line.end()) {
      if (!given->is_number_unsigned()) return BadValue("step");
      const auto number = given->get<uint64_t>();
      step = number < uint64_t{kLastStep} ? static_cast<Step>(number) : kLastStep;
    }
    if (step >= kLastStep) return Fault("step_overflow", "a step beyond 2^46");
    if (step < least) return Fault("step_order", "a step before the one of the line before");
    step_ = step;
    return absl::OkStatus();
  }

  Status Write(const json& output) {
    size_t which = 0;
    if (output.is_object()) {
      TENURE_ASSIGN_OR_RETURN(which, Declare(output, "name"));
    } else {
      TENURE_ASSIGN_OR_RETURN(which, Find(output, "outputs"));
    }
    Use& use = uses_[which];
    const std::string& id = input_[which].id;
    if (use.written) return TensorFault("written_twice", "a tensor that is written twice", id);
    if (use.read)
      return TensorFault("written_after_read", "a tensor that is read before it is written", id);
    use.written = true;
    input_[which].first_use = *step_;
    return absl::OkStatus();
  }

  Status ReadOutputs(const json& line) {
    if (!line.contains("outputs")) {
      return KeyFault("missing_key", "a line without one of `tensor`, `op` and `outputs`", "op");
    }
    TENURE_RETURN_IF_ERROR(CheckKeys(line, {"outputs"}));
    TENURE_ASSIGN_OR_RETURN(const json* outputs, ListOf(line, "outputs"));
    for (const json& output : *outputs) {
      TENURE_ASSIGN_OR_RETURN(const size_t which, Find(output, "outputs"));
      input_[which].output = true;
    }
    return absl::OkStatus();
  }

  // Makes a tensor known; its index.
  StatusOr<size_t> Declare(const json& tensor, const char* name_key) {
    TENURE_RETURN_IF_ERROR(CheckKeys(tensor, {name_key, "size", "alignment", "alias_of"}));
    TENURE_ASSIGN_OR_RETURN(std::string id, IdOf(tensor, name_key));
    PlanBuffer buffer{.id = std::move(id)};
    const auto viewed = tensor.find("alias_of");
    if (viewed != tensor.end()) {
      TENURE_ASSIGN_OR_RETURN(const size_t which, Find(*viewed, "alias_of"));
      // Named by the first of its views.
      if (!input_[which].alias_group.has_value()) {
        input_[which].alias_group = static_cast<uint32_t>(which);
      }
      buffer.alias_group = input_[which].alias_group;
      buffer.size = input_[which].size;
    } else if (!tensor.contains("size")) {
      return KeyFault("missing_key", "a tensor without a size", "size");
    }
    TENURE_RETURN_IF_ERROR(ReadBytes(tensor, "size", buffer.size));
    TENURE_RETURN_IF_ERROR(ReadBytes(tensor, "alignment", buffer.alignment));
    const size_t index = input_.size();
    if (!index_of_.try_emplace(buffer.id, index).second) {
      return TensorFault("duplicate_tensor", "a tensor that is made known twice", buffer.id);
    }
    input_.push_back(std::move(buffer));
    uses_.emplace_back();
    line_of_.push_back(lines_.number());
    return index;
  }

  Status CheckKeys(const json& object, std::initializer_list<std::string_view> known) const {
    for (const auto& [key, value] : object.items()) {
      if (std::ranges::find(known, key) != known.end()) continue;
      TENURE_RETURN_IF_ERROR(CheckId(lines_.number(), key));
      return KeyFault("unknown_key", "a key that is not known here", key);
    }
    return absl::OkStatus();
  }

  StatusOr<const json*> ListOf(const json& object, const char* key) const {
    const auto found = object.find(key);
    if (found == object.end()) return &none_;
    if (!found->is_array()) return BadValue(key);
    return &*found;
  }

  StatusOr<std::string> IdOf(const json& object, const char* key) const {
    const auto found = object.find(key);
    if (found == object.end()) return KeyFault("missing_key", "a tensor without a name", key);
    if (!found->is_string()) return BadValue(key);
    std::string id = found->get<std::string>();
    TENURE_RETURN_IF_ERROR(CheckId(lines_.number(), id));
    return id;
  }

  // The index of a tensor that is named under `key`.
  StatusOr<size_t> Find(const json& name, const char* key) const {
    if (!name.is_string()) return BadValue(key);
    const auto& id = name.get_ref<const std::string&>();
    TENURE_RETURN_IF_ERROR(CheckId(lines_.number(), id));
    const auto found = index_of_.find(id);
    if (found == index_of_.end()) {
      return TensorFault("unknown_tensor", "a tensor that is not known", id);
    }
    return found->second;
  }

  // Leaves `bytes` as it is without such a key.
  Status ReadBytes(const json& object, const char* key, Bytes& bytes) const {
    const auto found = object.find(key);
    if (found == object.end()) return absl::OkStatus();
    if (!found->is_number_unsigned()) return BadValue(key);
    bytes = Bytes(found->get<uint64_t>());
    return absl::OkStatus();
  }

  Status BadValue(const std::string& key) const {
    return KeyFault("bad_value", "a value that is not of the right kind", key);
  }

  const json none_ = json::array();
  TextLines lines_;
  std::optional<Step> first_step_;
  std::optional<Step> step_;  // of the last operator
  PlanInput input_;
  std::vector<Use> uses_;        // of each
  std::vector<size_t> line_of_;  // each
  std::unordered_map<std::string, size_t> index_of_;
};

}  // namespace

StatusOr<PlanInput> ParsePlanTrace(std::string_view text) { return TraceReader(text).Read(); }

}  // namespace tenure
