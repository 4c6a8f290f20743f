#include "client/cli/plan_svg.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <functional>
#include <numeric>
#include <string_view>

#include "client/cli/format.h"
#include "client/cli/xml.h"

namespace tenure::cli {
namespace {

// Where the plot lies in the picture.
constexpr double kWidth = 1200;
constexpr double kHeight = 700;
constexpr double kLeft = 90;
constexpr double kRight = kWidth - 20;
constexpr double kTop = 50;
constexpr double kBottom = kHeight - 50;

constexpr double kLetter = 6.5;  // as wide as one is, about
constexpr double kLine = 14;
constexpr double kLeast = 0.5;          // what is smaller would not be seen
constexpr size_t kMostOutlined = 2000;  // more lines would hide the colours
constexpr uint64_t kMostByteTicks = 8;
constexpr Step kMostStepTicks = 12;

constexpr char kStyle[] =
    "<style>text{font:11px sans-serif;fill:#333}.big{font-size:15px}.y{text-anchor:end}"
    ".x{text-anchor:middle}.name{pointer-events:none}path{fill:none;stroke:#999}"
    ".tick{stroke:#ddd}.bound{stroke:#07a;stroke-dasharray:2 3}"
    ".capacity{stroke:#c00;stroke-width:1.5;stroke-dasharray:7 4}.capacity-name{fill:#c00}"
    "</style>\n";

[[gnu::format(printf, 2, 3)]] void Append(std::string& text, const char* format, ...) {
  std::array<char, 512> piece{};
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(piece.data(), piece.size(), format, arguments);
  va_end(arguments);
  text.append(piece.data(), std::min(static_cast<size_t>(length), piece.size() - 1));
}

// A light colour, as #rrggbb.
std::string ColourOf(std::string_view id) {
  uint64_t hash = 14695981039346656037U;  // FNV-1a
  for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  hash ^= hash >> 29;
  const double hue = static_cast<double>(hash % 360);
  const double lightness = 0.66 + static_cast<double>(hash / 360 % 5) * 0.04;
  const double reach = 0.55 * std::min(lightness, 1 - lightness);
  const auto part = [&](double shift) {
    const double k = std::fmod(shift + hue / 30, 12);
    const double value = lightness - reach * std::max(-1.0, std::min({k - 3, 9 - k, 1.0}));
    return static_cast<unsigned>(std::lround(255 * value));
  };
  std::string colour;
  Append(colour, "#%02x%02x%02x", part(0), part(8), part(4));
  return colour;
}

// The least of 1, 2, 5, 10, 20, ... with which there are few ticks.
Step StepsPerTick(Step steps) {
  for (Step unit = 1;; unit *= 10) {
    for (const Step factor : {1, 2, 5}) {
      if (steps / (unit * factor) <= kMostStepTicks) return unit * factor;
    }
  }
}

// A power of two.
uint64_t BytesPerTick(uint64_t bytes) {
  uint64_t unit = 1;
  while (bytes / unit > kMostByteTicks) unit *= 2;
  return unit;
}

class Picture {
 public:
  Picture(const PlanInput& input, const std::vector<Bytes>& offsets, const PlanPicture& picture)
      : input_(input), offsets_(offsets), picture_(picture) {
    if (!input.empty()) begin_ = kLastStep;
    for (const PlanBuffer& buffer : input) {
      begin_ = std::min(begin_, buffer.first_use);
      end_ = std::max(end_, buffer.end.value_or(buffer.first_use + 1));
    }
    top_ = std::max<uint64_t>(1, picture.height.count());
    if (ShowsCapacity()) top_ = std::max(top_, picture.capacity->count());
  }

  std::string Draw() {
    svg_ = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
    Append(svg_,
           "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" role=\"img\" "
           "style=\"background:#fff\">\n",
           kWidth, kHeight);
    svg_ += "<title>" + XmlText(picture_.title) + "</title>\n" + kStyle;
    DrawAxes();
    const bool outlined = input_.size() <= kMostOutlined;
    svg_ += outlined ? "<g stroke=\"#000\" stroke-opacity=\".35\" stroke-width=\".5\">\n" : "<g>\n";
    for (const size_t i : LargestFirst()) DrawBuffer(i);
    svg_ += "</g>\n";
    DrawLevels();
    svg_ += "</svg>\n";
    return std::move(svg_);
  }

 private:
  double X(Step step) const {
    return kLeft + (kRight - kLeft) * static_cast<double>(step - begin_) /
                       static_cast<double>(end_ - begin_);
  }
  double Y(uint64_t offset) const {
    return kBottom - (kBottom - kTop) * static_cast<double>(offset) / static_cast<double>(top_);
  }

  // One that is far above would leave nothing to see of the plan.
  bool ShowsCapacity() const {
    return picture_.capacity.has_value() &&
           picture_.capacity->count() / 2 <= picture_.height.count();
  }

  // So that a view is seen on what it is a view of.
  std::vector<size_t> LargestFirst() const {
    std::vector<size_t> order(input_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return input_[i].size; });
    return order;
  }

  void DrawAxes() {
    Append(svg_, "<text class=\"big\" x=\"%g\" y=\"24\">", kLeft);
    svg_ += XmlText(picture_.title) + "</text>\n";
    const uint64_t bytes = BytesPerTick(top_);
    for (uint64_t at = 0; at <= top_; at += bytes) {
      Append(svg_, "<path class=\"tick\" d=\"M%g %.2fH%g\"/><text class=\"y\" x=\"%g\" y=\"%.2f\">",
             kLeft, Y(at), kRight, kLeft - 6, Y(at) + 4);
      svg_ += FormatBytes(at) + "</text>\n";
    }
    const Step steps = StepsPerTick(end_ - begin_);
    for (Step at = (begin_ + steps - 1) / steps * steps; at <= end_; at += steps) {
      Append(svg_,
             "<path d=\"M%.2f %gv5\"/><text class=\"x\" x=\"%.2f\" y=\"%g\">%" PRId64 "</text>\n",
             X(at), kBottom, X(at), kBottom + 18, at);
    }
    Append(svg_, "<path d=\"M%g %gV%gH%g\"/>\n", kLeft, kTop, kBottom, kRight);
    Append(svg_, "<text class=\"x\" x=\"%g\" y=\"%g\">step</text>\n", (kLeft + kRight) / 2,
           kBottom + 38);
    Append(svg_, "<text class=\"y\" x=\"%g\" y=\"%g\">offset</text>\n", kLeft - 6, kTop - 12);
  }

  void DrawBuffer(size_t index) {
    const PlanBuffer& buffer = input_[index];
    const std::string title = TitleOf(index);
    const std::string colour = ColourOf(buffer.id);
    Step begin = buffer.first_use;
    for (const Lifespan& gap : buffer.gaps) {
      DrawPart(index, {begin, gap.begin}, colour, title);
      begin = gap.end;
    }
    const Step end = buffer.output ? end_ : buffer.end.value_or(end_);
    DrawPart(index, {begin, end}, colour, title);
  }

  void DrawPart(size_t index, const Lifespan& span, const std::string& colour,
                const std::string& title) {
    const uint64_t offset = offsets_[index].count();
    const double bottom = Y(offset);
    const double height = std::max(kLeast, bottom - Y(offset + input_[index].size.count()));
    const double x = X(span.begin);
    const double width = std::max(kLeast, X(span.end) - x);
    Append(svg_, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\"><title>",
           x, bottom - height, width, height, colour.c_str());
    svg_ += title + "</title></rect>\n";
    const std::string& id = input_[index].id;
    if (height < kLine || width < kLetter * static_cast<double>(id.size() + 1)) return;
    Append(svg_, "<text class=\"name x\" stroke=\"none\" x=\"%.2f\" y=\"%.2f\">", x + width / 2,
           bottom - height / 2 + 4);
    svg_ += XmlText(id) + "</text>\n";
  }

  std::string TitleOf(size_t index) const {
    const PlanBuffer& buffer = input_[index];
    std::string title = XmlText(buffer.id) + ": " + FormatBytes(buffer.size.count()) + " at " +
                        std::to_string(offsets_[index].count()) + ", steps " +
                        std::to_string(buffer.first_use);
    title += buffer.end.has_value() ? " to " + std::to_string(*buffer.end - 1) : " on";
    if (!buffer.gaps.empty()) title += ", " + std::to_string(buffer.gaps.size()) + " gaps";
    if (buffer.output) title += ", kept to the end";
    return title;
  }

  void DrawLevels() {
    Append(svg_, "<path class=\"bound\" d=\"M%g %.2fH%g\"><title>lower bound ", kLeft,
           Y(picture_.lower_bound.count()), kRight);
    svg_ += FormatBytes(picture_.lower_bound.count()) + "</title></path>\n";
    if (!ShowsCapacity()) return;
    const double y = Y(picture_.capacity->count());
    Append(svg_, "<path class=\"capacity\" d=\"M%g %.2fH%g\"/>", kLeft, y, kRight);
    Append(svg_, "<text class=\"y capacity-name\" x=\"%g\" y=\"%.2f\">capacity ", kRight, y - 4);
    svg_ += FormatBytes(picture_.capacity->count()) + "</text>\n";
  }

  const PlanInput& input_;
  const std::vector<Bytes>& offsets_;
  const PlanPicture& picture_;
  // What is shown: steps [begin_, end_), offsets up to top_.
  Step begin_ = 0;
  Step end_ = 1;
  uint64_t top_ = 1;
  std::string svg_;
};

}  // namespace

std::string DrawPlan(const PlanInput& input, const std::vector<Bytes>& offsets,
                     const PlanPicture& picture) {
  return Picture(input, offsets, picture).Draw();
}

}  // namespace tenure::cli
